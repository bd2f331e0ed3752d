package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/artifact"
	"bootstrap/deployer/plan"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// PlanFile is a saved plan with what it was made from, so that a deploy runs
// exactly that plan or refuses.
type PlanFile struct {
	Format       int        `json:"format"`
	Deployment   string     `json:"deployment"`
	Installation string     `json:"installation_id,omitempty"` // empty: there was no state
	StateFile    string     `json:"state_file,omitempty"`      // absolute path; empty: not known
	Serial       int        `json:"serial"`                    // of the state
	Salt         string     `json:"salt"`
	Inputs       string     `json:"inputs"` // digest of manifest, operations and variables
	Asked        plan.Asked `json:"asked"`
	Plan         plan.Plan  `json:"plan"`
}

// PlanFormat is the number of the format of saved plans.
const PlanFormat = 2

// PlanFormatError says that a plan was saved in another format.
type PlanFormatError struct {
	File   string
	Format int
}

func (e *PlanFormatError) Error() string {
	if e.Format > PlanFormat {
		return fmt.Sprintf("cannot use the plan %s: a newer bootstrap saved it in format %d, and this one reads format %d; make a new plan with: bootstrap plan MANIFEST --out %s", e.File, e.Format, PlanFormat, e.File)
	}
	return fmt.Sprintf("cannot use the plan %s: an older bootstrap saved it in format %d, which does not contain the steps to run; make a new plan with: bootstrap plan MANIFEST --out %s", e.File, e.Format, e.File)
}

// checkInputs refuses a saved plan if the inputs have changed since. It runs
// before variables are generated.
func (r *run) checkInputs(context.Context) error {
	p := r.opts.Planned
	if p == nil {
		return nil
	}
	if err := r.checkDeployment(p); err != nil {
		return err
	}
	digest, err := document.InputsDigest(r.opts.Manifest, r.opts.Inputs, p.Salt)
	if err != nil {
		return err
	}
	if digest != p.Inputs {
		return &plan.MovedError{What: "the manifest, its operations or its variables have changed since the plan was made"}
	}
	return nil
}

// checkDeployment refuses the plan of another deployment. A deployment that has
// a state is identified by installation_id. One without a state is identified
// by the path of its state file, except that its folder may have moved, for
// example to another machine.
func (r *run) checkDeployment(p *PlanFile) error {
	if p.Installation != "" {
		st, found, err := file.Read(r.statePath, r.opts.Home)
		if err == nil && found && st.InstallationID != p.Installation {
			return &plan.MovedError{What: fmt.Sprintf("it was made for deployment %s with installation_id %s; %s has installation_id %s", p.Deployment, p.Installation, r.statePath, st.InstallationID)}
		}
		return nil // opening a damaged state fails with a better error
	}
	if p.StateFile == "" || p.StateFile == r.statePath {
		return nil
	}
	there, err := os.Stat(filepath.Dir(p.StateFile))
	here, err2 := os.Stat(filepath.Dir(r.statePath))
	moved := err != nil || err2 == nil && os.SameFile(there, here)
	if !moved || filepath.Base(p.StateFile) != filepath.Base(r.statePath) {
		return &plan.MovedError{What: fmt.Sprintf("it was made for deployment %s with the state file %s, not for %s", p.Deployment, p.StateFile, r.statePath)}
	}
	return nil
}

// checkPlan refuses a saved plan that differs from the plan of this run.
func (r *run) checkPlan() error {
	p := r.opts.Planned
	if p == nil {
		return nil
	}
	st := r.state.Get()
	switch {
	case p.Installation == "" && r.state.Found(), p.Installation != "" && p.Installation != st.InstallationID:
		return &plan.MovedError{What: "it was made for another state file"}
	case p.Installation != "" && p.Serial != st.Own.Serial:
		return &plan.MovedError{What: fmt.Sprintf("the state file has changed since then (serial %d instead of %d)", st.Own.Serial, p.Serial)}
	}
	if what := plan.Differs(p.Plan, r.plan); what != "" {
		return &plan.MovedError{What: what}
	}
	return nil
}

