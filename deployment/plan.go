package deployment

import (
	"cmp"
	"context"
	"io"
	"maps"
	"slices"

	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployment/order"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
)

// Options are the parameters of a run of a deployment.
type Options struct {
	// Base are the options of work on an instance in this process.
	Base deployer.Options
	// Advice returns what to do about an error; empty: nothing is known.
	Advice func(error) string
	// Confirm returns an error if this run must not begin its next step; may be nil.
	Confirm func(context.Context) error
	Report  func(Event)
	// Logs is the folder for the output of commands about single instances. Output returns
	// functions for the log of one: show writes an event, and end writes how it ended and
	// returns the error for people.
	Logs   string
	Output func(log io.Writer) (show func(report.Event), end func(error) error)
	// Only selects the instances that may change, as record.Select does; empty: all.
	Only string
	// OnlyFailed leaves out the instances that run.
	OnlyFailed bool
	// KeepDisks makes the disks of deleted instances orphaned ones.
	KeepDisks bool
}

// Action is what happens to an instance.
type Action string

// The actions.
const (
	Create  Action = "create"
	Change  Action = "change"
	Keep    Action = "keep"
	Delete  Action = "delete"
	Leave   Action = "leave"   // it is not selected: whether it would change is not known
	Ignored Action = "ignored" // bootstrap ignore excludes it
	// Unreachable is an instance whose agent does not answer: it stays as it is.
	Unreachable Action = "unreachable"
)

// Row is an instance in the plan of a deployment.
type Row struct {
	Name      string            `json:"name"` // GROUP/INDEX
	ID        string            `json:"id"`
	Zone      string            `json:"az,omitempty"`
	Bootstrap bool              `json:"bootstrap,omitempty"`
	Addresses map[string]string `json:"addresses,omitempty"` // by network
	Action    Action            `json:"action"`
	Changes   []plan.Line       `json:"changes,omitempty"`
	Diff      []string          `json:"diff,omitempty"` // of the manifest and the last applied one
	// Templates are the rendered files that differ from those of the running jobs, as in
	// plan.View.
	Templates     []plan.File `json:"templates,omitzero"`
	TemplatesNote string      `json:"templates_note,omitempty"`
	Down          []string    `json:"down,omitempty"` // steps during which the instance does not serve
	// Downtime is how many seconds they are expected to take, as in so many earlier runs;
	// 0: it is not known.
	Downtime float64  `json:"downtime_seconds,omitempty"`
	OfRuns   int      `json:"of_runs,omitempty"`
	Warnings []string `json:"warnings,omitempty"`
	Why      string   `json:"why,omitempty"` // why it is deleted
	// NotRunning says why the instance, which exists, does not run; empty: it runs, or is
	// not selected.
	NotRunning string `json:"not_running,omitempty"`
	Disk       Fate   `json:"disk,omitempty"` // what happens to its disk if it is deleted; empty: it has none

	in      *record.Instance
	scripts bool // its jobs have post-deploy scripts
	stopped bool // its jobs stay stopped, after bootstrap stop
}

// Fate is what happens to the disk of an instance that is deleted.
type Fate string

// The fates.
const (
	DiskDeleted  Fate = "deleted"
	DiskOrphaned Fate = "orphaned"
)

// Plan is the plan of a deployment.
type Plan struct {
	Deployment string `json:"deployment"`
	Rows       []Row  `json:"instances"` // by group and index
	// Gone are the names of instances whose group is not in the manifest: they are
	// deleted first. Then the stages follow, one after another.
	Gone   []string      `json:"gone,omitempty"`
	Stages []order.Stage `json:"stages,omitempty"`
	Shared []Shared      `json:"shared,omitempty"`
	Groups []Service     `json:"groups,omitempty"`
	// Canaries and MaxInFlight are those that were asked for, in place of update; empty: none.
	Canaries    string `json:"canaries,omitempty"`
	MaxInFlight string `json:"max_in_flight,omitempty"`
	// Disks are the disks that a delete deletes.
	Disks []GoneDisk `json:"disks,omitempty"`
	// Compile says which packages are compiled on compilation VMs, before anything else;
	// nil: none.
	Compile *Compile `json:"compile,omitempty"`
	// Create are the instances whose VMs are created before the stages, all at the same
	// time.
	Create []string `json:"create,omitempty"`
	// PostDeploy are the instances whose post-deploy scripts run at the end: all that
	// have some, if any instance changes, or those that the last run has not reached.
	PostDeploy []string `json:"post_deploy,omitempty"`
	// DNSRecords are the instances whose VMs get DNS records, because names, addresses or
	// agents change or because the last run could not reach their agents.
	DNSRecords []string `json:"dns_records,omitempty"`
	// DNSLater is true if they get them after the stages.
	DNSLater bool `json:"-"`

	plans map[string]deployer.PlanFile // of instances that are not deleted, by id
	rules map[string]manifest.Rules    // by group
	// connections has the links of other deployments that were read; nil: the plan needs none.
	connections *deployer.Connections
}

