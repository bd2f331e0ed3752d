package manifest

import (
	"maps"
	"slices"
)

// publicNames adds the names of the manifest's parts to those of its document.
func (m *Manifest) publicNames(document []string) []string {
	names := map[string]bool{m.Name: true, m.Group.Name: true}
	for _, name := range document {
		names[name] = true
	}
	for _, r := range m.Releases {
		names[r.Name] = true
	}
	for _, n := range m.Networks {
		names[n.Name] = true
	}
	for _, job := range append(slices.Clone(m.Group.Jobs), m.CPI.Templates...) {
		names[job.Name], names[job.Release] = true, true
	}
	delete(names, "")
	return slices.Sorted(maps.Keys(names))
}