// wishes gathers what the manifest asks for.
func (r *run) wishes() (plan.Wishes, error) {
	m, st := r.manifest, r.state.Get()
	order, err := r.packageOrder()
	if err != nil {
		return plan.Wishes{}, err
	}
	packages := make([]*artifact.Package, len(order))
	for i, l := range order {
		packages[i] = l.pkg
	}
	address, dynamic := m.Address()
	if dynamic {
		address = r.knownAddress()
	}
	w := plan.Wishes{
		Digest:    m.Digest,
		Group:     m.Group.Name,
		Stemcell:  r.stemcell.Name + "/" + r.stemcell.Version,
		Light:     isLight(r.stemcell),
		Used:      map[string]bool{},
		Made:      plan.Digests(r.journal.Salt(), plan.VMParts(m)),
		Applied:   plan.Digests(r.journal.Salt(), plan.InstanceParts(m, r.releases, packages, address)),
		Disk:      m.Group.Disk,
		Dynamic:   dynamic,
		NoAddress: dynamic && address == "",
		Strategy:  m.Update.VMStrategy,
		NoSwap:    r.noSwap(address),
		Snapshot:  m.Update.Snapshot,
		DNS:       m.UseDNS,
		API:       r.effectiveAPI(),
		Differs:   r.agentDiffers(),
		Lost:      r.lostToSecondDisk(st.CurrentVMCID),
		Asked:     r.opts.Asked,
	}
	second := r.recallSecondDisk()
	w.SecondDisk = plan.SecondDisk{When: second.When, New: second.New}
	w.Stays, w.Stuck = r.agentStays()
	for _, ref := range m.Group.Jobs {
		w.Used[ref.Release] = true
	}
	for _, rel := range m.Releases {
		w.Releases = append(w.Releases, state.Release{Name: rel.Name, Version: r.releases[rel.Name].Version})
	}
	if r.opts.Inputs.Generate == document.Plan {
		w.Generated = m.Generated
	}
	for _, problem := range m.Warnings {
		w.Notes = append(w.Notes, place(problem))
	}
	return w, nil
}

// knownAddress returns the address of the VM on a dynamic network, as the last
// deploy recorded it, or as the agent reports it now; empty: unknown.
func (r *run) knownAddress() string {
	return cmp.Or(r.state.Get().Own.Address, addressIn(r.facts.Now.Networks))
}

// effectiveAPI returns the lower of the API versions of CPI and stemcell; 0:
// that of the CPI is unknown.
func (r *run) effectiveAPI() int {
	api := r.known.API
	if r.cpiAPI > 0 {
		api = r.cpiAPI
	}
	if api == 0 {
		return 0
	}
	return min(api, max(1, r.stemcell.APIVersion))
}

// noSwap returns why a new VM cannot be created beside the running one; empty:
// it can.
func (r *run) noSwap(address string) string {
	st := r.state.Get()
	if st.CurrentVMCID == "" {
		return ""
	}
	old, err := url.Parse(r.recallAgent(st.CurrentVMCID).MBus)
	_, dynamic := r.manifest.Address()
	switch {
	case r.about.Registry != nil:
		return "the registry serves one VM"
	case !dynamic && address == st.Own.Address:
		return "both would have the static address " + address
	case err == nil && old.Host == r.manifest.CPI.MBusURL.Host:
		return "the agents of both would be at " + old.Host
	}
	return ""
}

