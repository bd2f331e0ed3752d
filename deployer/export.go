package deployer

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/artifact/export"
	"bootstrap/deployer/compilation"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
)

// exports are the compiled releases of a deployment, each with the jobs that the deployment
// has and the packages that they need.
type exports struct {
	path string // file or folder
	list []*exported
}

// exported is a compiled release.
type exported struct {
	stemcell string // os/version
	release  *artifact.Release
	jobs     []*artifact.Job
	packages []*artifact.Package
	ids      map[string]string // of packages, by name; see workers
}

// ExportError says that compiled releases cannot be written.
type ExportError struct {
	Why   string // with what to do
	Usage bool   // the arguments are wrong
}

func (e *ExportError) Error() string { return "cannot export compiled releases: " + e.Why }

func (e *ExportError) Name() string { return "compile-export" }

func (e *ExportError) ExitCode() failure.Code {
	if e.Usage {
		return failure.Usage
	}
	return failure.Failed
}

// add adds the releases of the jobs of an instance group.
func (x *exports) add(a *instance.Artifacts, d *delivery) {
	on := a.Stemcell.OS + "/" + a.Stemcell.Version
	for _, ref := range a.Compiling() {
		rel := a.Releases[ref.Release]
		job := rel.Job(ref.Name)
		e := x.of(rel, on)
		if !slices.Contains(e.jobs, job) {
			e.jobs = append(e.jobs, job)
		}
		for _, name := range job.Packages {
			e.add(name, d)
		}
	}
}

// of returns the compiled release for a stemcell.
func (x *exports) of(rel *artifact.Release, stemcell string) *exported {
	for _, e := range x.list {
		if e.release.Name == rel.Name && e.stemcell == stemcell {
			return e
		}
	}
	e := &exported{stemcell: stemcell, release: rel, ids: map[string]string{}}
	x.list = append(x.list, e)
	return e
}

// add adds a package of the release and those that it needs.
func (e *exported) add(name string, d *delivery) {
	p := e.release.Package(name)
	if _, has := e.ids[name]; has || p == nil { // CheckPackages has reported a missing package
		return
	}
	// Another release may have the same package: it is compiled once.
	for _, l := range d.order {
		if l.Package.Name == name {
			e.ids[name] = idOf(d.keys[name], l.Package)
		}
	}
	for _, needed := range p.Dependencies {
		e.add(needed, d)
	}
	e.packages = append(e.packages, p)
}

// isFile reports whether the path is that of a file.
func (x *exports) isFile() bool {
	return strings.HasSuffix(x.path, ".tgz") || strings.HasSuffix(x.path, ".tar.gz")
}

// check refuses a path for one file if there are several releases, two releases with the same
// file, and an empty list.
func (x *exports) check() error {
	switch {
	case len(x.list) == 0:
		return &ExportError{Why: "no job of the manifest has a release to compile"}
	case len(x.list) > 1 && x.isFile():
		names := make([]string, len(x.list))
		for i, e := range x.list {
			names[i] = fmt.Sprintf("%s for %s", e.release.Name, e.stemcell)
		}
		return &ExportError{Why: fmt.Sprintf("%s is a file, but there are %d releases: %s; name a folder", x.path, len(names), strings.Join(names, ", ")), Usage: true}
	}
	files := map[string]bool{}
	for _, e := range x.list {
		name := e.file()
		if files[name] {
			return &ExportError{Why: fmt.Sprintf("%s would be written twice, because groups with jobs of the release %s have different stemcells that are all %s; give these groups the same stemcell", name, e.release.Name, e.stemcell)}
		}
		files[name] = true
	}
	return nil
}

// file returns the name of the file in a folder.
func (e *exported) file() string {
	return export.FileName(e.release.Name, e.release.Version, e.stemcell)
}

// planExport returns the releases that Compile exports to a path, and makes w compile
// their packages; nil: the path is empty.
func (r *run) planExport(ctx context.Context, w *workers, path string) (*exports, error) {
	if path == "" {
		return nil, nil
	}
	x := &exports{path: path}
	x.add(r.artifacts, r.packages.delivery)
	if err := x.check(); err != nil {
		return nil, err
	}
	return x, w.wantAll(ctx)
}

// wantAll makes w compile all packages that no VM without jobs has compiled. Packages
// that the deployment's own VMs have compiled are not enough: others must not trust
// these.
func (w *workers) wantAll(ctx context.Context) error {
	w.exports = true
	for _, id := range w.order {
		p := w.packages[id]
		if p.wanted || p.Package.Compiled() {
			continue
		}
		if err := w.wantIfMissing(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// write writes the releases. w has compiled their packages.
func (x *exports) write(ctx context.Context, w *workers, out *report.Output) ([]compilation.Exported, error) {
	if x == nil {
		return nil, nil
	}
	path, err := filepath.Abs(x.path)
	if err != nil {
		return nil, &ExportError{Why: fmt.Sprintf("cannot find the absolute path of %s: %v", x.path, err)}
	}
	dir := path
	if x.isFile() {
		dir = filepath.Dir(path)
	}
	if err := atomicfile.MkdirAll(dir, 0o700); err != nil {
		return nil, &ExportError{Why: fmt.Sprintf("%v; name a folder that you can write to", err)}
	}
	var list []compilation.Exported
	for _, e := range x.list {
		r, err := e.contents(ctx, w)
		if err != nil {
			return list, err
		}
		done := compilation.Exported{Release: r.Name, Version: r.Version, Stemcell: e.stemcell, Path: path}
		if !x.isFile() {
			done.Path = filepath.Join(dir, e.file())
		}
		err = out.Do(fmt.Sprintf("Writing compiled release '%s/%s'", r.Name, r.Version), func(*report.Stage) error {
			done.Digest, err = export.Write(ctx, done.Path, r)
			return err
		})
		if err != nil {
			return list, err
		}
		list = append(list, done)
	}
	return list, nil
}

// contents returns the contents of a compiled release.
func (e *exported) contents(ctx context.Context, w *workers) (export.Release, error) {
	rel := e.release
	r := export.Release{Name: rel.Name, Version: rel.Version, CommitHash: rel.CommitHash, UncommittedChanges: rel.UncommittedChanges, Jobs: e.jobs}
	for _, p := range e.packages {
		from := export.Package{Name: p.Name, Fingerprint: p.Fingerprint, Dependencies: p.Dependencies, Stemcell: cmp.Or(p.Stemcell, e.stemcell), Path: p.Archive, Digest: p.Digest}
		if !p.Compiled() {
			of := w.packages[e.ids[p.Name]]
			switch {
			case of == nil:
				return r, fmt.Errorf("package %s of release %s was not compiled", p.Name, rel.Name)
			case of.Package.Compiled():
				from.Path, from.Digest = of.Package.Archive, of.Package.Digest
				r.Packages = append(r.Packages, from)
				continue
			case of.bound:
				return r, &ExportError{Why: fmt.Sprintf("package %s of release %s contains the path of the VM that compiles it, so it works only there; let VMs be namespaces, or of a stemcell (see docs/local.md)", p.Name, rel.Name)}
			}
			found, ok, err := w.find(ctx, of)
			if err != nil {
				return r, err
			}
			if !ok {
				return r, fmt.Errorf("the compiled package %s of release %s is not in the cache any more; run the same command again", p.Name, rel.Name)
			}
			from.Path, from.Digest = found.Path, found.Digest
		}
		r.Packages = append(r.Packages, from)
	}
	return r, nil
}