// Compile is a part of a plan: packages that are compiled apart from the instances.
type Compile struct {
	Packages []string `json:"packages"` // NAME/VERSION
	VMs      int      `json:"vms"`      // how many VMs there are at the same time

	groups []string // instance groups that need the packages
}

// Nothing reports whether the plan changes nothing.
func (p *Plan) Nothing() bool {
	return p.changesNothing() && len(p.PostDeploy) == 0 && len(p.DNSRecords) == 0
}

func (p *Plan) changesNothing() bool {
	return !slices.ContainsFunc(p.Rows, Row.changes)
}

// changes reports whether the plan does something with the instance.
func (r Row) changes() bool {
	return r.Action != Keep && r.Action != Leave && r.Action != Ignored && r.Action != Unreachable
}

// idle reports whether the plan starts no jobs of the instance.
func (r Row) idle() bool {
	return r.stopped || !slices.ContainsFunc(r.Changes, func(c plan.Line) bool { return c.Action != plan.Note })
}

// leave makes it the row of an instance that is not selected.
func (r *Row) leave() { r.Action, r.Why, r.Disk = Leave, "", "" }

// partial reports whether the plan leaves instances out.
func (p *Plan) partial() bool { return p.Count(Leave)+p.Count(Unreachable) > 0 }

// Count returns how many instances have the action.
func (p *Plan) Count(a Action) int {
	n := 0
	for _, r := range p.Rows {
		if r.Action == a {
			n++
		}
	}
	return n
}

// Result returns what a run of the plan does to the instances, and their addresses after it.
func (p *Plan) Result() *report.Instances {
	of := &report.Instances{Created: p.Count(Create), Changed: p.Count(Change), Deleted: p.Count(Delete)}
	of.Unchanged = len(p.Rows) - of.Created - of.Changed - of.Deleted
	for _, row := range p.Rows {
		for _, network := range slices.Sorted(maps.Keys(row.Addresses)) {
			if row.Action != Delete {
				of.At = append(of.At, report.At{Instance: row.Name, Address: row.Addresses[network]})
				break // It is reached at the first one.
			}
		}
	}
	return of
}

// DeleteOf returns the plan that deletes instances of a record. keepDisks is true if their
// disks become orphaned ones.
func DeleteOf(all *record.Record, list []*record.Instance, keepDisks bool) *Plan {
	p := &Plan{Deployment: all.Name}
	for _, in := range all.Instances {
		chosen := slices.Contains(list, in)
		if chosen {
			in.Going = record.DeploymentDeleted
			if len(list) < len(all.Instances) {
				in.Going = record.Chosen
			}
			p.Gone = append(p.Gone, in.Name())
		}
		row := rowOf(in)
		if !chosen {
			row.leave()
		}
		if row.Disk != "" && !keepDisks {
			row.Disk = DiskDeleted
		}
		p.Rows = append(p.Rows, row)
	}
	p.serve()
	return p
}

// rowOf returns the row of an instance whose plan is not known.
func rowOf(in *record.Instance) Row {
	row := Row{Name: in.Name(), ID: in.ID, Zone: in.Zone, Bootstrap: in.Bootstrap, Addresses: map[string]string{}, Action: Keep, in: in}
	for name, block := range in.Addresses {
		row.Addresses[name] = block.Addr().String()
	}
	if in.Going != "" {
		row.Action, row.Why = Delete, in.Going
		if in.Disk {
			row.Disk = DiskOrphaned
		}
	}
	return row
}

// atOnce is how many VMs are created at the same time, and how many instances of removed
// groups are deleted.
const atOnce = 8

