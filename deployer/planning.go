package deployer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/deployer/changed"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/state"
)

// emitPlan reports the plan, how long the service will be down according to earlier runs,
// and the differences of rendered files if they were requested.
func (r *run) emitPlan(ctx context.Context) (err error) {
	view := r.plan.View()
	view.Downtime, view.OfRuns = r.t.Folder().Expected(view.Down)
	view.Downtime = timeline.Rounded(view.Downtime)
	for i, row := range view.Rows {
		if row.Down && view.OfRuns > 0 {
			seconds, _ := r.t.Folder().Expected([]string{string(row.Step)})
			view.Rows[i].Seconds = timeline.Rounded(seconds)
		}
	}
	if r.asked.Templates {
		view.Templates, view.TemplatesNote, err = changed.Compare(ctx, changed.Case{
			Folder: r.t.Folder(), VM: r.t.State.Get().CurrentVMCID, Facts: r.look.Facts, Secrets: len(r.t.Known.Secrets),
			Archive: r.jobs.rendered.archive, Render: r.jobs.renderTo, Redact: r.t.Env.Redact,
			Moves: r.plan.NewVM() && r.want.Dynamic,
		})
	}
	r.view = view
	r.t.Out.Root.Emit(report.Event{Kind: report.Planned, Plan: &view})
	return err
}

// showPlan makes the plan and reports it.
func (r *run) showPlan(ctx context.Context) error {
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if err := r.checkTemplates(ctx); err != nil {
		return err
	}
	for _, err := range r.machineProblems(ctx) {
		text := strings.TrimSuffix(err.Error(), "; nothing was changed")
		r.plan.Warnings = append(r.plan.Warnings, plan.Reason{Cause: plan.StopsEarly, To: text})
	}
	if n := r.announced; n > 0 {
		r.plan.Warnings = append(r.plan.Warnings, plan.Reason{Cause: plan.Undetermined, Count: n})
	}
	return r.emitPlan(ctx)
}

// checkTemplates renders the jobs of the plan, and keeps no files. If a deploy of the
// plan would fail, the error is a *document.Problems, like that of Validate.
func (r *run) checkTemplates(ctx context.Context) error {
	if !r.plan.Applies() {
		return nil
	}
	defer func(address string) { r.address = address }(r.address)
	v := &validation{r: r, whole: r.in.Manifest}
	err := v.renderJobs(ctx)
	r.unchecked = len(v.unchecked) > 0
	if err != nil || len(v.problems) == 0 {
		return err
	}
	return &v.problems
}

// wishes collects the wishes of the manifest and the options.
func (r *run) wishes() (plan.Wishes, error) {
	m, st := r.in.Manifest, r.t.State.Get()
	order, err := r.artifacts.PackageOrder()
	if err != nil {
		return plan.Wishes{}, err
	}
	packages := make([]*artifact.Package, len(order))
	for i, l := range order {
		packages[i] = l.Package
	}
	_, dynamic := m.Address()
	address := r.instanceAddress()
	parts := plan.InstanceParts(m, r.artifacts.Releases, packages, address)
	sources, err := r.addConnected(parts)
	if err != nil {
		return plan.Wishes{}, err
	}
	w := plan.Wishes{
		Digest:    m.Digest,
		Group:     m.Group.Name,
		Index:     m.Index(),
		Stemcell:  r.artifacts.Stemcell.Name + "/" + r.artifacts.Stemcell.Version,
		Light:     instance.IsLight(r.artifacts.Stemcell),
		Used:      map[string]bool{},
		Embedded:  map[string]bool{},
		Made:      plan.Digests(r.journal.Salt(), plan.VMParts(m)),
		Applied:   plan.Digests(r.journal.Salt(), parts),
		Links:     sources,
		Disk:      m.Group.Disk,
		Named:     m.Group.Disks,
		Zone:      m.Zone(),
		Director:  len(m.CloudConfigs) > 0,
		Dynamic:   dynamic,
		NoAddress: dynamic && address == "",
		Strategy:  m.Update.VMStrategy,
		Snapshot:  m.Update.Snapshot,
		DNS:       m.UseDNS,
		API:       r.t.CPI.EffectiveAPI(),
		Differs:   r.look.AgentDiffers(m),
		Asked:     r.asked.Asked,
		Places:    plan.Places(m),
	}
	if of := r.t.From.Of; of != nil {
		w.Several = of.Instance.Name()
		if w.Kept, err = r.disks.keptFor(of); err != nil {
			return w, err
		}
	}
	if r.in.Deployment != nil {
		w.DNSFirst = r.jobs.numbers() != nil
		w.DNS = w.DNS || w.DNSFirst
		plan.KeepDescribedLinks(w.Applied, st.Own.Applied)
	}
	second := r.t.CPI.RecallSecondDisk()
	w.SecondDisk = plan.SecondDisk{When: second.When, New: second.New}
	w.Lost = st.CurrentVMCID != "" && second.Lost == st.CurrentVMCID
	w.Stays, w.Stuck = r.t.Agents.Stays()
	for _, ref := range m.Group.Jobs {
		w.Used[ref.Release] = true
	}
	for _, rel := range m.Releases {
		if strings.HasPrefix(rel.URL, "embedded:") {
			w.Embedded[rel.Name] = true
		}
		w.Releases = append(w.Releases, state.Release{Name: rel.Name, Version: r.artifacts.Releases[rel.Name].Version})
	}
	same := func(a, b state.Release) bool { return a.Name == b.Name && a.Version == b.Version }
	if r.in.Deployment != nil && !slices.EqualFunc(w.Releases, st.Releases, same) {
		if w.ByContent, err = r.ignoresVersions(); err != nil {
			return plan.Wishes{}, err
		}
	}
	if r.t.From.Inputs.Generate == document.Plan || len(m.Own) > 0 {
		w.Generated, w.Replaced = m.Generated, r.in.Replaced
	}
	return w, nil
}

