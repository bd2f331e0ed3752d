package rollout

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/internal/keyorder"
	"bootstrap/internal/removal"
	"bootstrap/state"
)

// Preview plans a run.
func Preview(ctx context.Context, opts Options) (*Record, error) {
	c, err := prepare(ctx, opts)
	if err != nil {
		return nil, err
	}
	return c.record, nil
}

// prepare selects the members, plans each, and converts the rules of the fleet file to
// numbers. If the last run was killed, it continues that run.
func prepare(ctx context.Context, opts Options) (*coordinator, error) {
	old, err := Load(opts.Fleet.Path)
	if err == nil {
		err = checkEmpty(opts, old)
	}
	if err != nil {
		return nil, err
	}
	c := &coordinator{
		opts: opts, index: map[string]int{}, byName: map[string]fleet.Member{}, progress: make(chan Progress), gone: make(chan struct{}),
		limits: map[string]time.Time{}, late: map[string]bool{}, down: map[string]time.Time{}, first: old == nil,
	}
	members, err := choose(opts, old)
	if err != nil {
		return nil, err
	}
	gone, err := toPrune(opts, old)
	if err != nil {
		return nil, err
	}
	members = append(slices.Clip(members), gone...)
	c.record = newRecord(opts, members)
	for _, m := range c.record.Members[len(members)-len(gone):] {
		m.Delete = true
	}
	c.record.Removed = old.RemovedFrom(opts.Fleet, opts.Home)
	c.record.Known = knownOf(opts.Fleet, c.record.Removed)
	for i, m := range members {
		c.index[m.Name], c.byName[m.Name] = i, m
	}
	continued, fresh := continues(old, opts), *c.record
	if continued {
		c.record.take(old)
	}
	if err := c.plan(ctx); err != nil {
		return nil, err
	}
	c.expectHandOvers()
	if continued && c.record.changedSince(old) {
		c.record.forget()
		c.record.ID, c.record.Started, c.record.Logs = fresh.ID, fresh.Started, fresh.Logs
		continued = false
	}
	if !continued {
		old = nil
	}
	c.decide(old)
	if c.refuseHandOvers() {
		c.decide(old)
	}
	for _, m := range c.record.Members {
		if m.heldBy != nil {
			c.planned(m)
		}
	}
	return c, nil
}

// decide converts the rules to numbers, or uses the numbers of a continued run.
func (c *coordinator) decide(old *Record) {
	c.count()
	if old != nil {
		n := &c.record.Numbers // the fleet file may have fewer members than before
		n.ToDo, n.Waves = min(old.Numbers.ToDo, n.Members), old.Numbers.Waves
		n.Canaries = min(old.Numbers.Canaries, n.ToDo)
	}
	c.rules = rules(c.opts.Fleet.Update, c.record.Numbers)
	c.list = make([]schedule.Member, len(c.record.Members))
	for i := range c.list {
		c.sync(i)
	}
}

// choose returns the selected members in the order in which they start.
func choose(opts Options, old *Record) ([]fleet.Member, error) {
	var list []fleet.Member
	continued := continues(old, opts)
	all := opts.Fleet.Members
	if opts.Action == fleet.DeleteStrategy {
		removed := Members(old.RemovedFrom(opts.Fleet, opts.Home), all)
		if opts.Choice.Removed {
			if err := refuseUnreadable(opts, opts.Fleet.Members, removed); err != nil {
				return nil, err
			}
			all = nil
		}
		all = append(slices.Clip(all), removed...)
	}
	for _, m := range all {
		wanted := func(s fleet.Selector) bool {
			last := old.Find(m.Name) // in a continued run, a member is selected if it was selected at the beginning
			return s.Matches(m) && (!s.Failed || last != nil && (continued || last.Verdict == schedule.Failed || last.Verdict == schedule.Interrupted))
		}
		if len(opts.Only) == 0 || slices.ContainsFunc(opts.Only, wanted) {
			list = append(list, m)
		}
	}
	if len(list) == 0 && !opts.Choice.Removed && !opts.AllowEmpty {
		return nil, errors.New("no member is selected: \"bootstrap fleet status FLEET\" lists them")
	}
	switch opts.Fleet.Update.Order {
	case fleet.NameOrder:
		slices.SortStableFunc(list, func(a, b fleet.Member) int { return keyorder.Names(a.Name, b.Name) })
	case fleet.RandomOrder:
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		if old != nil && old.Ended == nil { // a continued run keeps its order
			at := map[string]int{}
			for i, m := range old.Members {
				at[m.Name] = i + 1
			}
			slices.SortStableFunc(list, func(a, b fleet.Member) int { return at[a.Name] - at[b.Name] })
		}
	}
	return list, nil
}

