package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"bootstrap/artifact"
	"bootstrap/deployer/compilation"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
)

// workers compile packages on compilation VMs, on at most how.Workers of them at the
// same time.
type workers struct {
	opts      Options // of the run that needs the packages
	out       *report.Output
	report    *report.Stage // the part of the output about the VMs
	how       manifest.Compilation
	artifacts *instance.Artifacts
	store     *artifact.Store
	states    *instance.Workers
	ledger    string   // address of the ledger in which the VMs reserve addresses
	owners    []string // of packages whose sources are not all known
	// original is the stemcell of the manifest, if the VMs are on this machine and have
	// another one; nil: they have the manifest's.
	original *artifact.Stemcell

	// keepStemcell is true if the states of the VMs stay with the stemcell that they have
	// uploaded, until EndCompile.
	keepStemcell bool

	// Of several instances: the deployment, and the instance group whose settings the VMs
	// have.
	deployment *manifest.Deployment
	group      string
	// exports is true if others get the packages: only what VMs without jobs have compiled
	// counts.
	exports bool
	// deliver plans the delivery of the packages again; nil: there is none.
	deliver func(context.Context) error

	packages map[string]*toCompile // by id, with those that exist already
	order    []string              // their ids, dependencies first

	mu      sync.Mutex
	wake    *sync.Cond // wakes VMs that wait for a package
	graph   *compilation.Graph
	running int   // packages that are compiled
	failed  error // the first failure
}

// toCompile is a package that VMs compile or use.
type toCompile struct {
	instance.Located
	key      artifact.CompiledKey
	own      map[string]bool   // sources of the packages that all its users compile
	users    [][]string        // owners of the packages of each user
	needs    map[string]string // ids of the packages with which it is compiled, by name
	wanted   bool              // it must be compiled
	tries    int
	compiled bool // this run has compiled it
	bound    bool // it contains the path of its VM: each VM must compile it
}

// ApartError says that packages cannot be compiled on a compilation VM.
type ApartError struct {
	Why string // with what to do
}

func (e *ApartError) Error() string {
	return "cannot compile packages on a compilation VM: " + e.Why
}

func (e *ApartError) Name() string { return "compile-apart" }

// refuse returns an *ApartError if there can be no compilation VM. vm is the CID of the
// instance's VM; empty: it has none.
func (a *workers) refuse(vm string) error {
	switch {
	case a.how.Worker == nil:
		return &ApartError{Why: cmp.Or(a.how.Refused, "the manifest does not say how its agent is reached") + "; add a section compilation with a manual network to the cloud config"}
	case a.how.Fixed && vm != "":
		return &ApartError{Why: "its agent would be expected at " + a.how.Worker.CPI.MBusURL.Host + ", where VM " + vm + " is; write 0.0.0.0 in cloud_provider.mbus, which stands for the address of each VM, and give the VMs a manual network"}
	}
	return nil
}

// add adds the packages of an instance, and marks the missing ones for compiling.
func (a *workers) add(d *delivery, owners []string) {
	for _, owner := range owners {
		if !slices.Contains(a.owners, owner) {
			a.owners = append(a.owners, owner)
		}
	}
	ids := map[string]string{}
	for _, l := range d.order {
		key := d.keys[l.Package.Name]
		id := idOf(key, l.Package)
		ids[l.Package.Name] = id
		p := a.packages[id]
		if p == nil {
			p = &toCompile{Located: l, key: a.keyOf(key), own: maps.Clone(d.trust.own), needs: map[string]string{}}
			for _, name := range l.Package.Dependencies {
				p.needs[name] = ids[name]
			}
			a.packages[id], a.order = p, append(a.order, id)
		}
		p.users = append(p.users, owners)
		maps.DeleteFunc(p.own, func(source string, _ bool) bool { return !d.trust.own[source] })
	}
	for _, l := range d.missing {
		a.packages[ids[l.Package.Name]].wanted = true
	}
}

// find looks for a package that all its users may have. Only this function decides that, for
// a plan and for the VMs: no VM is made for packages that the cache has.
func (a *workers) find(ctx context.Context, p *toCompile) (found artifact.Compiled, ok bool, err error) {
	t, users := trust{own: p.own}, [][]string{nil}
	if slices.Contains(p.key.Sources, "") {
		users = p.users
	}
	for _, owners := range users {
		t.owners = jobless(owners)
		if !a.exports {
			t.owners = append(t.owners, owners...)
		}
		found, ok, err = t.find(ctx, a.store, p.key)
		if err != nil {
			return found, false, fmt.Errorf("cannot look for package %s in the cache: %w", p.Package.Name, err)
		}
		if !ok {
			break
		}
	}
	return found, ok, nil
}