// ignoresVersions reports whether no template of the instance's jobs can show the version
// of its release, in spec.release.
func (r *run) ignoresVersions() (bool, error) {
	for _, ref := range r.in.Manifest.Group.Jobs {
		job := r.artifacts.Releases[ref.Release].Job(ref.Name)
		files := []string{"monit"}
		for _, template := range job.Templates {
			files = append(files, filepath.Join("templates", template.Source))
		}
		for _, file := range files {
			text, err := regular.Read(filepath.Join(job.Dir, file))
			if err != nil && !errors.Is(err, fs.ErrNotExist) { // a job may have no monit
				return false, fmt.Errorf("cannot read %s of the job %s: %w", file, ref.Name, err)
			}
			if bytes.Contains(text, []byte("release")) {
				return false, nil
			}
		}
	}
	return true, nil
}

// instanceAddress returns the instance's address in the manifest, or the address of the
// existing VM; empty: unknown.
func (r *run) instanceAddress() string {
	if address, dynamic := r.in.Manifest.Address(); !dynamic {
		return address
	}
	return r.look.KnownAddress()
}

// details finds out the details of a decision: how packages get to the VM, and facts
// about a new VM or disk that only this machine knows. For the latter it tries namespaces
// and loop devices.
func (r *run) details(ctx context.Context, c *plan.Choice) (x plan.Details, err error) {
	x.Addresses, x.Notes = r.addresses.planned.Changes, r.notes()
	if c.NewVM() || c.NewDisk() {
		x.Machine = machineReason(r.host.NewMachine(ctx))
		x.Network = networkReason(r.host.NewNetwork(ctx))
		x.Limits = limitsReason(r.host.NotHeld(ctx))
		x.DiskLimit = diskReason(r.host.DiskNotHeld(ctx))
	}
	x.OldScripts, x.NewScripts, x.Checks = plan.ScriptsOf(r.oldJobs()), plan.ScriptsOf(r.newJobs()), r.hasChecks()
	switch {
	case c.NewVM():
		x.NoSwap = r.noSwap()
		err = r.planPackages(ctx, &x, &x.MissingNew, nil, r.host.NewMachine(ctx).Kind)
	case c.Touches():
		err = r.planPackages(ctx, &x, &x.Missing, r.look.Facts.Now.Packages, r.look.Facts.Now.VM.Machine)
	}
	return x, err
}

// planPackages decides how packages get to a VM of the kind machine, which already has
// the packages have. Missing ones are compiled on compilation VMs, or on this VM.
func (r *run) planPackages(ctx context.Context, x *plan.Details, missing *int, have map[string]agent.SpecPackage, machine string) error {
	deliver := func(ctx context.Context) error { return r.packages.planDelivery(ctx, have, machine) }
	if err := deliver(ctx); err != nil {
		return err
	}
	note, err := r.planWorkers(ctx, machine, deliver)
	if note != "" {
		x.Notes = append(x.Notes, note)
	}
	if r.workers != nil {
		list := r.workers.wanted()
		x.Apart, x.Workers = len(list), min(len(list), r.workers.how.Workers)
		return err
	}
	*missing = r.packages.missing()
	return err
}

// newJobs returns the jobs of the manifest.
func (r *run) newJobs() []*artifact.Job {
	var jobs []*artifact.Job
	for _, ref := range r.in.Manifest.Group.Jobs {
		jobs = append(jobs, r.artifacts.Releases[ref.Release].Job(ref.Name))
	}
	return jobs
}

