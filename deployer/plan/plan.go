// Package plan decides the changes of a deploy. It is pure: from wishes, state and facts
// it makes a Decision, with reasons as data, and from the Decision the list of steps,
// which is printed, saved and carried out.
package plan

import (
	"cmp"
	"fmt"
	"slices"
)

// Action is the action of a plan on one object.
type Action string

// The actions of a plan.
const (
	Create  Action = "create"
	Replace Action = "replace"
	Update  Action = "update in place"
	Migrate Action = "migrate"
	Attach  Action = "attach"
	Orphan  Action = "orphan" // removed from the VM and kept
	Keep    Action = "keep"
	Start   Action = "start"
	Remove  Action = "delete"
	Note    Action = "record" // only the state file or the address ledger changes
	Reserve Action = "reserve"
	Release Action = "release"
	Hold    Action = "hold" // the address is released when the VM that uses it is deleted
)

// The objects of changes.
const (
	Stemcell  = "stemcell"
	VM        = "vm"
	Disk      = "disk"
	NamedDisk = "named disk" // of persistent_disks
	Jobs      = "jobs"
	Packages  = "packages"
	Workers   = "compilation" // VMs that compile packages and run no jobs
	Tags      = "tags"
	Agent     = "agent"
	DNS       = "dns"
	Variables = "variables"
	State     = "state"
	Address   = "address"
)

// Change is the action on one object. Why has at least one reason, unless the action is
// Keep.
type Change struct {
	What   string   `json:"what"` // stemcell, vm, disk, named disk, jobs, packages, compilation, tags, agent, dns, variables, state, address
	Name   string   `json:"name,omitempty"`
	Action Action   `json:"action"`
	Why    []Reason `json:"why,omitempty"`
}

// Plan is a decision and its steps, in the order in which they run.
type Plan struct {
	Decision
	Looks Step   `json:"looks"` // how the facts are found; not one of the steps
	Steps []Step `json:"steps"`
	// Diff are the differences between the manifest and the last applied one, as lines
	// without secrets.
	Diff []string `json:"diff,omitempty"`
}

// Of returns the plan of a decision.
func Of(d Decision) Plan { return Plan{Decision: d, Steps: Steps(d)} }

// Down returns the steps during which the service is down, in order.
func (p Plan) Down() []string {
	var list []string
	for _, s := range p.Steps {
		if s.Down {
			list = append(list, string(s.Kind))
		}
	}
	return list
}

// Calls returns the calls of the CPI and the agent in the plan, each once and sorted:
// "agent apply", "cpi create_vm". maybe has the calls that depend on the features of the
// CPI.
func (p Plan) Calls() (calls, maybe []string) {
	for _, s := range append([]Step{p.Looks}, p.Steps...) {
		calls = append(calls, s.Calls...)
		maybe = append(maybe, s.Maybe...)
	}
	if slices.ContainsFunc(calls, isCPI) {
		calls = append(calls, "cpi info")
	}
	slices.Sort(calls)
	slices.Sort(maybe)
	calls = slices.Compact(calls)
	maybe = slices.DeleteFunc(slices.Compact(maybe), func(c string) bool { return slices.Contains(calls, c) })
	return calls, maybe
}

func isCPI(call string) bool { return len(call) > 4 && call[:4] == "cpi " }

// View is a plan in words, for people and for --json.
type View struct {
	Changes  []Line   `json:"changes"`
	Warnings []string `json:"warnings,omitempty"`
	Diff     []string `json:"diff,omitempty"`
	Steps    []string `json:"steps,omitempty"`
	Rows     []Row    `json:"rows,omitempty"` // the same steps, each with its parts
	// Down are the steps during which the service is down, in order.
	Down []string `json:"down,omitempty"`
	// Downtime is how many seconds these steps are expected to take, according to earlier
	// runs of this deployment; 0: unknown.
	Downtime float64 `json:"downtime_seconds,omitempty"`
	OfRuns   int     `json:"of_runs,omitempty"`
	// Compiles is the number of packages that are compiled while the service is down.
	Compiles int `json:"compiles,omitempty"`
	// Calls are the calls of the CPI and the agent, each once; Maybe are those
	// that depend on the features of the CPI.
	Calls []string `json:"calls,omitempty"`
	Maybe []string `json:"maybe,omitempty"`
	// Templates are the rendered files that differ from those of the running jobs, if
	// they were requested; nil: unknown. TemplatesNote says why, or why the list is not
	// exact.
	Templates     []File `json:"templates,omitzero"`
	TemplatesNote string `json:"templates_note,omitempty"`
}

// Row is a step of a plan with its parts.
type Row struct {
	Step Kind   `json:"step"`
	Of   Kind   `json:"of,omitempty"`   // the group of the step
	Name string `json:"name,omitempty"` // CID of the step's VM or disk, if it is known
	Down bool   `json:"down,omitempty"` // the service is down while it runs
	// Seconds is how long a step of the downtime is expected to take, according to
	// earlier runs of this deployment; 0: unknown, or less than a millisecond.
	Seconds float64 `json:"seconds,omitempty"`
}

