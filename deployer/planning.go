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
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
)

// PlanFile is a plan that is kept, with what it was made from, so that a
// deploy can do exactly that or refuse.
type PlanFile struct {
	Format       int    `json:"format"`
	Deployment   string `json:"deployment"`
	Installation string `json:"installation_id,omitempty"` // empty: there was no state
	StateFile    string `json:"state_file,omitempty"`      // absolute path; empty: not known
	Serial       int    `json:"serial"`                    // of the state
	Salt         string `json:"salt"`
	Inputs       string `json:"inputs"` // digest of manifest, operations and variables
	Asked        Asked  `json:"asked"`
	Plan         Plan   `json:"plan"`
}

const planFormat = 1

// MakePlan finds out what Deploy would do, and changes nothing.
func MakePlan(ctx context.Context, opts Options) (PlanFile, error) {
	opts.Inputs.Generate = document.Plan
	file := PlanFile{Format: planFormat, Asked: opts.Asked, Salt: newSalt()}
	rows := planRows()
	if opts.Previous {
		rows = planPreviousRows()
	}
	err := execute(ctx, opts, append(rows, row{name: "keep the plan", do: func(r *run, _ context.Context) (err error) {
		st := r.state.Get()
		file.Plan, file.Deployment, file.StateFile = r.plan, r.manifest.Name, r.statePath
		if r.state.Found() {
			file.Installation, file.Serial = st.InstallationID, st.Own.Serial
		}
		file.Inputs, err = document.InputsDigest(opts.Manifest, opts.Inputs, file.Salt)
		return err
	}}))
	return file, err
}

// checkInputs refuses a planned deploy whose inputs are not those of the plan.
// It runs before anything is generated.
func (r *run) checkInputs(context.Context) error {
	p := r.opts.Planned
	if p == nil {
		return nil
	}
	if p.Format != planFormat {
		return fmt.Errorf("cannot use the plan: its format is %d and this bootstrap knows %d; make a new plan", p.Format, planFormat)
	}
	if err := r.checkDeployment(p); err != nil {
		return err
	}
	digest, err := document.InputsDigest(r.opts.Manifest, r.opts.Inputs, p.Salt)
	if err != nil {
		return err
	}
	if digest != p.Inputs {
		return &PlanMovedError{What: "the manifest, its operations or its variables are not those it was made from"}
	}
	return nil
}

// checkDeployment refuses the plan of another deployment. A deployment that has
// a state is known by its installation's id. One that had none yet is known by
// where its state file was to be, except that its folder may have moved, as from
// one machine to another.
func (r *run) checkDeployment(p *PlanFile) error {
	if p.Installation != "" {
		st, found, err := file.Read(r.statePath, r.opts.Home)
		if err == nil && found && st.InstallationID != p.Installation {
			return &PlanMovedError{What: fmt.Sprintf("it was made for deployment %s, installation %s; %s is of installation %s", p.Deployment, p.Installation, r.statePath, st.InstallationID)}
		}
		return nil // a damaged state is told when it is opened
	}
	if p.StateFile == "" || p.StateFile == r.statePath {
		return nil
	}
	there, err := os.Stat(filepath.Dir(p.StateFile))
	here, err2 := os.Stat(filepath.Dir(r.statePath))
	moved := err != nil || err2 == nil && os.SameFile(there, here)
	if !moved || filepath.Base(p.StateFile) != filepath.Base(r.statePath) {
		return &PlanMovedError{What: fmt.Sprintf("it was made for deployment %s with the state file %s, not for %s", p.Deployment, p.StateFile, r.statePath)}
	}
	return nil
}

// checkPlan refuses a planned deploy that would do anything else.
func (r *run) checkPlan() error {
	p := r.opts.Planned
	if p == nil {
		return nil
	}
	st := r.state.Get()
	switch {
	case p.Installation == "" && r.state.Found(), p.Installation != "" && p.Installation != st.InstallationID:
		return &PlanMovedError{What: "it was made for another state file"}
	case p.Installation != "" && p.Serial != st.Own.Serial:
		return &PlanMovedError{What: fmt.Sprintf("the state was written since (serial %d, then %d)", st.Own.Serial, p.Serial)}
	case !sameChanges(p.Plan, r.plan):
		return &PlanMovedError{What: moved(p.Plan, r.plan)}
	}
	return nil
}

