package deployer

import (
	"context"
	"fmt"
	"slices"

	"bootstrap/deployer/compilation"
	deployed "bootstrap/deployment/record"
	"bootstrap/manifest"
)

// CompileSeveral is Compile for instance groups of a manifest with several instances, all if
// groups is nil. all are the recorded instances. The manifest was read to generate values. With
// keepStemcell, the last stemcell that VMs upload stays for the instances, until EndCompile.
func CompileSeveral(ctx context.Context, opts Options, d *manifest.Deployment, all *deployed.Record, groups []string, keepStemcell bool) (result compilation.Result, err error) {
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return result, err
	}
	defer r.t.Close()
	defer func() { r.t.Out.Enter("", err) }()
	var pools []*pool
	exported := &exports{path: opts.Export}
	for i := range d.Groups {
		g := &d.Groups[i]
		if groups != nil && !slices.Contains(groups, g.Name) {
			continue
		}
		p, err := r.addGroup(ctx, d, g, all, pools)
		if err != nil {
			return result, err
		}
		if !slices.Contains(pools, p) {
			pools = append(pools, p)
		}
	}
	r.t.Out.Enter("", nil)
	for _, p := range pools {
		exported.list = append(exported.list, p.exports.list...)
		if err := p.workers.complete(ctx); err != nil {
			return result, err
		}
	}
	if exported.path != "" {
		if err := exported.check(); err != nil {
			return result, err
		}
	}
	for i, p := range pools {
		// The VMs of the next pool have the same states.
		p.workers.keepStemcell = keepStemcell && p.workers.original == nil && i == len(pools)-1
		if err := p.compile(ctx, someVM(all, opts.Home), &result); err != nil {
			return result, err
		}
	}
	return result, nil
}

// pool has the compilation VMs with one operating system, and the packages that they
// compile for instance groups.
type pool struct {
	workers    *workers
	system     string
	deliveries []*delivery
	exports    exports
}

// compile compiles and exports the packages of the groups. vm is the CID of a VM of an
// instance; empty: there is none.
func (p *pool) compile(ctx context.Context, vm string, result *compilation.Result) error {
	if p.exports.path != "" {
		if err := p.workers.wantAll(ctx); err != nil {
			return err
		}
	}
	if err := p.workers.compileMissing(ctx, vm); err != nil {
		return err
	}
	for _, d := range p.deliveries {
		for _, c := range p.workers.results(d) {
			if !slices.Contains(result.Packages, c) {
				result.Packages = append(result.Packages, c)
			}
		}
	}
	if p.exports.path == "" {
		return nil
	}
	list, err := p.exports.write(ctx, p.workers, p.workers.out)
	result.Exported = append(result.Exported, list...)
	return err
}

// addGroup adds the packages of an instance group to those of the VMs with the same system,
// which it returns.
func (r *run) addGroup(ctx context.Context, d *manifest.Deployment, g *manifest.Group, all *deployed.Record, pools []*pool) (*pool, error) {
	r.t.Out.Enter("validating group "+g.Name, nil)
	r.take(r.t.Given(g.Manifest))
	if err := r.fetchPackages(ctx); err != nil {
		return nil, err
	}
	w, err := r.chooseWorkers(ctx)
	if err != nil {
		return nil, err
	}
	if w.original == nil { // otherwise the VMs are not those of the deployment
		w.group, w.deployment = g.Name, d
	}
	kind := r.host.NewMachine(ctx).Kind
	if m := w.how.Worker; m != nil {
		kind = r.t.HostOf(m, w.artifacts.Stemcell).NewMachine(ctx).Kind
	}
	sc := r.artifacts.Stemcell
	p := &pool{workers: w, system: fmt.Sprint(compiledOn(sc, kind), " ", sc.Name, " ", sc.Digest), exports: exports{path: r.asked.Export}}
	if i := slices.IndexFunc(pools, func(other *pool) bool { return other.system == p.system }); i >= 0 {
		p = pools[i]
	}
	if err := r.packages.planDelivery(ctx, nil, kind); err != nil {
		return nil, err
	}
	p.deliveries = append(p.deliveries, r.packages.delivery)
	p.exports.add(r.artifacts, r.packages.delivery)
	p.workers.add(r.packages.delivery, r.ownersOf(all, g.Name))
	return p, p.workers.spare(ctx)
}

// ownersOf returns the owners of the packages that the VMs of an instance group compile.
func (r *run) ownersOf(all *deployed.Record, group string) []string {
	var owners []string
	for _, in := range all.Instances {
		if in.Group != group {
			continue
		}
		owner := in.ID
		if st, found, err := all.ReadState(in, r.t.Env.Home); err == nil && found {
			owner = st.InstallationID
		}
		owners = append(owners, "deployment "+owner)
	}
	if group := r.t.Env.PackagesGroup; group != "" {
		owners = append(owners, "group "+group)
	}
	return owners
}

// someVM returns the CID of a VM of the instances; empty: there is none.
func someVM(all *deployed.Record, home string) string {
	for _, in := range all.Instances {
		if st, found, err := all.ReadState(in, home); err == nil && found && st.CurrentVMCID != "" {
			return st.CurrentVMCID
		}
	}
	return ""
}

// DeleteWorkers deletes the compilation VMs of a deployment when a run was
// killed, and returns their ids.
func DeleteWorkers(ctx context.Context, opts Options) (ids []string, err error) {
	if count, err := opts.WorkersLeft(ctx); count == 0 || err != nil {
		return nil, err
	}
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return nil, err
	}
	err = r.deleteWorkers(ctx)
	return r.gone, err
}

// EndCompile removes the states that CompileSeveral has kept, and deletes their stemcells
// unless instances use them, also after the end of the context.
func EndCompile(ctx context.Context, opts Options) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWorkerFor)
	defer cancel()
	if count, err := opts.WorkersLeft(ctx); count == 0 || err != nil {
		return err
	}
	r := newRun(opts)
	defer r.t.Env.Close()
	if err := r.t.Env.Open(ctx); err != nil {
		return err
	}
	return r.deleteStates(ctx, "removing states of compilation VMs")
}

// ForgetWorkers removes the values of deleted VMs from the vars store.
func ForgetWorkers(ctx context.Context, d *manifest.Deployment, ids []string) error {
	for _, id := range ids {
		if err := d.Forget(ctx, manifest.Member{Group: manifest.CompilationGroup, Identity: manifest.Identity{ID: id}}); err != nil {
			return err
		}
	}
	return nil
}

// identify returns the manifest of a VM with the values that only this one has.
func (w *worker) identify(ctx context.Context, who manifest.Identity) (*manifest.Manifest, error) {
	if w.deployment == nil {
		m := *w.how.Worker
		m.Identity = &who
		return &m, nil
	}
	if _, _, err := w.deployment.GenerateFor(ctx, []manifest.Member{{Group: manifest.CompilationGroup, Identity: who}}); err != nil {
		return nil, err
	}
	return w.deployment.WorkerOf(ctx, w.group, who)
}

// forget removes the values that only this VM has from the vars store.
func (w *worker) forget(ctx context.Context) {
	if w.deployment == nil || w.r == nil || w.r.in == nil {
		return
	}
	if err := w.deployment.Forget(ctx, manifest.Member{Group: manifest.CompilationGroup, Identity: *w.r.in.Manifest.Identity}); err != nil {
		w.report.Warning(fmt.Sprintf("values of a compilation VM stay in the vars store: %v", err))
	}
}