// idTime is the format of the time with which the ID of a run begins.
const idTime = "20060102-150405"

func newRecord(opts Options, members []fleet.Member) *Record {
	now := time.Now().UTC().Truncate(time.Millisecond)
	f := opts.Fleet
	sum := sha256.Sum256([]byte(f.Path))
	id := fmt.Sprintf("%s-%03d", now.Format("20060102-150405"), now.UnixMilli()%1000)
	r := &Record{
		Format: Format, ID: id, Fleet: f.Path, Name: f.Name, Action: opts.Action, Errand: opts.Errand, By: opts.By, Started: now,
		Chosen: opts.Choice.String(),
		Logs:   filepath.Join(opts.Home, "fleets", hex.EncodeToString(sum[:6]), id),
	}
	if opts.Logs != "" {
		r.Logs = filepath.Join(opts.Logs, id)
	}
	for _, m := range members {
		one := &Member{Name: m.Name, Labels: m.Labels, Candidate: canBeCanary(f.Update.Canaries, m)}
		if m.Blocked != nil && !opts.IncludeBlocked {
			one.Verdict, one.Reason = schedule.Blocked, m.Blocked.Why
			if m.Blocked.By != "" {
				one.Reason = fmt.Sprintf("%s (%s)", m.Blocked.Why, m.Blocked.By)
			}
		}
		r.Members = append(r.Members, one)
	}
	return r
}

// String returns the choice as text, which is compared with that of another run.
func (c Choice) String() string {
	var words []string
	for _, s := range c.Only {
		words = append(words, s.String())
	}
	if c.Removed {
		words = append(words, "--removed")
	}
	if c.Prune {
		words = append(words, "--prune")
	}
	if c.IncludeBlocked {
		words = append(words, "--include-blocked")
	}
	if !c.CreatedBefore.IsZero() {
		words = append(words, fmt.Sprintf("--created-before=%d", c.CreatedBefore.Unix()))
	}
	return strings.Join(words, " ")
}

func canBeCanary(c fleet.Canaries, m fleet.Member) bool {
	label, value, _ := strings.Cut(c.Of, "=")
	has, ok := m.Labels[label]
	return c.Of == "" || ok && has == value
}

// continues reports whether this run continues the last one: a killed run, or a recreate
// or delete that failed, because a new one would recreate members twice.
func continues(old *Record, opts Options) bool {
	if old == nil || old.Action != opts.Action || old.Errand != opts.Errand || old.Chosen != opts.Choice.String() {
		return false
	}
	switch old.Result {
	case "":
		return true
	case Failed, Busy, Interrupted:
		return opts.Action != fleet.UpdateStrategy
	}
	return false
}

// take copies the results of the last run's members.
func (r *Record) take(old *Record) {
	r.ID, r.Started = old.ID, old.Started
	r.Logs = filepath.Join(filepath.Dir(r.Logs), filepath.Base(old.ID)) // the record may be from another machine
	for _, m := range r.Members {
		last := old.Find(m.Name)
		if last == nil || m.Verdict == schedule.Blocked {
			continue
		}
		switch last.Verdict {
		case schedule.Done:
			labels, candidate, gone := m.Labels, m.Candidate, m.Delete
			*m = *last
			m.Labels, m.Candidate, m.Delete = labels, candidate, gone
		case schedule.Running:
			m.Canary, m.Wave, m.Attempts, m.killed, m.Down, m.Outages = last.Canary, last.Wave, last.Attempts, true, last.Down, last.Outages
		}
	}
}

// changedSince reports whether a member that the last run has done has changes again:
// somebody has changed it since, so it proves nothing about the others.
func (r *Record) changedSince(old *Record) bool {
	return slices.ContainsFunc(r.Members, func(m *Member) bool {
		last := old.Find(m.Name)
		return last != nil && last.Verdict == schedule.Done && m.Verdict != schedule.Done
	})
}

