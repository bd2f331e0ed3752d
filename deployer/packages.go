package deployer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/cpi/build"
	"bootstrap/internal/digest"
	"bootstrap/internal/guard"
)

// located is a package with its release.
type located struct {
	release string
	pkg     *artifact.Package
}

// packageOrder lists the packages of the group's jobs, dependencies first. It
// refuses two releases with different packages of the same name, because the VM
// has one folder per name.
func (r *run) packageOrder() ([]located, error) {
	var (
		order []located
		errs  []error
		done  = map[string]located{}
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
			if seen.pkg.Fingerprint != p.Fingerprint {
				errs = append(errs, fmt.Errorf("releases %s and %s bring different packages named %s: one VM can have only one", seen.release, rel.Name, name))
			}
			return
		}
		path = append(path, name)
		for _, d := range p.Dependencies {
			visit(rel, d, "package "+name)
		}
		path = path[:len(path)-1]
		done[name] = located{rel.Name, p}
		order = append(order, done[name])
	}
	for _, ref := range r.manifest.Group.Jobs {
		rel := r.releases[ref.Release]
		for _, name := range rel.Job(ref.Name).Packages {
			visit(rel, name, "job "+ref.Name)
		}
	}
	return order, errors.Join(errs...)
}

// delivery says how each package gets to the VM.
type delivery struct {
	order    []located // all of them, dependencies first
	kept     []located // on the VM already
	cached   []located // compiled before: in the cache of this machine
	compiled []located // compiled in the release
	missing  []located // to be compiled on the VM

	keys  map[string]artifact.CompiledKey // by name, of all
	there map[string]agent.SpecPackage    // by name, of kept: exactly as the agent reports them
	blobs map[string]*upload              // by name, of all others

	uploads  *uploads // nil until they begin
	keeping  sync.WaitGroup
	oneKeeps sync.Mutex   // fetching one package at a time leaves bandwidth for uploads
	arrived  atomic.Int64 // bytes that have arrived
	// keepCtx is the context of fetching, nil before it begins; stopKeeping
	// ends it.
	keepCtx     context.Context
	stopKeeping context.CancelCauseFunc
}

// upload is an archive for the agent's blobstore, compiled or source.
type upload struct {
	id, path, digest string
	done             chan struct{} // closed when the agent has it
}

func (d *delivery) isMissing(p *artifact.Package) bool {
	return slices.ContainsFunc(d.missing, func(l located) bool { return l.pkg == p })
}

// planDelivery finds out how each package gets to a VM that has these packages,
// nil for a new VM. It changes nothing.
func (r *run) planDelivery(ctx context.Context, have map[string]agent.SpecPackage) error {
	err := r.sortPackages(ctx, have)
	if err != nil || r.compileCount() == 0 || len(r.delivery.kept) == 0 || r.running == nil {
		return err
	}
	// Compiling removes all packages from the VM: those that do not change are
	// installed again.
	if have, err = r.withBlobs(ctx, r.delivery.kept, have); err != nil {
		return err
	}
	return r.sortPackages(ctx, have)
}

// withBlobs returns have without the packages whose blobs the agent has lost,
// for example with its ephemeral disk.
func (r *run) withBlobs(ctx context.Context, kept []located, have map[string]agent.SpecPackage) (map[string]agent.SpecPackage, error) {
	found := make([]bool, len(kept))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, l := range kept {
		g.Go(guard.Func(func() (err error) {
			found[i], err = r.running.HasBlob(ctx, have[l.pkg.Name].BlobstoreID)
			return err
		}))
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("cannot see which packages the VM has: %w", err)
	}
	have = maps.Clone(have)
	for i, l := range kept {
		if p := have[l.pkg.Name]; !found[i] {
			p.BlobstoreID = ""
			have[l.pkg.Name] = p
		}
	}
	return have, nil
}

func (r *run) sortPackages(ctx context.Context, have map[string]agent.SpecPackage) error {
	order, err := r.packageOrder()
	if err != nil {
		return err
	}
	d := &delivery{
		order: order,
		keys:  map[string]artifact.CompiledKey{},
		there: map[string]agent.SpecPackage{},
		blobs: map[string]*upload{},
	}
	for _, l := range order {
		p := l.pkg
		key := d.compiledKey(p, compiledOn(r.stemcell))
		d.keys[p.Name] = key
		if onVM(p, key, have) {
			d.kept = append(d.kept, l)
			d.there[p.Name] = have[p.Name] // unchanged, because the name of the folder depends on it
			continue
		}
		up := &upload{id: uuid.NewString(), path: p.Archive, digest: p.Digest, done: make(chan struct{})}
		d.blobs[p.Name] = up
		if p.Compiled() {
			d.compiled = append(d.compiled, l)
			continue
		}
		found, ok, err := r.store.Compiled(ctx, key)
		switch {
		case err != nil:
			return fmt.Errorf("cannot look for package %s in the cache: %w", p.Name, err)
		case ok:
			up.path, up.digest = found.Path, found.Digest
			d.cached = append(d.cached, l)
		default:
			d.missing = append(d.missing, l)
		}
	}
	r.delivery = d
	return nil
}

// compileCount returns how many packages are compiled on the VM.
func (r *run) compileCount() int { return len(r.delivery.missing) }

// compiledOn returns the system that compiled packages of a stemcell run on.
func compiledOn(sc *artifact.Stemcell) string {
	on := sc.OS + "/" + sc.Version
	switch {
	case slices.Contains(sc.Formats, "local"):
		// The VM runs on this machine, and the stemcell does not name it.
		on += fmt.Sprintf(" on %s %s", build.Machine(), runtime.GOARCH)
	case strings.Contains(sc.Name, "arm64") || strings.Contains(sc.Name, "aarch64"):
		on += " arm64" // only the name contains it
	}
	return on
}

// compiledKey returns the key of a compiled package in the cache; it needs the
// keys of the dependencies.
func (d *delivery) compiledKey(p *artifact.Package, on string) artifact.CompiledKey {
	key := artifact.CompiledKey{Name: p.Name, Fingerprint: p.Fingerprint, Stemcell: on}
	for _, name := range p.Dependencies {
		dep := d.keys[name]
		key.Dependencies = append(key.Dependencies, dep.Name+"/"+dep.Fingerprint)
		key.Dependencies = append(key.Dependencies, dep.Dependencies...)
	}
	return key
}

// onVM reports whether the VM has the compiled package.
func onVM(p *artifact.Package, key artifact.CompiledKey, have map[string]agent.SpecPackage) bool {
	there := have[p.Name]
	if there.Name != p.Name || there.Version != p.Fingerprint || there.BlobstoreID == "" || there.SHA1 == "" {
		return false
	}
	if p.Compiled() {
		return digest.Share(there.SHA1, p.Digest)
	}
	// Compiled with another version of a dependency, the package is not the
	// same.
	for _, dep := range key.Dependencies {
		name, fingerprint, _ := strings.Cut(dep, "/")
		if have[name].Version != fingerprint {
			return false
		}
	}
	return true
}
