package ui

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
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
		fleetRemoved(out, r.Fleet, r.Removed, r.Numbers.Members)
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
// deployed, and the command that deletes them. others is the number of members in the file.
func fleetRemoved(out *Writer, fleetFile string, removed []rollout.Removed, others int) {
	if len(removed) == 0 {
		return
	}
	fmt.Fprintln(out, "No longer in the fleet file, but still deployed:")
	removed = slices.SortedStableFunc(slices.Values(removed), func(a, b rollout.Removed) int { return keyorder.Names(a.Name, b.Name) })
	for _, one := range removed {
		fmt.Fprintf(out, "  %s\n", out.clean(one.String(), maxMessage))
	}
	fmt.Fprintf(out, "  to delete: %s\n", rollout.DeleteRemoved(fleetFile, removed, others))
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
		return joinChanges(m.Changes)
	case m.Verdict == schedule.Failed:
		return "cannot be planned"
	case m.Reason != "":
		return fmt.Sprintf("%s: %s", m.Verdict, m.Reason)
	}
	return m.Verdict.String()
}

// joinChanges joins changes with the same action: "create vm, disk" for "create vm" and
// "create disk".
func joinChanges(changes []string) string {
	text, last := "", ""
	for i, c := range changes {
		at := max(strings.LastIndexByte(c, ' '), 0)
		if strings.HasSuffix(c, " "+plan.NamedDisk) {
			at = len(c) - len(" "+plan.NamedDisk)
		}
		action, what := c[:at], c[at:]
		switch {
		case i > 0 && c == changes[i-1]: // another named disk
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
