package deployer

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"bootstrap/artifact"
	"bootstrap/internal/scratch"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// boshIO has the stemcells for warden.
const boshIO = "https://bosh.io/api/v1/stemcells/bosh-warden-boshlite-{os}"

// warden returns where the stemcell of VMs on this machine is looked for; ok is false if
// packages are not compiled there. asked is local=SOURCE or local.
func warden(asked, os string) (source string, ok bool) {
	kind, source, _ := strings.Cut(asked, "=")
	switch {
	case kind != "local":
		return "", false
	case source != "":
		return source, true
	case slices.Contains([]string{"ubuntu-trusty", "ubuntu-xenial", "ubuntu-bionic", "ubuntu-jammy"}, os):
		return boshIO + "-go_agent", true
	}
	return boshIO, true
}

// LocalStemcellError says that there is no stemcell for VMs on this machine.
type LocalStemcellError struct {
	OS, Version string // of the manifest's
	Err         error
}

func (e *LocalStemcellError) Error() string {
	return fmt.Sprintf("cannot compile packages on this machine: %v; name a stemcell for warden with the operating system %s and the version %s with --compile local=SOURCE", e.Err, e.OS, e.Version)
}

func (e *LocalStemcellError) Name() string { return "compile-local" }

func (e *LocalStemcellError) Unwrap() error { return e.Err }

// localManifest is the manifest of a compilation VM on this machine.
//
//go:embed compile_local.yml
var localManifest string

// localWorkers returns workers with VMs on this machine. The keys of their packages have
// the digest of their own stemcell; adopt adds keys for the owners of this run.
func (r *run) localWorkers(ctx context.Context, source string) (*workers, error) {
	want := r.artifacts.Stemcell
	fail := func(err error) (*workers, error) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, &LocalStemcellError{OS: want.OS, Version: want.Version, Err: err}
	}
	finder := r.t.Env.Catalog("", document.Options{})
	found, err := finder.FindStemcell(ctx, source, want.OS, want.Version)
	if err != nil {
		return fail(err)
	}
	m, err := readLocalManifest(ctx, found.URL, found.SHA1)
	if err != nil {
		return nil, fmt.Errorf("cannot make the manifest of a compilation VM: %w", err)
	}
	a, err := r.t.Beside(m).Fetch(ctx, m.Releases, m.CPI.Templates, true)
	if err != nil {
		return fail(err)
	}
	if is := a.Stemcell; is.OS != want.OS || is.Version != want.Version || arm(is) != arm(want) {
		return fail(fmt.Errorf("the stemcell %s has the operating system %s and the version %s, but that of the manifest, %s, has %s and %s", is.Name, is.OS, is.Version, want.Name, want.OS, want.Version))
	}
	if !runsHere(a.Stemcell) {
		return fail(fmt.Errorf("the stemcell %s is not for warden or docker", a.Stemcell.Name))
	}
	how := m.Compilation
	if section := r.in.Manifest.Compilation; section.Asked {
		how.Workers = section.Workers
	}
	w := r.newWorkers(how)
	w.artifacts, w.original = a, want
	return w, nil
}

// planLocally plans compilation VMs on this machine for the missing packages of a delivery.
// deliver plans the delivery again.
func (r *run) planLocally(ctx context.Context, source string, deliver func(context.Context) error) error {
	w, err := r.localWorkers(ctx, source)
	if err != nil {
		return err
	}
	return r.useWorkers(ctx, w, deliver)
}

// runsHere reports whether the stemcell is for VMs of this machine, or does not say for
// which.
func runsHere(sc *artifact.Stemcell) bool {
	places := slices.Clone(sc.Formats)
	if infrastructure, ok := sc.CloudProperties["infrastructure"].(string); ok {
		places = append(places, infrastructure)
	}
	return len(places) == 0 || slices.ContainsFunc(places, func(place string) bool {
		return place == "local" || strings.HasPrefix(place, "warden") || strings.HasPrefix(place, "docker")
	})
}

// arm reports whether the stemcell is for ARM processors, according to its name.
func arm(sc *artifact.Stemcell) bool {
	return strings.Contains(sc.Name, "arm64") || strings.Contains(sc.Name, "aarch64")
}

// readLocalManifest returns the manifest of a VM of a stemcell. It has a password and a
// certificate of its own.
func readLocalManifest(ctx context.Context, url, digest string) (*manifest.Manifest, error) {
	dir, err := scratch.New("", "compile")
	if err != nil {
		return nil, err
	}
	defer func() { _ = dir.Remove() }()
	var text bytes.Buffer
	shape, err := template.New("").Funcs(template.FuncMap{"json": func(text string) (string, error) {
		quoted, err := json.Marshal(text)
		return string(quoted), err
	}}).Parse(localManifest)
	if err == nil {
		err = shape.Execute(&text, map[string]string{"URL": url, "Digest": digest})
	}
	if err != nil {
		return nil, err
	}
	return manifest.Load(ctx, "-", document.Options{Stdin: &text, VarsStore: filepath.Join(dir.Path, "vars.yml"), Generate: document.Write})
}

// keyOf returns the key of a package that the VMs compile, from its key in the cache.
func (w *workers) keyOf(key artifact.CompiledKey) artifact.CompiledKey {
	if w.original == nil {
		return key
	}
	key.Sources = slices.Clone(key.Sources)
	for i, of := range key.Sources {
		if of == sourceOf(w.original) {
			key.Sources[i] = sourceOf(w.artifacts.Stemcell)
		}
	}
	return key
}

// spare leaves out packages that VMs have already compiled for other owners, such as other
// instances of the group.
func (w *workers) spare(ctx context.Context) error {
	for _, id := range w.order {
		p := w.packages[id]
		if !p.wanted {
			continue
		}
		if err := w.wantIfMissing(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// adopt lets the owners of this run use the packages that VMs have compiled, if these have
// another stemcell than the owners, or if a source is unknown. Other owners do not get them.
func (w *workers) adopt(ctx context.Context) error {
	for _, id := range w.order {
		p := w.packages[id]
		if p.Package.Compiled() || w.original == nil && !slices.Contains(p.key.Sources, "") {
			continue
		}
		found, ok, err := w.find(ctx, p)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		keys := make([]artifact.CompiledKey, len(w.owners))
		for i, owner := range w.owners {
			keys[i] = p.key
			keys[i].Owner = owner
		}
		if err := w.store.ShareCompiled(ctx, found, keys...); err != nil {
			return err
		}
	}
	return nil
}
