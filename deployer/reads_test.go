package deployer

import (
	"bootstrap/artifact"
	"bootstrap/deployer/instance"
	"bootstrap/manifest"
)

// reads makes m the manifest of the run, as if it was read.
func (r *run) reads(m *manifest.Manifest) {
	in := &instance.Inputs{Request: r.t.Request}
	in.UseManifest(m)
	r.take(in)
}

// fetched makes these the artifacts of the run, as if they were fetched.
func (r *run) fetched(releases map[string]*artifact.Release, stemcell *artifact.Stemcell) {
	r.use(&instance.Artifacts{Inputs: r.in, Releases: releases, Stemcell: stemcell})
}
