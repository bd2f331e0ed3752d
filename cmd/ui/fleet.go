package ui

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/guard"
	"bootstrap/internal/keyorder"
)

// FleetPlan prints the plans of all members as one table, and the numbers of the run.
func FleetPlan(out *Writer, r *rollout.Record) {
	table := NewTable(out, "MEMBER", "PLAN", "THE SERVICE IS DOWN FOR", "ORDER").
		Yield("THE SERVICE IS DOWN FOR", 16).Yield("PLAN", 20).Yield("THE SERVICE IS DOWN FOR", 0).Yield("ORDER", 0).Yield("PLAN", 12)
	canaries, order := r.Numbers.Canaries, map[string]string{}
	for _, m := range r.Members {
		switch {
		case m.Delete:
			order[m.Name] = "last"
		case m.Verdict == schedule.Waiting && m.Candidate && canaries > 0:
			order[m.Name], canaries = "canary", canaries-1
		}
	}
	for _, m := range byName(r.Members) {
		table.Row(m.Name, fleetPlan(m), orDash(strings.Join(m.Planned, ", ")), orDash(order[m.Name]))
	}
	table.Print()
	fmt.Fprintln(out)
	fmt.Fprintln(out, FleetNumbers(r))
	if !r.Prunes() {
		fleetRemoved(out, r.Fleet, r.Removed)
	}
	for _, m := range r.Members {
		if m.Verdict == schedule.Failed {
			unplanned(out, m.Name, m.Reason, m.Hint)
		}
	}
}

// byName returns members in the order in which people count: m-2 before m-10. Those that are
// deleted at the end follow the others.
func byName(members []*rollout.Member) []*rollout.Member {
	return slices.SortedStableFunc(slices.Values(members), func(a, b *rollout.Member) int {
		if a.Delete != b.Delete {
			return map[bool]int{true: 1, false: -1}[a.Delete]
		}
		return keyorder.Names(a.Name, b.Name)
	})
}

// fleetRemoved prints the members that are no longer in the fleet file, but still
// deployed, and the command that deletes them.
func fleetRemoved(out *Writer, fleetFile string, removed []rollout.Removed) {
	if len(removed) == 0 {
		return
	}
	fmt.Fprintln(out, "No longer in the fleet file, but still deployed:")
	for _, one := range slices.SortedStableFunc(slices.Values(removed), func(a, b rollout.Removed) int { return keyorder.Names(a.Name, b.Name) }) {
		fmt.Fprintf(out, "  %s\n", out.clean(one.String(), maxMessage))
	}
	fmt.Fprintf(out, "  to delete: %s\n", rollout.DeleteRemoved(fleetFile))
}

// unplanned prints why a member cannot be planned, and what to do.
func unplanned(out *Writer, name, reason, hint string) {
	fmt.Fprintln(out, out.sentences(name+": cannot be planned: "+out.clean(reason, maxMessage), 0))
	if hint != "" {
		fmt.Fprintln(out, out.sentences("  what to do: "+out.clean(hint, maxMessage), 0))
	}
}

func fleetPlan(m *rollout.Member) string {
	switch {
	case m.Verdict == schedule.Waiting:
		return together(m.Changes)
	case m.Verdict == schedule.Failed:
		return "cannot be planned"
	case m.Reason != "":
		return fmt.Sprintf("%s: %s", m.Verdict, m.Reason)
	}
	return m.Verdict.String()
}

// together joins changes with the same action: "create vm, disk" for "create vm" and
// "create disk".
func together(changes []string) string {
	text, last := "", ""
	for i, c := range changes {
		at := max(strings.LastIndexByte(c, ' '), 0)
		action, what := c[:at], c[at:]
		switch {
		case i > 0 && action == last:
			text += "," + what
		case i > 0:
			text += "; " + c
		default:
			text = c
		}
		last = action
	}
	return text
}

// FleetNumbers returns the order of a run in words.
func FleetNumbers(r *rollout.Record) string {
	text := fleetNumbers(r)
	switch n := r.Numbers.ToDelete; n {
	case 0:
		return text
	case 1:
		return text + "; at the end, 1 member that is no longer in the fleet file is deleted"
	default:
		return fmt.Sprintf("%s; at the end, %d members that are no longer in the fleet file are deleted", text, n)
	}
}

