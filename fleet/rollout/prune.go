package rollout

import (
	"slices"

	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
)

// pruned is the phase in which members are deleted that are no longer in the fleet file.
const pruned schedule.Phase = "members that are no longer in the fleet file"

// Prunes reports whether the run deletes members that are no longer in the fleet file.
func (r *Record) Prunes() bool { return r.updates() < len(r.Members) }

// updates returns the number of members that are not deleted; those that are follow them.
func (r *Record) updates() int {
	if i := slices.IndexFunc(r.Members, func(m *Member) bool { return m.Delete }); i >= 0 {
		return i
	}
	return len(r.Members)
}

// toPrune returns the members to delete after the others were updated. Without a record of
// earlier runs there are none. Blocked members are not planned, which would find out that
// their states cannot be read.
func toPrune(opts Options, old *Record) ([]fleet.Member, error) {
	if !opts.Choice.Prune {
		return nil, nil
	}
	gone := Members(old.RemovedFrom(opts.Fleet, opts.Home), opts.Fleet.Members)
	blocked := slices.DeleteFunc(slices.Clone(opts.Fleet.Members), func(m fleet.Member) bool { return m.Blocked == nil || opts.IncludeBlocked })
	return gone, refuseUnreadable(opts, blocked, gone)
}

// next returns the next step of the run: members are deleted after all others have ended
// well.
func (c *coordinator) next(step func(schedule.Rules, []schedule.Member) schedule.Step) schedule.Step {
	n := c.record.updates()
	s := step(c.rules, c.list[:n])
	if !s.Ended || c.asked.Stop || n == len(c.list) || slices.ContainsFunc(c.list[:n], endedBadly) {
		return s
	}
	s = step(schedule.Rules{Width: c.rules.Width, BusyRounds: c.rules.BusyRounds, BusyWait: c.rules.BusyWait}, c.list[n:])
	if s.Phase = pruned; s.Ended {
		s.Phase = schedule.Ending
	}
	for i := range s.Start {
		s.Start[i].Member += n
		s.Start[i].Wave = 0
	}
	return s
}

func endedBadly(m schedule.Member) bool {
	return m.Verdict != schedule.Done && m.Verdict != schedule.Unchanged && m.Verdict != schedule.Blocked
}

// action returns the action of the run for a member.
func (c *coordinator) action(m *Member) fleet.Strategy {
	if m.Delete {
		return fleet.DeleteStrategy
	}
	return c.record.Action
}