// MakePlan plans all instances of a draft, each as `bootstrap plan` does. It changes
// nothing.
func MakePlan(ctx context.Context, o Options, d *manifest.Deployment, draft *Draft, first bool) (*Plan, error) {
	if len(draft.Lost) > 0 {
		return nil, lostError(draft.Lost, groupOf(d, draft.Lost[0].Into))
	}
	p := &Plan{Deployment: d.Name, Canaries: o.Base.Canaries, MaxInFlight: o.Base.MaxInFlight, connections: deployer.NewConnections()}
	o.Base.Deployment, o.Base.Connections = d, p.connections
	chosen, unknown := draft.Record.Select(o.Only)
	if len(chosen) == 0 && o.Only != "" {
		return nil, &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(draft.Record.Instances), Dir: draft.Record.Dir()}
	}
	for _, in := range draft.Record.Instances {
		row := rowOf(in)
		if !slices.Contains(chosen, in) {
			row.leave()
		}
		if in.Ignored && row.Action == Keep {
			row.Action = Ignored
		}
		p.Rows = append(p.Rows, row)
	}
	if o.OnlyFailed {
		if err := p.leaveRunning(ctx, o, draft); err != nil {
			return nil, err
		}
	}
	if err := p.planEach(ctx, o, draft); err != nil {
		return nil, err
	}
	if err := p.FindSilent(ctx, o, draft.Record); err != nil {
		return nil, err
	}
	if err := p.findUnhealthy(ctx, o, draft.Record); err != nil {
		return nil, err
	}
	deployer.WarnOfInstances(o.Base, d)
	if err := p.order(&o, d, first); err != nil {
		return nil, err
	}
	p.serve()
	p.Create = p.missing()
	changes := slices.ContainsFunc(p.Rows, func(row Row) bool { return row.Action == Delete || row.changes() && !row.idle() })
	for _, row := range p.Rows {
		if row.Action != Delete && row.scripts && (changes || row.in.PostDeploy) {
			p.PostDeploy = append(p.PostDeploy, row.Name)
		}
	}
	return p, p.nameLinks(o, draft)
}

// planEach plans each instance that is not deleted.
func (p *Plan) planEach(ctx context.Context, o Options, draft *Draft) error {
	made := make([]planned, len(p.Rows))
	err := sideBySide(ctx, len(p.Rows), func(i int) {
		if row := p.Rows[i]; row.Action == Keep {
			made[i] = o.plan(ctx, draft.Record, row.in)
		}
	})
	if err != nil {
		return err
	}
	if err := p.sameForAll(made); err != nil {
		return err
	}
	var failed []Unplanned
	for i := range p.Rows {
		row, view := &p.Rows[i], &made[i].file.View
		row.stopped = made[i].file.Plan.Stopped
		if !draft.New[row.ID] {
			row.NotRunning = made[i].file.Down
		}
		row.scripts = made[i].file.PostDeploy && !row.stopped
		switch err := made[i].err; {
		case row.Action != Keep:
		case silent(err):
			row.leaveSilent(err)
		case err != nil:
			reason := err.Error()
			if advice := o.Advice(err); advice != "" {
				reason += " (" + advice + ")"
			}
			failed = append(failed, unplanned(row.Name, reason, err))
		case made[i].file.Plan.Detached():
			row.Why = "detached"
		case !view.Nothing():
			row.Action = Change
			if draft.New[row.ID] || creates(view) {
				row.Action = Create
			}
			row.Changes, row.Down, row.Downtime, row.OfRuns = changesOf(view), view.Down, view.Downtime, view.OfRuns
			row.Warnings, row.Diff = view.Warnings, view.Diff
			row.Templates, row.TemplatesNote = view.Templates, view.TemplatesNote
		default:
			row.settle(made[i].file.Plan)
		}
	}
	if len(failed) > 0 {
		return &UnplannedError{Failed: failed}
	}
	p.plans = map[string]deployer.PlanFile{}
	for i, row := range p.Rows {
		if row.Action != Delete && row.Action != Unreachable && row.Action != Ignored {
			p.plans[row.ID] = made[i].file
		}
	}
	p.share(keptStemcells(made))
	p.compile(made)
	return nil
}

// compile finds the packages that are compiled before the instances change.
func (p *Plan) compile(made []planned) {
	c := Compile{}
	for i, row := range p.Rows {
		if row.Action != Create && row.Action != Change || len(made[i].file.Apart) == 0 {
			continue
		}
		c.Packages = append(c.Packages, made[i].file.Apart...)
		c.groups = append(c.groups, row.in.Group)
		c.VMs = made[i].file.Workers
	}
	if len(c.Packages) == 0 {
		return
	}
	c.Packages = slices.Compact(slices.Sorted(slices.Values(c.Packages)))
	c.VMs = min(c.VMs, len(c.Packages))
	p.Compile = &c
}

