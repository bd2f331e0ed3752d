package ui

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/keyorder"
)

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
	fleetRemoved(out, r.Fleet, r.Removed, r.Numbers.Members)
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
	fleetRemoved(out, n.File, n.Removed, len(n.Members))
}