// oldJobs returns the jobs on the VM; nil for a job that is not in the manifest's
// releases in the same version.
func (r *run) oldJobs() []*artifact.Job {
	var jobs []*artifact.Job
	for _, has := range r.look.Facts.Now.Job.Templates {
		var found *artifact.Job
		for _, rel := range r.artifacts.Releases {
			if job := rel.Job(has.Name); job != nil && job.Fingerprint == has.Version {
				found = job
			}
		}
		jobs = append(jobs, found)
	}
	return jobs
}

// notes returns the warnings of the manifest and of its addresses.
func (r *run) notes() []string {
	var notes []string
	if r.in.Manifest.SharesNetworks() {
		if text := r.t.Addresses.LeavesLedger(); text != "" {
			notes = append(notes, text)
		}
	}
	notes = append(notes, r.addresses.unshared()...)
	for _, problem := range r.in.Manifest.Warnings {
		notes = append(notes, instance.Place(problem))
	}
	return notes
}

// machineReason returns the kind of a new VM for the plan; zero: nothing to report,
// because it is the requested kind or the only one.
func machineReason(m instance.Machine) plan.Reason {
	switch {
	case m.Refused != nil:
		return plan.Reason{Cause: plan.MadeOf, Subject: m.Kind, To: m.Refused.Error()}
	case agent.Isolated(m.Kind):
		return plan.Reason{Cause: plan.MadeOf, Subject: m.Kind}
	}
	return plan.Reason{}
}

// networkReason returns the network of a new VM for the plan; zero: nothing to report,
// because it is this machine's or a cloud's network, or the VM cannot have it.
func networkReason(n instance.Network) plan.Reason {
	if !n.Own || n.Problem != nil {
		return plan.Reason{}
	}
	return plan.Reason{Cause: plan.Connected, To: n.Out, Names: n.Ports}
}

// limitsReason returns the limits of a new VM that are not enforced; zero: all are
// enforced.
func limitsReason(l instance.Limits) plan.Reason {
	if len(l.Names) == 0 {
		return plan.Reason{}
	}
	return plan.Reason{Cause: plan.LimitsNotHeld, Names: l.Names, From: l.Remedy, To: l.Cause.Error()}
}

// diskReason returns why the size of a new disk is not enforced; zero: it is enforced, or
// a person can do nothing about that.
func diskReason(l instance.Limits) plan.Reason {
	if l.Remedy == "" {
		return plan.Reason{}
	}
	return plan.Reason{Cause: plan.DiskNotHeld, From: l.Remedy, To: l.Cause.Error()}
}

// noSwap returns why a new VM cannot be created while the running one exists; empty: it
// can, or that is not wanted.
func (r *run) noSwap() string {
	st := r.t.State.Get()
	if st.CurrentVMCID == "" || r.in.Manifest.Update.VMStrategy != swapStrategy {
		return ""
	}
	if name := r.addresses.planned.NoSwap; r.addresses.swap && name != "" {
		return "it keeps its address on network " + name
	}
	if name := r.addresses.ledgers.Kept(); name != "" {
		return "other instances know its address on network " + name
	}
	old, err := url.Parse(r.t.Agents.Recall(st.CurrentVMCID).MBus)
	address, dynamic := r.in.Manifest.Address()
	switch {
	case r.t.About.Registry != nil:
		return "the registry serves one VM"
	case !dynamic && address == st.Own.Address:
		return "both would have the static address " + address
	case err == nil && old.Host == r.in.Manifest.CPI.MBusURL.Host:
		return "the agents of both would be at " + old.Host
	}
	return ""
}

// makePlan makes the plan from wishes and facts. After the choice, it asks for further
// facts that the decision needs.
func (r *run) makePlan(ctx context.Context) error {
	if err := r.chooseAddresses(ctx); err != nil {
		return err
	}
	w, err := r.wishes()
	if err != nil {
		return err
	}
	st, _ := plan.Settled(r.t.State.Get(), r.look.Facts)
	if r.adopted != nil {
		st.Own.Made = plan.Digests(r.journal.Salt(), plan.VMParts(r.adopted))
	}
	if st.Detached() && !r.asked.Attach {
		r.want, r.plan, r.vm = w, plan.Detached(r.seen(), r.in.Manifest.Instance()), ""
		return nil
	}
	choice, err := plan.Decide(w, st, r.look.Facts)
	if _, silent := errors.AsType[*plan.AgentSilentError](err); silent {
		return r.silent(st.CurrentVMCID)
	}
	if err != nil {
		return err
	}
	if w, err = r.placeBeside(ctx, w, choice); err != nil {
		return err
	}
	details, err := r.details(ctx, choice)
	if err != nil {
		return err
	}
	decision := choice.Decision(details)
	w.Made = w.MadeOf(st, choice.VM.Action)
	r.want, r.plan, r.vm, r.known = w, plan.Of(decision), decision.Current, r.look.KnownAddress()
	r.plan.Looks, r.jobs.suspects = plan.Looks(st, r.look.Facts, r.look.AskedCPI), r.suspected()
	if decision.NewVM() {
		r.hints = r.lastAddresses()
	} else {
		r.agent, r.address = r.look.Running, r.instanceAddress()
	}
	if !decision.Nothing() {
		r.plan.Diff = r.t.Diff(st, r.in.Manifest)
	}
	return nil
}

