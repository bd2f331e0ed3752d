package instance

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest"
)

// Located is a package with its release.
type Located struct {
	Release string
	Package *artifact.Package
}

// bpmJob is the job of bpm-release. The embedded CPI provides the package of that name in
// VMs of stemcells.
const bpmJob = "bpm"

// provided reports whether the VM already has the programs of the job, so that its
// packages are not needed.
func (a *Artifacts) provided(job manifest.JobRef) bool {
	return a.provider(job) != ""
}

// provider returns the stemcell or CPI that provides the programs of the job; empty: they
// are in the packages of the job.
func (a *Artifacts) provider(job manifest.JobRef) string {
	switch {
	case a.Stemcell != nil && slices.Contains(a.Stemcell.ProvidedJobs, job.Name):
		return a.Stemcell.Name
	case job.Name == bpmJob && a.EmbeddedCPI() && a.hasImage(a.Stemcell):
		return "the embedded CPI"
	}
	return ""
}

// Compiling lists the jobs of the group whose packages are compiled: all but those that the
// VM already has.
func (a *Artifacts) Compiling() []manifest.JobRef {
	return slices.DeleteFunc(slices.Clone(a.Manifest.Group.Jobs), a.provided)
}

// PackageOrder lists the packages of the group's jobs, dependencies first. It
// refuses two releases with different packages of the same name, because the VM
// has one folder per name.
func (a *Artifacts) PackageOrder() ([]Located, error) {
	var (
		order []Located
		errs  []error
		done  = map[string]Located{}
		path  []string
		visit func(rel *artifact.Release, name, wantedBy string)
	)
	visit = func(rel *artifact.Release, name, wantedBy string) {
		p := rel.Package(name)
		if p == nil {
			errs = append(errs, fmt.Errorf("release %s has no package %s, which %s needs", rel.Name, name, wantedBy))
			return
		}
		for i, n := range path {
			if n == name {
				errs = append(errs, fmt.Errorf("packages of release %s depend on each other in a circle: %s", rel.Name, strings.Join(append(path[i:], name), " -> ")))
				return
			}
		}
		if seen, ok := done[name]; ok {
			if seen.Package.Fingerprint != p.Fingerprint {
				errs = append(errs, fmt.Errorf("releases %s and %s contain different packages named %s: one VM can have only one", seen.Release, rel.Name, name))
			}
			return
		}
		path = append(path, name)
		for _, d := range p.Dependencies {
			visit(rel, d, "package "+name)
		}
		path = path[:len(path)-1]
		done[name] = Located{rel.Name, p}
		order = append(order, done[name])
	}
	for _, ref := range a.Compiling() {
		rel := a.Releases[ref.Release]
		for _, name := range rel.Job(ref.Name).Packages {
			visit(rel, name, "job "+ref.Name)
		}
	}
	return order, errors.Join(errs...)
}