// Outage returns the steps during which the service is down, in order, each group as one
// step, and the same step for several disks once.
func (v View) Outage() []string {
	var list []string
	for i, r := range v.Rows {
		if r.Down && (i == 0 || cmp.Or(v.Rows[i-1].Of, v.Rows[i-1].Step) != cmp.Or(r.Of, r.Step)) {
			list = append(list, string(cmp.Or(r.Of, r.Step)))
		}
	}
	return list
}

// Folded returns the plan with each group of steps as one step.
func (p Plan) Folded() Plan {
	var steps []Step
	for _, s := range p.Steps {
		if s.Of == "" {
			steps = append(steps, s)
			continue
		}
		if n := len(steps); n == 0 || steps[n-1].Kind != s.Of {
			steps = append(steps, Step{Kind: s.Of, Name: s.Name, Down: s.Down})
		}
	}
	p.Steps = steps
	return p
}

// File is a rendered file that differs from that of the running jobs.
type File struct {
	Job    string     `json:"job"`
	Path   string     `json:"path"` // below the job's folder
	Change FileChange `json:"change"`
	Mode   string     `json:"mode,omitempty"`   // old and new mode, if they differ: 0644 -> 0755
	Diff   string     `json:"diff,omitempty"`   // lines in the unified format, without secrets
	Hidden string     `json:"hidden,omitempty"` // why there is no Diff
}

// FileChange is the kind of a difference between rendered files.
type FileChange string

// The kinds of differences.
const (
	FileNew     FileChange = "new"
	FileRemoved FileChange = "removed"
	FileChanged FileChange = "changed"
)

// Line is a Change in words.
type Line struct {
	What   string   `json:"what"`
	Name   string   `json:"name,omitempty"`
	Action Action   `json:"action"`
	Why    []string `json:"why,omitempty"`
}

// View returns the plan in words.
func (p Plan) View() View {
	v := View{Warnings: texts(p.Warnings), Diff: p.Diff, Down: p.Down(), Compiles: p.Compiles}
	v.Calls, v.Maybe = p.Calls()
	for _, c := range p.Changes {
		v.Changes = append(v.Changes, Line{What: c.What, Name: c.Name, Action: c.Action, Why: texts(c.Why)})
	}
	for _, s := range p.Steps {
		v.Steps = append(v.Steps, s.String())
		v.Rows = append(v.Rows, Row{Step: s.Kind, Of: s.Of, Name: s.Name, Down: s.Down})
	}
	return v
}

// Nothing reports whether the plan changes nothing.
func (v View) Nothing() bool {
	return !slices.ContainsFunc(v.Changes, func(c Line) bool { return c.Action != Keep })
}

// Creates reports whether there is no VM yet.
func (v View) Creates() bool {
	return slices.ContainsFunc(v.Changes, func(c Line) bool { return c.What == VM && c.Action == Create })
}

// Differs describes how b differs from a; empty: it does not. It ignores generated
// variables, because they do not change the VM, and packages that another run has
// compiled since a was made.
func Differs(a, b Plan) string {
	was, is := changesOf(a), changesOf(b)
	compiled := b.Compiles < a.Compiles
	if compiled {
		packages := func(c Change) bool { return c.What == Packages }
		was, is = slices.DeleteFunc(was, packages), slices.DeleteFunc(is, packages)
	}
	for _, c := range is {
		if !slices.ContainsFunc(was, c.equal) {
			return "now: " + c.String()
		}
	}
	for _, c := range was {
		if !slices.ContainsFunc(is, c.equal) {
			return "no longer: " + c.String()
		}
	}
	same := func(a, b Step) bool { return a.Kind == b.Kind && a.Name == b.Name && a.Down == b.Down }
	if !compiled && !slices.EqualFunc(a.Steps, b.Steps, same) { // Compiling in place needs other steps.
		return "the steps are different"
	}
	return ""
}

func changesOf(p Plan) []Change {
	return slices.DeleteFunc(slices.Clone(p.Changes), func(c Change) bool { return c.What == Variables || c.Action == Keep })
}

func (c Change) equal(o Change) bool {
	return c.What == o.What && c.Action == o.Action && (c.What != Address || c.Name == o.Name) && slices.EqualFunc(c.Why, o.Why, Reason.equal)
}

// equal compares all fields.
func (r Reason) equal(o Reason) bool {
	return r.Cause == o.Cause && r.Subject == o.Subject && r.From == o.From && r.To == o.To && r.Count == o.Count &&
		slices.Equal(r.Names, o.Names) && slices.EqualFunc(r.Why, o.Why, Reason.equal)
}

// String returns the change in words.
func (c Change) String() string {
	return fmt.Sprintf("%s %s (%s)", c.What, c.Action, Words(c.Why))
}