// wantIfMissing marks a package for compiling, unless a VM without jobs has compiled it.
func (a *workers) wantIfMissing(ctx context.Context, p *toCompile) error {
	_, found, err := a.find(ctx, p)
	p.wanted = err == nil && !found
	return err
}

// keys returns the keys under which the cache keeps a package of a VM without jobs.
func (a *workers) keys(p *toCompile) []artifact.CompiledKey {
	if !slices.Contains(p.key.Sources, "") {
		return []artifact.CompiledKey{p.key}
	}
	var list []artifact.CompiledKey
	for _, owner := range slices.Concat(a.owners, jobless(a.owners)) {
		key := p.key
		key.Owner = owner
		list = append(list, key)
	}
	return list
}

// jobless returns the names under which the cache keeps, for owners, only what VMs without
// jobs have compiled: their own VMs use the other names, too.
func jobless(owners []string) []string {
	list := make([]string, len(owners))
	for i, owner := range owners {
		list[i] = "VMs without jobs of " + owner
	}
	return list
}

// complete also marks packages with which others are compiled, unless a VM without jobs
// has compiled them before.
func (a *workers) complete(ctx context.Context) error {
	for _, id := range slices.Backward(a.order) {
		p := a.packages[id]
		if !p.wanted {
			continue
		}
		for _, need := range p.needs {
			dep := a.packages[need]
			if dep.wanted || dep.Package.Compiled() {
				continue
			}
			if err := a.wantIfMissing(ctx, dep); err != nil {
				return err
			}
		}
	}
	return nil
}

// wanted returns the packages that must be compiled, dependencies first.
func (a *workers) wanted() []compilation.Package {
	var list []compilation.Package
	for _, id := range a.order {
		if p := a.packages[id]; p.wanted {
			list = append(list, compilation.Package{ID: id, Needs: slices.Sorted(maps.Values(p.needs)), Source: source(p.Package), Trusts: p.own})
		}
	}
	return list
}

// run compiles the packages. All VMs are deleted at the end, also after a failure.
func (a *workers) run(ctx context.Context) error {
	list := a.wanted()
	if len(list) == 0 {
		return nil
	}
	a.graph = compilation.New(list)
	width := min(a.how.Workers, len(list))
	var err error
	if a.states, err = a.opts.WorkersOf(width, a.artifacts.Manifest.Group.Name); err != nil {
		return err
	}
	if err := a.states.Begin(ctx); err != nil {
		return err
	}
	defer a.states.Forget()
	defer guard.AfterDone(ctx, a.wakeAll)()
	errs := make([]error, width)
	begun := guard.Each(context.WithoutCancel(ctx), width, width, func(n int) {
		errs[n] = (&worker{workers: a, n: n}).work(ctx)
	})
	if err = errors.Join(append(errs, begun)...); err == nil && !a.keepStemcell {
		err = a.states.End(context.WithoutCancel(ctx))
	}
	return a.outcome(ctx, err)
}

// outcome returns the error of a run. left says which VMs could not be deleted; it is
// reported also if a package fails.
func (a *workers) outcome(ctx context.Context, left error) error {
	if ctx.Err() != nil {
		return errors.Join(&report.InterruptedError{Row: "compile"}, left)
	}
	return errors.Join(a.failed, left)
}

func (a *workers) wakeAll() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.wake.Broadcast()
}

// next waits for a package that a VM can compile. after are the sources of what the VM has
// compiled. fresh is true if a new VM must compile the package. ok is false if there is
// nothing left to do.
func (a *workers) next(ctx context.Context, after []string) (id string, fresh, ok bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for ctx.Err() == nil && a.failed == nil && a.graph.Waits() {
		if id, fresh, ok = a.graph.Next(after); ok {
			a.running++
			return id, fresh, true
		}
		if a.running == 0 {
			break
		}
		a.wake.Wait()
	}
	return "", false, false
}

// errBound says that a package works only on the VM that has compiled it.
var errBound = errors.New("the package contains the path of its VM")

// ended records how compiling a package has ended, and reports whether the VM can compile
// another one.
func (a *workers) ended(ctx context.Context, id string, err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	defer a.wake.Broadcast()
	a.running--
	p := a.packages[id]
	_, refused := errors.AsType[*CompileError](err)
	switch {
	case err == nil:
		a.graph.Done(id)
		p.compiled = true
		return true
	case errors.Is(err, errBound):
		for _, id := range a.graph.Drop(id) {
			a.packages[id].bound = true
		}
		return true
	case refused, ctx.Err() != nil, p.tries > 0:
		if a.failed == nil {
			a.failed = err
		}
	default:
		p.tries++
		a.graph.Again(id)
		a.report.Warning(fmt.Sprintf("cannot compile package %s: %v; trying it once more on another VM", p.Package.Name, err))
	}
	return false
}
