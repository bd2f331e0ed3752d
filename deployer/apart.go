package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"bootstrap/artifact"
	"bootstrap/deployer/compilation"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// Compile compiles the packages that a new VM of the manifest needs, on VMs that are made
// only for that, and adds them to the cache. It changes no VM that serves.
func Compile(ctx context.Context, opts Options) (result compilation.Result, err error) {
	opts.Inputs.Generate = document.Write
	r := newRun(opts)
	r.t.From.Replacing = r.confirmReplaced
	err = r.execute(ctx, r.compilePhases(func(ctx context.Context) (err error) {
		result, err = r.compileApart(ctx)
		return err
	}))
	return result, err
}

// compileApart compiles the packages of a new VM that the cache does not have.
func (r *run) compileApart(ctx context.Context) (result compilation.Result, err error) {
	w, err := r.planApart(ctx)
	if err != nil {
		return result, err
	}
	x, err := r.planExport(ctx, w, r.asked.Export)
	if err != nil {
		return result, err
	}
	if err := w.compileMissing(ctx, r.t.State.Get().CurrentVMCID); err != nil {
		return result, err
	}
	result.Packages = w.results(r.packages.delivery)
	result.Exported, err = x.write(ctx, w, r.t.Out)
	return result, err
}

// planApart decides which packages VMs must compile for a new VM of the manifest.
func (r *run) planApart(ctx context.Context) (*workers, error) {
	w, err := r.chooseWorkers(ctx)
	if err != nil {
		return nil, err
	}
	kind := r.host.NewMachine(ctx).Kind
	if m := w.how.Worker; m != nil {
		kind = r.t.HostOf(m, w.artifacts.Stemcell).NewMachine(ctx).Kind
	}
	if err := r.packages.planDelivery(ctx, nil, kind); err != nil {
		return nil, err
	}
	w.add(r.packages.delivery, r.packages.owners())
	if err := w.spare(ctx); err != nil {
		return nil, err
	}
	return w, w.complete(ctx)
}

// chooseWorkers returns workers with VMs of the cloud, or of this machine.
func (r *run) chooseWorkers(ctx context.Context) (*workers, error) {
	if source, ok := warden(r.asked.Compile, r.artifacts.Stemcell.OS); ok {
		return r.localWorkers(ctx, source)
	}
	return r.newWorkers(r.compilation()), nil
}

// newWorkers returns compilation VMs for the instances of a deployment, on
// the VMs that how describes.
func (r *run) newWorkers(how manifest.Compilation) *workers {
	a := &workers{
		opts: r.asked, out: r.t.Out, how: how, artifacts: r.artifacts, store: r.t.Env.Store,
		ledger: r.t.Addresses.LedgerAddress(), packages: map[string]*toCompile{},
	}
	a.wake = sync.NewCond(&a.mu)
	return a
}

// compilation describes the VMs on which packages of the manifest are compiled. They get
// none of the instance's addresses.
func (r *run) compilation() manifest.Compilation {
	how := r.in.Manifest.Compilation
	if how.Worker == nil || how.Worker.Placement == nil || !how.Worker.Placement.Own {
		return how
	}
	st := r.t.State.Get()
	m := *how.Worker
	p := *m.Placement
	p.Networks = slices.Clone(p.Networks)
	for _, n := range p.Networks {
		p.Avoid(n.Name, st.Own.Address)
		for _, a := range st.Own.Addresses {
			p.Avoid(n.Name, a.Address)
		}
	}
	m.Placement, how.Worker = &p, &m
	return how
}

// compileMissing compiles the missing packages. vm is the CID of the instance's VM;
// empty: it has none.
func (w *workers) compileMissing(ctx context.Context, vm string) error {
	if len(w.wanted()) == 0 {
		return w.adopt(ctx)
	}
	if err := w.refuse(vm); err != nil {
		return err
	}
	return w.out.InGroup("compiling packages", func() error {
		w.report = w.out.Open
		if err := w.run(ctx); err != nil {
			return err
		}
		return w.adopt(ctx)
	})
}

// results returns the packages of a delivery, each with its origin.
func (w *workers) results(d *delivery) []compilation.Compiled {
	var list []compilation.Compiled
	for _, l := range d.order {
		p := w.packages[idOf(d.keys[l.Package.Name], l.Package)]
		c := compilation.Compiled{Release: l.Release, Package: l.Package.Name, Version: l.Package.Fingerprint, Stemcell: w.artifacts.Stemcell.OS + "/" + w.artifacts.Stemcell.Version, From: compilation.FromCache}
		switch {
		case l.Package.Compiled():
			c.From = compilation.FromRelease
		case p.bound:
			c.From = compilation.FromVM
		case p.compiled:
			c.From = compilation.FromWorker
		}
		list = append(list, c)
	}
	return list
}

// fetchPackages fetches the releases and the stemcell.
func (r *run) fetchPackages(ctx context.Context) error {
	a, err := r.in.FetchAll(ctx)
	if err == nil {
		r.use(a)
	}
	return err
}