func fleetNumbers(r *rollout.Record) string {
	n := r.Numbers
	failed := 0
	for _, m := range r.Members {
		if m.Verdict == schedule.Failed && m.Attempts == 0 && !m.Delete {
			failed++
		}
	}
	switch {
	case failed > n.MaxFailures:
		return fmt.Sprintf("%d of %s cannot be planned, so no member is started", failed, count(n.Members, "member"))
	case n.ToDo == 0 && r.Errand != "":
		return "No member has a VM on which the errand " + r.Errand + " could run"
	case n.ToDo == 0 && (r.Deletes() || r.Action.OfJobs()):
		return "Nothing to " + string(r.Action)
	case n.ToDo == 0:
		return unchanged(r)
	}
	change := "will change"
	switch {
	case r.Deletes():
		change = "will be deleted"
	case r.Errand != "":
		change = "will run the errand " + r.Errand
	case r.Action.OfJobs():
		change = "will " + string(r.Action)
	}
	first, then := "no canaries", "up to"
	if n.Canaries > 0 {
		first, then = count(n.Canaries, "canary")+" first", "then up to"
	}
	if len(n.Waves) > 0 {
		sizes := make([]string, len(n.Waves))
		for i, size := range n.Waves {
			sizes[i] = fmt.Sprint(size)
		}
		first += fmt.Sprintf(", then waves of %s members (the last size repeats)", strings.Join(sizes, ", "))
		then = "up to"
	}
	stops := "at the first failure"
	if n.MaxFailures > 0 {
		stops = "after more than " + count(n.MaxFailures, "failure")
	}
	return fmt.Sprintf("%d of %s %s: %s, %s %d at a time; the run stops %s", n.ToDo, count(n.Members, "member"), change, first, then, n.MaxInFlight, stops)
}

// unchanged returns the message that no member changes.
func unchanged(r *rollout.Record) string {
	blocked := r.Count()[schedule.Blocked]
	text := fmt.Sprintf("No changes: %s are up to date", count(r.Numbers.Members-blocked, "member"))
	if r.Numbers.Members-blocked == 1 {
		text = "No changes: 1 member is up to date"
	}
	switch blocked {
	case 0:
		return text
	case 1:
		return text + ", 1 is blocked"
	}
	return fmt.Sprintf("%s, %d are blocked", text, blocked)
}

// FleetCreates reports whether a run only creates members that do not exist yet.
func FleetCreates(r *rollout.Record) bool {
	for _, m := range r.Members {
		if m.Verdict == schedule.Waiting && (m.Delete || slices.ContainsFunc(m.Changes, func(c string) bool { return !strings.HasPrefix(c, "create ") })) {
			return false
		}
	}
	return true
}

// FleetQuestion returns the lines of the question before a run, below the table of its
// plan: which VMs are replaced, and which members are deleted.
func FleetQuestion(r *rollout.Record) []string {
	var replaced, deleted []string
	for _, m := range r.Members {
		switch {
		case m.Verdict != schedule.Waiting:
		case m.Delete || r.Deletes():
			deleted = append(deleted, m.Name)
		case slices.Contains(m.Changes, "replace vm"):
			replaced = append(replaced, m.Name)
		}
	}
	var what []string
	if len(replaced) > 0 {
		what = append(what, fmt.Sprintf("the VMs of %s are replaced: %s", count(len(replaced), "member"), strings.Join(replaced, ", ")))
	}
	if len(deleted) > 0 {
		what = append(what, fmt.Sprintf("the VMs and the disks WITH THEIR DATA of %s are deleted: %s", count(len(deleted), "member"), strings.Join(deleted, ", ")))
	}
	return what
}

// count returns a number of things in words.
func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// FleetStatus prints the results of the members; running reports whether the run is in
// progress.
func FleetStatus(out *Writer, r *rollout.Record, running bool) {
	state := "running"
	switch {
	case r.Ended == nil && !running:
		state = "killed: the same command continues it"
	case r.Ended != nil:
		state = fmt.Sprintf("%s at %s", r.Result, Moment(*r.Ended))
	case r.Paused:
		state = "paused"
	}
	fmt.Fprintf(out, "Run %s of %s: %s of %s, started %s by %s@%s; %s\n", r.ID, r.Name, strings.TrimSpace(string(r.Action)+" "+r.Errand), count(r.Numbers.Members, "member"), Moment(r.Started), r.By.User, r.By.Host, state)
	if r.Reason != "" {
		fmt.Fprintf(out, "Reason: %s\n", r.Reason)
	}
	fmt.Fprintln(out)
	table := NewTable(out, "MEMBER", "VERDICT", "TOOK", "DOWN", "STEP OR REASON").
		Yield("STEP OR REASON", 16).Yield("DOWN", 0).Yield("TOOK", 0).Yield("STEP OR REASON", 12)
	for _, m := range byName(r.Members) {
		took, down := "-", "-"
		if m.Started != nil && m.Ended != nil && m.Ended.After(*m.Started) {
			took = duration(m.Ended.Sub(*m.Started).Seconds())
		}
		if m.Down > 0 {
			down = duration(m.Down)
		}
		what := m.Reason
		if m.Verdict == schedule.Running {
			what = m.Step
		}
		table.Row(m.Name, m.Verdict.String(), took, down, orDash(what))
	}
	table.Print()
	fmt.Fprintf(out, "\n%s\n", r.Summary())
	fleetRemoved(out, r.Fleet, r.Removed)
	for _, m := range r.Members {
		if m.Hint != "" && m.Verdict != schedule.Done {
			fmt.Fprintf(out, "\n%s: what to do:\n", m.Name)
			fmt.Fprintf(out, "  %s\n", out.clean(m.Hint, maxMessage))
		}
	}
}