// forget removes the results that take copied.
func (r *Record) forget() {
	for _, m := range r.Members {
		m.Canary, m.Wave, m.Attempts, m.Down, m.Outages = false, 0, 0, 0, nil
		if m.Verdict == schedule.Done {
			m.Verdict, m.Reason, m.Started, m.Ended = schedule.Unchanged, "", nil, nil
		}
	}
}

// atOnce is how many members are planned at the same time. They mostly wait for agents.
const atOnce = 8

// plan plans every member that may have changes.
func (c *coordinator) plan(ctx context.Context) error {
	list := slices.DeleteFunc(slices.Clone(c.record.Members), func(m *Member) bool {
		return m.Verdict == schedule.Blocked || m.Verdict == schedule.Done && (c.record.Action == fleet.RecreateStrategy || c.record.Action.OfJobs())
	})
	var mu sync.Mutex
	err := guard.Each(ctx, atOnce, len(list), func(i int) {
		if ctx.Err() != nil {
			return
		}
		m := list[i]
		planned := c.planOne(ctx, *m)
		mu.Lock()
		defer mu.Unlock()
		*m = planned
		if m.heldBy == nil { // otherwise it may wait for another member
			c.planned(m)
		}
	})
	if ctx.Err() != nil {
		return &InterruptedError{}
	}
	return err
}

// InterruptedError says that a run was interrupted before it began, or that AskNow was
// interrupted.
type InterruptedError struct {
	Asking bool // true: AskNow was asking members for their status
}

func (e *InterruptedError) Error() string {
	if e.Asking {
		return "interrupted while the members were asked for their status"
	}
	return "interrupted while the members were planned; nothing was changed"
}

func (e *InterruptedError) ExitCode() failure.Code { return failure.Interrupted }

// planned reports the result of a member's plan.
func (c *coordinator) planned(m *Member) {
	c.emit(Event{Kind: Planning, Member: m.Name, Verdict: m.Verdict, Status: m.Verdict.String(), Reason: m.Reason, Hint: m.Hint})
}

// planOne returns the member with the result of its plan.
func (c *coordinator) planOne(ctx context.Context, m Member) Member {
	if c.action(&m) == fleet.DeleteStrategy {
		return c.planDelete(m)
	}
	if c.record.Action.OfJobs() {
		return c.planJobs(ctx, m)
	}
	was := m.Verdict
	one := c.byName[m.Name]
	m.Verdict, m.Reason = schedule.Waiting, ""
	if c.record.Action == fleet.RecreateStrategy || !c.opts.CreatedBefore.IsZero() {
		if why := c.skips(one); why != "" {
			m.Verdict, m.Reason = schedule.Unchanged, why
			return m
		}
	}
	if c.record.Action == fleet.RecreateStrategy && slices.ContainsFunc(c.opts.Only, func(s fleet.Selector) bool { return s.Outdated }) {
		if p := c.opts.Program.MakePlan(ctx, Task{Member: one, Action: fleet.UpdateStrategy}); p.ExitCode == failure.Done {
			m.Verdict, m.Reason = schedule.Unchanged, "it is not outdated"
			return m
		}
	}
	p := c.opts.Program.MakePlan(ctx, Task{Member: one, Action: c.record.Action, Killed: m.killed, Run: c.record.ID})
	m.heldBy, m.gives = p.HeldBy, givenUp(p.View)
	switch {
	case p.ExitCode == failure.Done && was == schedule.Done:
		m.Verdict = schedule.Done
	case p.ExitCode == failure.Done && m.killed:
		m.Verdict = schedule.Done // before its run was killed
		now := time.Now().UTC()
		m.Ended = &now
	case p.ExitCode == failure.Done:
		m.Verdict = schedule.Unchanged
		if c.stopped(one) {
			m.Reason = "it was stopped with bootstrap stop"
		}
	case p.ExitCode == failure.Changes && p.View != nil:
		m.Changes, m.Planned = changes(p.View), p.View.Outage()
	case m.killed: // its earlier start may have been in the middle of a change
	case p.ExitCode == failure.Agent && c.opts.Fleet.Update.Unreachable == fleet.SkipUnreachable:
		m.skip(p.Error)
	default:
		m.Verdict, m.ExitCode, m.Reason, m.Hint = schedule.Failed, int(p.ExitCode), p.Error, p.Hint
	}
	return m
}