// looksByCPI reports whether the CPI must be asked before a plan can be made.
func (r *run) looksByCPI() bool {
	st := r.state.Get()
	disk := st.Disk()
	switch {
	case len(st.Own.Intents) > 0 || st.Own.Swap != nil:
		return true
	case st.CurrentVMCID == "":
		return disk != nil
	case !r.facts.Answers:
		return true
	case disk == nil:
		return r.manifest.Group.Disk != nil && r.effectiveAPI() == 0
	}
	return !slices.Contains(r.facts.Mounted, disk.CID) ||
		r.manifest.Group.Disk == nil || len(plan.DiskReasons(*disk, *r.manifest.Group.Disk)) > 0 && r.effectiveAPI() == 0
}

// makePlan decides the plan from wishes and facts.
func (r *run) makePlan(ctx context.Context) error {
	w, err := r.wishes()
	if err != nil {
		return err
	}
	if err := r.sortPackages(ctx, nil); err != nil {
		return err
	}
	w.MissingNew = r.compileCount()
	if err := r.planDelivery(ctx, r.facts.Now.Packages); err != nil {
		return err
	}
	w.Missing = r.compileCount()
	st, _ := plan.Settled(r.state.Get(), r.facts)
	if r.adopted != nil {
		st.Own.Made = plan.Digests(r.journal.Salt(), plan.VMParts(r.adopted))
	}
	decision, err := plan.Decide(w, st, r.facts)
	if _, silent := errors.AsType[*plan.AgentSilentError](err); silent {
		return r.silent(st.CurrentVMCID)
	}
	if err != nil {
		return err
	}
	w.Made = w.MadeOf(st, decision.On(plan.VM))
	r.want, r.plan = w, plan.Of(decision)
	r.plan.Looks, r.plan.Diff = plan.Looks(st, r.facts, r.askedCPI), r.manifestDiff()
	if r.plan.NewVM() {
		return r.planDelivery(ctx, nil)
	}
	var dynamic bool
	r.agent = r.running
	if r.address, dynamic = r.manifest.Address(); dynamic {
		r.address = r.knownAddress()
	}
	return nil
}

// announcePlan makes the plan, compares it with a saved one, and reports it.
// The run ends here successfully if there is nothing to do.
func (r *run) announcePlan(ctx context.Context) error {
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if err := r.checkPlan(); err != nil {
		return err
	}
	r.emitPlan()
	if r.plan.Nothing() {
		r.root.Info("No deployment, stemcell or release changes. Skipping deploy.")
		if !r.plan.Stopped {
			r.sayAddress(r.state.Get().Own.Address)
		}
		return errDone
	}
	return nil
}

// confirm asks before something is destroyed, and then checks that the plan is
// still the same.
func (r *run) confirm(ctx context.Context) error {
	list := r.plan.Destroys()
	if len(list) == 0 || r.opts.Confirm == nil || r.opts.Planned != nil {
		return nil
	}
	if err := r.question(ctx, Question{What: list, Data: r.plan.Shrinks}); err != nil {
		return err
	}
	before := r.plan
	if err := r.lookAgain(ctx); err != nil {
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

// lookAgain asks a running agent for its state again.
func (r *run) lookAgain(ctx context.Context) error {
	if r.running == nil || !r.facts.Answers {
		return nil
	}
	now, err := r.running.GetState(ctx, false)
	if err != nil {
		return &plan.MovedError{What: fmt.Sprintf("the agent does not answer any more: %v", err)}
	}
	mounted, err := r.running.ListDisk(ctx)
	r.facts.Now, r.facts.Mounted = now, mounted
	return err
}

// manifestDiff returns how the manifest differs from the one applied last; nil:
// this machine has not kept that one.
func (r *run) manifestDiff() []string {
	old, err := r.folder().Sketch()
	if err != nil || old == nil {
		return nil
	}
	list, err := document.Diff(old, r.manifest.Sketch)
	if err != nil {
		return nil
	}
	lines := make([]string, len(list))
	for i, d := range list {
		d.Old, d.New = r.opts.Redact(d.Old), r.opts.Redact(d.New) // its path is a public name
		lines[i] = d.String()
	}
	return lines
}