// FleetNow prints the present status of the members.
func FleetNow(out *Writer, n *rollout.Now) {
	table := NewTable(out, "MEMBER", "STATE", "VM", "PROBLEM").Yield("PROBLEM", 16).Yield("VM", 0).Yield("PROBLEM", 12)
	counts := map[rollout.Condition]int{}
	members := slices.SortedStableFunc(slices.Values(n.Members), func(a, b rollout.NowMember) int { return keyorder.Names(a.Name, b.Name) })
	for _, m := range members {
		counts[m.State]++
		problem := m.Problem
		if m.Blocked != "" {
			problem = strings.TrimPrefix(problem+"; blocked: "+m.Blocked, "; ")
		}
		table.Row(m.Name, string(m.State), orDash(m.VM), orDash(problem))
	}
	table.Print()
	var words []string
	for _, s := range []rollout.Condition{rollout.Runs, rollout.Stopped, rollout.NotWell, rollout.Unreachable, rollout.NoVM, rollout.Unknown} {
		if counts[s] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[s], s))
		}
	}
	fmt.Fprintf(out, "\n%s: %s\n", count(len(n.Members), "member"), strings.Join(words, ", "))
	fleetRemoved(out, n.File, n.Removed)
}

// FleetJSON returns a renderer of a run's events as JSON, one object per line.
func FleetJSON(out *Lines) func(rollout.Event) {
	return func(e rollout.Event) {
		e.Time = e.Time.UTC()
		out.Print("", e)
	}
}

// FleetPlain returns a renderer that writes a line for each start and each end of
// a member.
func FleetPlain(out *Writer) func(rollout.Event) {
	var mu sync.Mutex
	return func(e rollout.Event) {
		mu.Lock()
		defer mu.Unlock()
		fleetLine(out, e)
		_ = out.Flush() // finish reports the error
	}
}