// sameChanges compares what plans do; generated variables and the record of
// the same manifest make no difference to the VM.
func sameChanges(a, b Plan) bool { return moved(a, b) == "" }

// moved says what b does otherwise than a.
func moved(a, b Plan) string {
	lines := func(p Plan) []string {
		var list []string
		for _, c := range p.Changes {
			if c.What != variables && c.Action != keep {
				list = append(list, fmt.Sprintf("%s %s (%s)", c.What, c.Action, strings.Join(c.Why, "; ")))
			}
		}
		return list
	}
	was, is := lines(a), lines(b)
	for _, l := range is {
		if !slices.Contains(was, l) {
			return "now: " + l
		}
	}
	for _, l := range was {
		if !slices.Contains(is, l) {
			return "not any more: " + l
		}
	}
	return ""
}

// wanted is what the manifest asks for, for decide.
func (r *run) wanted() (wanted, error) {
	m, st := r.manifest, r.state.Get()
	if r.salt = st.Own.Salt; r.salt == "" {
		r.salt = newSalt()
	}
	order, err := r.packageOrder()
	if err != nil {
		return wanted{}, err
	}
	address, dynamic := m.Address()
	if dynamic {
		address = r.knownAddress()
	}
	w := wanted{
		digest:    m.Digest,
		group:     m.Group.Name,
		stemcell:  r.stemcell.Name + "/" + r.stemcell.Version,
		used:      map[string]bool{},
		made:      digests(r.salt, vmParts(m)),
		applied:   digests(r.salt, instanceParts(m, r.releases, order, address)),
		disk:      m.Group.Disk,
		noAddress: dynamic && address == "",
		strategy:  m.Update.VMStrategy,
		noSwap:    r.noSwap(address),
		snapshot:  m.Update.Snapshot,
		dns:       m.UseDNS,
		api:       r.effectiveAPI(),
		options:   r.opts.Asked,
	}
	w.differs = r.agentDiffers()
	w.stays, w.stuck = r.agentStays()
	for _, ref := range m.Group.Jobs {
		w.used[ref.Release] = true
	}
	for _, rel := range m.Releases {
		w.releases = append(w.releases, state.Release{Name: rel.Name, Version: r.releases[rel.Name].Version})
	}
	return w, nil
}

// knownAddress is the address of the VM on a dynamic network, as the last
// deploy recorded it or as the agent tells it now; empty if neither does.
func (r *run) knownAddress() string {
	return cmp.Or(r.state.Get().Own.Address, addressIn(r.facts.now.Networks))
}

// effectiveAPI is the lower of the API versions of CPI and stemcell; 0 where
// the CPI's is not known.
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

// noSwap says why a new VM cannot be made beside the one that runs.
func (r *run) noSwap(address string) string {
	st := r.state.Get()
	if st.CurrentVMCID == "" {
		return ""
	}
	old, err := url.Parse(r.recallAgent(st.CurrentVMCID).MBus)
	_, dynamic := r.manifest.Address()
	switch {
	case r.manifest.CPI.Registry != nil:
		return "the registry serves one VM"
	case !dynamic && address == st.Own.Address:
		return "both would have the static address " + address
	case err == nil && old.Host == r.manifest.CPI.MBusURL.Host:
		return "the agents of both would be at " + old.Host
	}
	return ""
}

// looksByCPI tells whether the CPI must be asked before a plan can be made.
func (r *run) looksByCPI() bool {
	st := r.state.Get()
	disk := st.Disk()
	switch {
	case len(st.Own.Intents) > 0 || st.Own.Swap != nil:
		return true
	case st.CurrentVMCID == "":
		return disk != nil
	case !r.facts.agentTold:
		return true
	case disk == nil:
		return r.manifest.Group.Disk != nil && r.effectiveAPI() == 0
	}
	return !slices.Contains(r.facts.mounted, disk.CID) ||
		r.manifest.Group.Disk == nil || len(diskReasons(*disk, *r.manifest.Group.Disk)) > 0 && r.effectiveAPI() == 0
}

