package deployer

import (
	"context"
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
	"bootstrap/cpi/installation"
	"bootstrap/deployer/instance"
	"bootstrap/internal/digest"
	"bootstrap/internal/guard"
)

// packages brings the packages of the jobs to the VM.
type packages struct {
	*work
	host     *instance.Host
	delivery *delivery                    // set by plan: the source of each package
	spec     map[string]agent.SpecPackage // set by prepare and compile: entries for the apply spec
}

// delivery says where the VM gets each package from.
type delivery struct {
	order    []instance.Located // all packages, dependencies first
	kept     []instance.Located // on the VM already
	cached   []instance.Located // compiled before, and in this machine's cache
	compiled []instance.Located // compiled in the release
	missing  []instance.Located // to be compiled on the VM

	keys  map[string]artifact.CompiledKey // keys of all packages by name; without an owner
	there map[string]agent.SpecPackage    // kept packages by name, as the agent reports them
	blobs map[string]*upload              // all other packages by name
	trust trust

	uploads  *uploads // nil until the uploads begin
	keeping  sync.WaitGroup
	oneKeeps sync.Mutex   // Compiled packages are fetched one at a time, which leaves bandwidth for uploads.
	arrived  atomic.Int64 // number of received bytes
	// keepCtx is the context for fetching packages; nil before that begins. stopKeeping
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
	return slices.ContainsFunc(d.missing, func(l instance.Located) bool { return l.Package == p })
}

// planDelivery decides how each package gets to a VM that has the packages have, and is
// of the kind machine. It changes nothing.
func (pk *packages) planDelivery(ctx context.Context, have map[string]agent.SpecPackage, machine string) error {
	err := pk.sort(ctx, have, machine)
	if err != nil || pk.missing() == 0 || len(pk.delivery.kept) == 0 || pk.look.Running == nil {
		return err
	}
	// Compiling removes all packages from the VM: unchanged ones are installed again.
	if have, err = pk.withBlobs(ctx, pk.delivery.kept, have); err != nil {
		return err
	}
	return pk.sort(ctx, have, machine)
}

// planDeliveryToNew is planDelivery for a new VM without packages.
func (pk *packages) planDeliveryToNew(ctx context.Context) error {
	return pk.planDelivery(ctx, nil, pk.host.NewMachine(ctx).Kind)
}

// withBlobs returns have without the packages whose blobs the agent has lost,
// for example with its ephemeral disk.
func (pk *packages) withBlobs(ctx context.Context, kept []instance.Located, have map[string]agent.SpecPackage) (map[string]agent.SpecPackage, error) {
	found := make([]bool, len(kept))
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(4)
	for i, l := range kept {
		g.Go(guard.Func(func() (err error) {
			found[i], err = pk.look.Running.HasBlob(ctx, have[l.Package.Name].BlobstoreID)
			return err
		}))
	}
	if err := g.Wait(); err != nil {
		return nil, fmt.Errorf("cannot find out which packages the VM has: %w", err)
	}
	have = maps.Clone(have)
	for i, l := range kept {
		if p := have[l.Package.Name]; !found[i] {
			p.BlobstoreID = ""
			have[l.Package.Name] = p
		}
	}
	return have, nil
}

func (pk *packages) sort(ctx context.Context, have map[string]agent.SpecPackage, machine string) error {
	order, err := pk.artifacts.PackageOrder()
	if err != nil {
		return err
	}
	d := &delivery{
		order: order,
		keys:  map[string]artifact.CompiledKey{},
		there: map[string]agent.SpecPackage{},
		blobs: map[string]*upload{},
		trust: newTrust(pk.owners(), order),
	}
	on := compiledOn(pk.artifacts.Stemcell, machine)
	for _, l := range order {
		p := l.Package
		key := d.compiledKey(p, on, sourceOf(pk.artifacts.Stemcell))
		d.keys[p.Name] = key
		if onVM(p, key, have) {
			d.kept = append(d.kept, l)
			d.there[p.Name] = have[p.Name] // It is unchanged, because the name of the folder depends on it.
			continue
		}
		up := &upload{id: uuid.NewString(), path: p.Archive, digest: p.Digest, done: make(chan struct{})}
		d.blobs[p.Name] = up
		if p.Compiled() {
			d.compiled = append(d.compiled, l)
			continue
		}
		found, ok, err := d.trust.find(ctx, pk.rec.Env.Store, key)
		switch {
		case err != nil:
			return fmt.Errorf("cannot look for package %s in the cache: %w", p.Name, err)
		case ok:
			up.path, up.digest = found.Path, found.Digest
			d.cached = append(d.cached, l)
			d.trust.cached(p.Name, found)
		default:
			d.missing = append(d.missing, l)
		}
	}
	pk.delivery = d
	return nil
}

// missing returns the number of packages that are compiled on the VM.
func (pk *packages) missing() int { return len(pk.delivery.missing) }

// compiledOn names the system for which packages are compiled on an embedded VM of this
// kind, or with this stemcell.
func compiledOn(sc *artifact.Stemcell, machine string) string {
	on := sc.OS + "/" + sc.Version
	switch {
	case slices.Contains(sc.Formats, "local"):
		// The VM runs on this machine, whose system is not in the stemcell's name.
		on += fmt.Sprintf(" on %s %s", installation.Machine(), runtime.GOARCH)
		if machine == agent.MachineNamespace {
			on += " below /var/vcap" // files of packages may contain that path
		}
	case strings.Contains(sc.Name, "arm64") || strings.Contains(sc.Name, "aarch64"):
		on += " arm64" // only the stemcell's name has the processor
	}
	return on
}

// compiledKey returns the key of a compiled package in the cache, without an owner. It
// needs the keys of the dependencies. stemcell identifies the stemcell's content.
func (d *delivery) compiledKey(p *artifact.Package, on, stemcell string) artifact.CompiledKey {
	key := artifact.CompiledKey{Name: p.Name, Fingerprint: p.Fingerprint, Stemcell: on, Sources: []string{stemcell, source(p)}}
	for _, name := range p.Dependencies {
		dep := d.keys[name]
		key.Dependencies = append(key.Dependencies, dep.Name+"/"+dep.Fingerprint)
		key.Dependencies = append(key.Dependencies, dep.Dependencies...)
		key.Sources = append(key.Sources, dep.Sources...)
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
	// A package that was compiled with another version of a dependency is a different
	// package.
	for _, dep := range key.Dependencies {
		name, fingerprint, _ := strings.Cut(dep, "/")
		if have[name].Version != fingerprint {
			return false
		}
	}
	return true
}