// FleetErrand returns a renderer of an errand's run: lines of its output go to two streams
// of their own, each after the name of its member.
func FleetErrand(stdout, stderr *Writer, progress func(rollout.Event)) func(rollout.Event) {
	var mu sync.Mutex
	return func(e rollout.Event) {
		if e.Kind != rollout.Output {
			progress(e)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		to := stdout
		if e.Stream == "stderr" {
			to = stderr
		}
		name := e.Member
		if e.Instance != "" {
			name += " " + e.Instance
		}
		for line := range strings.Lines(e.Message) {
			fmt.Fprintf(to, "%s | %s\n", name, strings.TrimSuffix(line, "\n"))
		}
		_ = to.Flush() // finish reports the error
	}
}

// fleetLine writes the line of an event that stays on the screen.
func fleetLine(out *Writer, e rollout.Event) {
	switch {
	case e.Kind == rollout.Begun:
		fmt.Fprintf(out, "Fleet '%s', run %s, logs in '%s'\n%s\n", e.Record.Name, e.Run, e.Record.Logs, FleetNumbers(e.Record))
		if !e.Record.Deletes() && !e.Record.Prunes() {
			fleetRemoved(out, e.Record.Fleet, e.Record.Removed)
		}
		fmt.Fprintln(out)
	case e.Kind == rollout.Phase:
		fmt.Fprintf(out, "-- %s\n", out.clean(e.Message, maxMessage))
	case e.Kind == rollout.Notice:
		fmt.Fprintln(out, out.sentences(out.clean(e.Message, maxMessage), 0))
	case e.Kind == rollout.Planning && e.Verdict == schedule.Failed:
		unplanned(out, e.Member, e.Reason, e.Hint)
	case e.Kind == rollout.OfMember && e.Status == "started":
		what := "started"
		if e.Canary {
			what = "started as a canary"
		}
		fmt.Fprintf(out, "%s: %s\n", e.Member, what)
	case e.Kind == rollout.OfMember && e.Status != "step":
		line := fmt.Sprintf("%s: %s after %s", e.Member, e.Verdict, duration(e.Seconds))
		if e.Down > 0 {
			line += fmt.Sprintf(", its service was down for %s", duration(e.Down))
		}
		if e.Reason != "" {
			line += ": " + out.clean(e.Reason, maxMessage)
		}
		fmt.Fprintln(out, out.sentences(line, 0))
		if e.Verdict == schedule.Failed {
			fmt.Fprintf(out, "  log: %s\n", e.Log)
			if e.Hint != "" {
				fmt.Fprintln(out, out.sentences("  what to do: "+out.clean(e.Hint, maxMessage), 0))
			}
		}
	case e.Kind == rollout.Over:
		fmt.Fprintf(out, "\nMembers: %s\n", e.Record.Summary())
	}
}

// FleetTerminal returns a function like FleetPlain. Below the lines that stay, it draws
// one line for each running member, with its step and since when, and one with the
// numbers. width() is the width of the terminal, height() its height. The caller must
// call hide before a question, and stop at the end; hide removes the redrawn lines until
// the next event.
func FleetTerminal(ctx context.Context, out *Writer, width, height func() int) (show func(rollout.Event), hide, stop func()) {
	t := &fleetScreen{out: out, width: width, height: height, running: map[string]*member{}}
	ticker := time.NewTicker(time.Second)
	done := make(chan struct{})
	guard.Go(ctx, func() {
		for {
			select {
			case <-ticker.C:
				t.mu.Lock()
				t.redraw(nil)
				t.mu.Unlock()
			case <-done:
				return
			}
		}
	})
	hide = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.clear()
		t.running, t.counts, t.planned = map[string]*member{}, nil, 0
		_ = out.Flush() // finish reports the error
	}
	return t.show, hide, func() {
		ticker.Stop()
		close(done)
		hide()
	}
}

type fleetScreen struct {
	mu      sync.Mutex
	out     *Writer
	width   func() int
	height  func() int
	running map[string]*member
	planned int
	record  *rollout.Record
	counts  map[string]int
	lines   int // number of redrawn lines
}

type member struct {
	step  string
	since time.Time
}

func (t *fleetScreen) show(e rollout.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record = e.Record
	switch {
	case e.Kind == rollout.Planning:
		t.planned++
	case e.Kind == rollout.OfMember && e.Status == "started":
		t.running[e.Member] = &member{"starting", e.Time}
	case e.Kind == rollout.OfMember && e.Status == "step":
		t.running[e.Member] = &member{e.Step, e.Time}
	case e.Kind == rollout.OfMember, e.Kind == rollout.Notice && e.Member != "":
		delete(t.running, e.Member)
	}
	if e.Counts != nil {
		t.counts = e.Counts
	}
	if e.Kind == rollout.Over {
		t.running, t.counts, t.planned = nil, nil, 0
	}
	t.redraw(&e)
}

// redraw writes the lines of an event above the redrawn lines.
func (t *fleetScreen) redraw(e *rollout.Event) {
	t.clear()
	if e != nil {
		fleetLine(t.out, *e)
	}
	now := time.Now()
	var lines []string
	for _, name := range slices.SortedFunc(maps.Keys(t.running), keyorder.Names) {
		m := t.running[name]
		lines = append(lines, fmt.Sprintf("  %s  %s  %s", name, m.step, duration(now.Sub(m.since).Seconds())))
	}
	if room := max(t.height()-4, 1); len(lines) > room {
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("  … and %d more", more))
	}
	switch {
	case len(t.counts) > 0:
		lines = append(lines, "  "+t.numbers())
	case t.planned > 0 && t.record != nil:
		lines = append(lines, fmt.Sprintf("  planned %d of %d members", t.planned, len(t.record.Members)))
	}
	for _, line := range lines {
		fmt.Fprintln(t.out, runewidth.Truncate(t.out.clean(line, maxCell), max(t.width()-1, 10), "…"))
	}
	t.lines = len(lines)
	_ = t.out.Flush() // finish reports the error
}

func (t *fleetScreen) numbers() string {
	var words []string
	for _, v := range schedule.Verdicts() {
		if n := t.counts[v.String()]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(words, ", ")
}

func (t *fleetScreen) clear() {
	if t.lines > 0 {
		t.out.control(fmt.Sprintf("\x1b[%dA\x1b[J", t.lines))
		t.lines = 0
	}
}