// makePlan decides and adds what only a run knows.
func (r *run) makePlan(ctx context.Context) error {
	w, err := r.wanted()
	if err != nil {
		return err
	}
	if err := r.sortPackages(ctx, nil); err != nil {
		return err
	}
	w.anew = r.compileCount()
	if err := r.planDelivery(ctx, r.facts.now.Packages); err != nil {
		return err
	}
	w.compiles = r.compileCount()
	st := r.state.Get()
	if r.adopted != nil {
		st.Own.Made = digests(r.salt, vmParts(r.adopted))
	}
	w.second, w.lost = r.recallSecondDisk(), r.lostToSecondDisk(st.CurrentVMCID)
	if r.plan, err = decide(w, st, r.facts); err != nil {
		if _, silent := errors.AsType[*AgentSilentError](err); silent {
			return r.silent(st.CurrentVMCID)
		}
		return err
	}
	w.made = w.madeOf(st, r.plan.on(aVM))
	r.want = w
	if r.plan.newVM() {
		if err := r.planDelivery(ctx, nil); err != nil {
			return err
		}
	} else {
		var dynamic bool
		r.agent = r.running
		if r.address, dynamic = r.manifest.Address(); dynamic {
			r.address = r.knownAddress()
		}
	}
	if names := r.manifest.Generated; len(names) > 0 && r.opts.Inputs.Generate == document.Plan {
		r.plan.Changes = append(r.plan.Changes, Change{What: variables, Action: create, Why: []string{"generated: " + strings.Join(names, ", ")}})
	}
	for _, w := range r.manifest.Warnings {
		r.plan.Warnings = append(r.plan.Warnings, place(w))
	}
	r.plan.Diff = r.manifestDiff()
	r.foresee()
	return nil
}

// foresee fills in which rows run while the service is down, and which calls
// are made.
func (r *run) foresee() {
	p := &r.plan
	seen := map[string]bool{}
	add := func(list *[]string, calls []string) {
		for _, c := range calls {
			if !seen[c] {
				seen[c] = true
				*list = append(*list, c)
			}
		}
	}
	rows := deployRows()
	for _, w := range rows {
		if w.when != nil && !w.when(r) {
			continue
		}
		if w.down && p.stops() {
			p.Down = append(p.Down, w.name)
		}
		if w.calls != nil {
			add(&p.Calls, w.calls(r))
		}
	}
	for _, w := range rows {
		if w.maybe != nil && (w.when == nil || w.when(r)) {
			add(&p.Maybe, w.maybe(r))
		}
	}
	slices.Sort(p.Calls)
	slices.Sort(p.Maybe)
}

// tellPlan makes the plan and tells it; where there is nothing to do the list
// ends here, well.
func (r *run) tellPlan(ctx context.Context) error {
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if err := r.checkPlan(); err != nil {
		return err
	}
	p := r.plan
	r.root.rep.emit(Event{Kind: Planned, Plan: &p})
	if p.Nothing() {
		r.root.info("No deployment, stemcell or release changes. Skipping deploy.")
		if !p.stopped {
			r.sayAddress(r.state.Get().Own.Address)
		}
		return errDone
	}
	return nil
}

// confirm asks whether to go on where something is destroyed, and makes sure
// that the answer is about what there still is.
func (r *run) confirm(ctx context.Context) error {
	list := r.plan.Destroys()
	if len(list) == 0 || r.opts.Confirm == nil || r.opts.Planned != nil {
		return nil
	}
	if err := r.ask(ctx, Question{What: list, Data: r.plan.shrinking}); err != nil {
		return err
	}
	before := r.plan
	if err := r.lookAgain(ctx); err != nil {
		return err
	}
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	if what := moved(before, r.plan); what != "" {
		return &PlanMovedError{What: what}
	}
	return nil
}

// lookAgain asks a running agent once more.
func (r *run) lookAgain(ctx context.Context) error {
	if r.running == nil || !r.facts.agentTold {
		return nil
	}
	now, err := r.running.GetState(ctx, false)
	if err != nil {
		return &PlanMovedError{What: fmt.Sprintf("the agent does not answer any more: %v", err)}
	}
	r.facts.now = now
	r.facts.mounted, err = r.running.ListDisk(ctx)
	return err
}

// manifestDiff is how the manifest differs from the one applied last, as far
// as this machine has kept that one.
func (r *run) manifestDiff() []string {
	old, err := r.keptSketch()
	if err != nil || old == nil {
		return nil
	}
	list, err := document.Diff(old, r.manifest.Sketch)
	if err != nil {
		return nil
	}
	lines := make([]string, len(list))
	for i, d := range list {
		d.Old, d.New = r.opts.Redact(d.Old), r.opts.Redact(d.New) // its path is a name
		lines[i] = d.String()
	}
	return lines
}