// sameForAll returns the error of the instances that were planned, if all have the same
// one: it is about the manifest or this machine, and not about an instance.
func (p *Plan) sameForAll(made []planned) error {
	var same error
	for i := range made {
		switch err := made[i].err; {
		case p.Rows[i].Action != Keep, silent(err):
		case err == nil, same != nil && same.Error() != err.Error():
			return nil
		default:
			same = err
		}
	}
	return same
}

// creates reports whether a plan creates a VM and replaces none.
func creates(v *plan.View) bool {
	return slices.ContainsFunc(v.Changes, func(c plan.Line) bool { return c.Action == plan.Create && c.What == plan.VM })
}

// settle makes a deploy work on an unchanged instance if results of an interrupted run are
// unknown: the command about the instance finds them out.
func (row *Row) settle(of plan.Plan) {
	if why, unsettled := of.Unsettled(); unsettled {
		row.Action, row.Changes = Change, []plan.Line{{What: plan.State, Action: plan.Note, Why: []string{why.String()}}}
	}
}

// changesOf lists the changes of a plan.
func changesOf(v *plan.View) []plan.Line {
	return slices.DeleteFunc(slices.Clone(v.Changes), func(c plan.Line) bool { return c.Action == plan.Keep || c.What == plan.Workers })
}

// keptStemcells returns the stemcells that instances keep.
func keptStemcells(made []planned) map[string]bool {
	kept := map[string]bool{}
	for i := range made {
		for _, c := range made[i].file.View.Changes {
			if c.What == plan.Stemcell && c.Action == plan.Keep {
				kept[c.Name] = true
			}
		}
	}
	return kept
}

// order fills in the order in which instances change.
func (p *Plan) order(o *Options, d *manifest.Deployment, first bool) (err error) {
	var groups []order.Group
	known := map[string]bool{}
	p.rules = map[string]manifest.Rules{}
	for _, g := range d.Groups {
		if g.Errand && !slices.ContainsFunc(p.Rows, func(row Row) bool { return row.in.Group == g.Name && row.Action != Delete }) {
			continue
		}
		known[g.Name], p.rules[g.Name] = true, g.Rules
		group := order.Group{
			Name: g.Name, Canaries: cmp.Or(o.Base.Canaries, g.Rules.Canaries), MaxInFlight: cmp.Or(o.Base.MaxInFlight, g.Rules.MaxInFlight), MinHealthy: g.Rules.MinHealthy,
			Serial: g.Rules.Serial, ParallelZones: g.Rules.ParallelZones,
		}
		for _, row := range p.Rows {
			switch {
			case row.in.Group != g.Name:
			case row.Action == Delete:
				group.Going = append(group.Going, row.Name)
			default:
				group.Instances = append(group.Instances, order.Instance{
					ID: row.Name, Index: row.in.Index, Zone: row.Zone, Bootstrap: row.Bootstrap, Ignored: row.in.Ignored,
					Changes: row.changes(), New: row.Action == Create, Idle: row.idle(), Down: row.NotRunning != "",
				})
			}
		}
		groups = append(groups, group)
	}
	for _, row := range p.Rows {
		if row.Action == Delete && !known[row.in.Group] {
			p.Gone = append(p.Gone, row.Name)
		}
	}
	p.Stages, err = order.Stages(groups, first)
	p.Stages = slices.DeleteFunc(p.Stages, func(s order.Stage) bool {
		return !slices.ContainsFunc(s, func(t order.Turn) bool { return len(t.Lots) > 0 || len(t.Delete.IDs) > 0 })
	})
	return err
}

// canaries returns the canaries of all groups, by name.
func (p *Plan) canaries() map[string]bool {
	all := map[string]bool{}
	for _, stage := range p.Stages {
		for _, turn := range stage {
			for _, lot := range turn.Lots {
				for _, name := range lot.Canaries {
					all[name] = true
				}
			}
		}
	}
	return all
}

// missing returns the instances whose VMs are created before the groups have their turns.
// The only instance of a plan that changes is created in its turn.
func (p *Plan) missing() []string {
	var list []string
	changes := 0
	for _, row := range p.Rows {
		if row.Action == Create {
			list = append(list, row.Name)
		}
		if row.changes() {
			changes++
		}
	}
	if changes == 1 {
		return nil
	}
	return list
}
