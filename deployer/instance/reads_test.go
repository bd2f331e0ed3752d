package instance

import "bootstrap/manifest"

// reads makes m the manifest of the instance, as if it was read.
func reads(d *Instance, m *manifest.Manifest) *Inputs {
	d.read = &Inputs{Request: d.Request, Manifest: m}
	return d.read
}