// planJobs returns the member with its plan for a command about jobs, which every member
// with a VM gets.
func (c *coordinator) planJobs(ctx context.Context, m Member) Member {
	m.Verdict, m.Reason = schedule.Waiting, ""
	one := c.byName[m.Name]
	all, err := instancesOf(one, c.opts.Home)
	var st state.State
	if all == nil && err == nil {
		st, _, err = readState(one, c.opts.Home)
	}
	switch {
	case all != nil: // its command knows which instances have a VM
	case err != nil:
		m.Verdict, m.ExitCode, m.Reason = schedule.Failed, int(failure.Failed), err.Error()
	case st.CurrentVMCID == "" && !one.IsStored(): // This machine may have no copy.
		m.Verdict, m.Reason = schedule.Unchanged, "it is not deployed"
	}
	if m.Verdict != schedule.Waiting || m.killed || c.opts.Fleet.Update.Unreachable != fleet.SkipUnreachable {
		return m
	}
	asks := c.opts.Program
	asks.Flags = c.opts.StatusFlags
	if now := asks.Status(ctx, one); now.State == Unreachable {
		m.skip(now.Problem)
	}
	return m
}

// skip marks a member that cannot be reached.
func (m *Member) skip(why string) {
	m.Verdict, m.Reason = schedule.Blocked, "it is unreachable: "+why
}

// stopped reports whether the member was stopped with bootstrap stop.
func (c *coordinator) stopped(m fleet.Member) bool {
	st, found, err := readState(m, c.opts.Home)
	return err == nil && found && st.Own.Stopped
}

// skips returns why a member is not recreated, or why it is too new; empty: it is not
// skipped.
func (c *coordinator) skips(m fleet.Member) string {
	if all, err := instancesOf(m, c.opts.Home); err != nil || all != nil {
		return "" // its own command looks at each instance
	}
	st, found, err := readState(m, c.opts.Home)
	switch {
	case err != nil:
		return "" // its plan reports the error
	case !found && m.IsStored(): // This machine has no copy.
		return ""
	case !found && c.record.Action == fleet.RecreateStrategy:
		return "it is not deployed"
	case !found || c.opts.CreatedBefore.IsZero() || unfinished(st):
		return ""
	}
	if created := st.Own.Created; created != nil && !created.Before(c.opts.CreatedBefore) {
		return "its VM was created at " + report.Minute(*created)
	}
	return ""
}

// unfinished reports whether the last deploy was interrupted.
func unfinished(st state.State) bool {
	return len(st.Own.Intents) > 0 || st.CurrentVMCID == "" || st.CurrentManifestSHA == ""
}

// count turns the rules into numbers.
func (c *coordinator) count() {
	u, r := c.opts.Fleet.Update, c.record
	toDo, toDelete, candidates := 0, 0, 0
	for _, m := range r.Members {
		switch {
		case m.Verdict == schedule.Waiting && m.Delete:
			toDelete++
		case m.Verdict == schedule.Waiting:
			toDo++
			if m.Candidate {
				candidates++
			}
		}
	}
	r.Numbers = Numbers{
		Members: r.updates(), ToDo: toDo, Canaries: min(u.Canaries.Count.Of(toDo), candidates),
		MaxInFlight: max(u.MaxInFlight.Of(toDo), 1), MaxFailures: u.MaxFailures, ToDelete: toDelete,
	}
	for _, share := range u.Waves {
		r.Numbers.Waves = append(r.Numbers.Waves, max(share.Of(toDo), 1))
	}
}

func rules(u fleet.Update, n Numbers) schedule.Rules {
	return schedule.Rules{
		Canaries: n.Canaries, Width: n.MaxInFlight, Waves: n.Waves, BakeCanaries: u.BakeCanaries, BakeWaves: u.BakeWaves,
		MaxFailures: n.MaxFailures, BusyRounds: u.RetryBusy.Rounds, BusyWait: u.RetryBusy.Wait,
	}
}

// keptRuns is how many runs of a fleet keep their logs.
const keptRuns = 20

// prune removes the logs of the oldest runs, but never the folder keep, even if the
// clock was set back.
func prune(keep string) {
	dir := filepath.Dir(keep)
	entries, err := os.ReadDir(dir) // sorted by name, which begins with the time
	if err != nil {
		return
	}
	entries = slices.DeleteFunc(entries, func(e os.DirEntry) bool { return e.Name() == filepath.Base(keep) })
	for len(entries) >= keptRuns {
		_ = removal.Tree(filepath.Join(dir, entries[0].Name())) // the next run tries again
		entries = entries[1:]
	}
}