// deleteOnlyWorkers does something only if there is no deployment yet and a killed run
// has left compilation VMs: it deletes them and ends the run.
func (r *run) deleteOnlyWorkers(ctx context.Context) error {
	found, err := file.Exists(r.t.StatePath)
	if found || err != nil {
		return err
	}
	if count, err := r.t.From.WorkersLeft(ctx); count == 0 || err != nil {
		r.t.From.ForgetWorkers()
		return err
	}
	if err := r.deleteWorkers(ctx); err != nil {
		return err
	}
	return errDone
}

// planWorkers plans compilation VMs for the missing packages of a delivery, if the cloud
// config has a section compilation, or the run compiles on this machine. machine is the
// kind of the instance's VM. deliver plans the delivery again. note is the reason why the
// section is not used; empty: it is used.
func (r *run) planWorkers(ctx context.Context, machine string, deliver func(context.Context) error) (note string, err error) {
	r.workers = nil
	how := r.compilation()
	source, local := warden(r.asked.Compile, r.artifacts.Stemcell.OS)
	if r.packages.missing() == 0 || !how.Asked && !local || r.onVM || r.t.From.OfAll {
		return "", nil // A deploy of several instances has compiled the packages.
	}
	if local {
		return "", r.planLocally(ctx, source, deliver)
	}
	w := r.newWorkers(how)
	if err := w.refuse(r.t.State.Get().CurrentVMCID); err != nil {
		return fmt.Sprintf("the section compilation of the cloud config is not used: %v", err), nil
	}
	sc := r.artifacts.Stemcell
	if kind := r.t.HostOf(how.Worker, sc).NewMachine(ctx).Kind; compiledOn(sc, kind) != compiledOn(sc, machine) {
		return "the section compilation of the cloud config is not used: its VMs are of the kind " + kind + ", and the VM of the instance is of another kind", nil
	}
	return "", r.useWorkers(ctx, w, deliver)
}

// useWorkers makes workers compile the missing packages of a delivery. If the cache has all
// packages, it lets the instance use them, and the plan needs no workers.
func (r *run) useWorkers(ctx context.Context, w *workers, deliver func(context.Context) error) error {
	w.add(r.packages.delivery, r.sharedOwners())
	if err := w.spare(ctx); err != nil {
		return err
	}
	if len(w.wanted()) == 0 {
		if err := w.adopt(ctx); err != nil {
			return err
		}
		return deliver(ctx)
	}
	w.deliver, r.workers = deliver, w
	return w.complete(ctx)
}

// sharedOwners returns the owners of the packages that compilation VMs compile for the
// instance: with several instances, these are all of its group.
func (r *run) sharedOwners() []string {
	if of := r.t.From.Of; of != nil {
		return r.ownersOf(of.Record, of.Instance.Group)
	}
	return r.packages.owners()
}

// compiledApart returns the packages that other VMs compile, and how many VMs at the same time.
func (r *run) compiledApart() (list []string, width int) {
	if r.workers == nil {
		return nil, 0
	}
	for _, id := range r.workers.order {
		if p := r.workers.packages[id]; p.wanted {
			list = append(list, p.Package.Name+"/"+p.Package.Fingerprint)
		}
	}
	return list, r.workers.how.Workers
}

// errOnVM says that packages must be compiled on the VM of the instance.
var errOnVM = errors.New("packages contain the path of their VM's folder")

// compileBefore compiles packages on compilation VMs, before the VM of the instance is
// changed.
func (r *run) compileBefore(ctx context.Context) error {
	if err := r.workers.compileMissing(ctx, ""); err != nil {
		return err
	}
	if err := r.workers.deliver(ctx); err != nil {
		return err
	}
	if r.packages.missing() > 0 {
		r.onVM = true
		return errOnVM
	}
	return nil
}

// idOf identifies a package by everything that its compiled form depends on.
func idOf(key artifact.CompiledKey, p *artifact.Package) string {
	id := key.Name + " " + key.Fingerprint + " " + key.Stemcell + " " + p.Digest
	for _, source := range slices.Compact(slices.Sorted(slices.Values(key.Sources))) {
		id += " " + source
	}
	return id
}

// deleteWorkers deletes the compilation VMs of the deployment when a run was
// killed.
func (r *run) deleteWorkers(ctx context.Context) error {
	if r.t.From.OfAll { // The run of all instances has deleted them.
		return nil
	}
	return r.deleteStates(ctx, "deleting VMs of a killed run")
}

// deleteStates deletes the states of compilation VMs, with everything that they
// record. title is for the output.
func (r *run) deleteStates(ctx context.Context, title string) error {
	count, err := r.t.From.WorkersLeft(ctx)
	if err != nil || count == 0 {
		r.t.From.ForgetWorkers()
		return err
	}
	states, err := r.t.From.WorkersOf(count, r.t.About.Group)
	if err != nil {
		return err
	}
	defer states.Forget()
	return r.t.Out.InGroup(title, func() error {
		a := &workers{opts: r.asked, report: r.t.Out.Open, states: states, ledger: r.t.Addresses.LedgerAddress()}
		var errs []error
		for n := range count {
			id, err := a.deleteLeft(ctx, n)
			if id != "" {
				r.gone = append(r.gone, id)
			}
			errs = append(errs, err)
		}
		if err := errors.Join(errs...); err != nil {
			return err
		}
		return states.End(ctx)
	})
}