// lastAddresses returns the present or last addresses of the VM on dynamic networks of a
// cloud config, from its agent or from the record of the last deploy. As with the
// Director, they are hints for a new VM.
func (r *run) lastAddresses() map[string]string {
	hints := map[string]string{}
	for _, c := range r.addresses.planned.Changes {
		if c.Action != network.Ask {
			continue
		}
		name := c.Reservation.Network
		if ip, ok := r.look.Facts.Now.Networks[name]["ip"].(string); ok && ip != "" {
			hints[name] = ip
		} else if c.Reservation.Block.IsValid() {
			hints[name] = c.Reservation.Block.Addr().String()
		}
	}
	return hints
}

// swapStrategy is the value of update.vm_strategy that creates the new VM before the old
// one is deleted.
const swapStrategy = "create-swap-delete"

// placeBeside chooses a second address for a new VM that is created while the old one
// exists, and returns the wishes with it. That address is no reason to replace the VM. A
// static address cannot be used twice.
func (r *run) placeBeside(ctx context.Context, w plan.Wishes, c *plan.Choice) (plan.Wishes, error) {
	if c.VM.Action != plan.Replace || w.Strategy != swapStrategy || r.in.Manifest.Placement == nil {
		return w, nil
	}
	if err := r.addresses.choose(ctx, true, true); err != nil {
		return w, err
	}
	return r.wishes()
}

// announcePlan makes the plan, compares it with a saved one, and reports it. If the plan
// changes nothing, the run ends here successfully.
func (r *run) announcePlan(ctx context.Context) error {
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if err := r.asked.Planned.checkPlan(r.t.About.Name, r.t.State.Get(), r.t.State.Found(), r.plan); err != nil {
		return err
	}
	if err := r.emitPlan(ctx); err != nil {
		return err
	}
	if r.asked.OnFailure == PutBack && r.plan.On(plan.VM) == plan.Replace {
		r.t.Out.Warning("--on-failure=previous can put back nothing: the VM is replaced, and the previous version was deployed to the old one")
	}
	if r.plan.Nothing() {
		if err := r.proveRunning(ctx); err != nil {
			return err
		}
		r.keepInputs(ctx)
		if err := r.shareLinks(ctx); err != nil {
			return err
		}
		r.t.Out.Info("No deployment, stemcell or release changes. Skipping deploy.")
		if !r.plan.Stopped {
			r.t.SayAddress(ctx, r.t.State.Get().Own.Address, false)
		}
		return errDone
	}
	return nil
}

// confirmReplaced asks before new values replace those that the VM uses, unless a saved
// plan contains that.
func (r *run) confirmReplaced(ctx context.Context, names []string) error {
	if p := r.asked.Planned; p != nil {
		for _, name := range names {
			replaced := func(c plan.Change) bool {
				return c.What == plan.Variables && c.Action == plan.Replace && c.Name == name
			}
			if !slices.ContainsFunc(p.Plan.Changes, replaced) {
				return &plan.MovedError{What: "the variable " + name + ", which the VM uses, gets a new value"}
			}
		}
		return nil
	}
	return r.question(ctx, Question{What: instance.ReplacesValues(names), Data: true})
}

// confirm asks before something is destroyed. After the answer, it checks that the plan
// is still the same.
func (r *run) confirm(ctx context.Context) error {
	list := r.plan.Destroys()
	if len(list) == 0 || r.asked.Confirm == nil || r.asked.Planned != nil {
		return nil
	}
	q := Question{What: list, Data: r.plan.Shrinks, Down: len(list) == 1 && r.plan.Compiles > 0}
	if err := r.question(ctx, q); err != nil {
		return err
	}
	before := r.plan
	if err := r.look.Again(ctx); err != nil {
		return err
	}
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if what := plan.Differs(before, r.plan); what != "" {
		return &plan.MovedError{What: what}
	}
	return nil
}

// whyDown returns why the instance does not run now; empty: it runs, or nothing says otherwise.
func (r *run) whyDown() string { return plan.WhyDown(r.t.State.Get(), r.look.Facts) }
