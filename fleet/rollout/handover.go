package rollout

import (
	"fmt"

	"bootstrap/deployer/plan"
	"bootstrap/fleet/schedule"
)

// handOver is an address that one member gives up and another one gets in the same run.
// The second member can be planned only after the first has ended.
type handOver struct {
	to, from int // indexes of members
	address  address
	refused  Member // the member that gets the address; its plan was refused
}

// address is an address or a block, and the member that holds it.
type address struct {
	holder int
	text   string
}

// givenUp returns the addresses that a plan gives up.
func givenUp(v *plan.View) map[string]bool {
	if v == nil {
		return nil
	}
	list := map[string]bool{}
	for _, c := range v.Changes {
		if c.What == plan.Address && (c.Action == plan.Hold || c.Action == plan.Release) {
			list[c.Name] = true
		}
	}
	return list
}

// expectHandOvers sets members to waiting if their plan was refused because of an
// address that another member gives up in this run.
func (c *coordinator) expectHandOvers() {
	var refused []int
	for i, m := range c.record.Members {
		if m.Verdict == schedule.Failed && m.heldBy != nil {
			refused = append(refused, i)
		}
	}
	if len(refused) == 0 {
		return
	}
	of := c.byInstallation()
	for _, i := range refused {
		m := c.record.Members[i]
		if from, found := of[m.heldBy.Deployment]; found && from != i && c.givesUp(from, i) {
			c.handOvers = append(c.handOvers, handOver{to: i, from: from, address: address{from, m.heldBy.Address}, refused: *m})
		}
	}
	for _, h := range c.handOvers {
		m := c.record.Members[h.to]
		m.Verdict, m.ExitCode, m.Reason, m.Hint = schedule.Waiting, 0, "", ""
		m.Changes = []string{fmt.Sprintf("take over address %s from %s", h.address.text, c.record.Members[h.from].Name)}
	}
}

// byInstallation returns the deployed members by their ID in the ledger.
func (c *coordinator) byInstallation() map[string]int {
	of := map[string]int{}
	for i, m := range c.record.Members {
		one := c.byName[m.Name]
		if st, found, err := readState(one, c.opts.Home); err == nil && found { // its plan reports an error
			of[st.InstallationID] = i
		}
	}
	return of
}

// givesUp reports whether member from gives up in this run the address that the plan of
// member to was refused. If the plan of from was refused, too, from gives up its address
// if it asks for another one of that network. If a killed run has started from, it may
// have changed already.
func (c *coordinator) givesUp(from, to int) bool {
	giver, wanted := c.record.Members[from], c.record.Members[to].heldBy
	switch {
	case giver.gives[wanted.Address+" of "+wanted.Network]:
		return giver.Verdict == schedule.Waiting
	case giver.Verdict == schedule.Failed && giver.heldBy != nil:
		return giver.heldBy.Network == wanted.Network && giver.heldBy.Address != wanted.Address
	}
	return giver.Verdict == schedule.Waiting && giver.killed && giver.gives == nil
}

// refuseHandOvers fails the members that may start before the member whose address they
// take over has ended. It reports whether there are any.
func (c *coordinator) refuseHandOvers() bool {
	ended := c.endedBefore()
	refused := false
	for again := true; again; { // a member that is refused does not give up its address
		again = false
		taken := map[address]string{}
		for _, h := range c.handOvers {
			to, from := c.record.Members[h.to], c.record.Members[h.from]
			if to.Verdict != schedule.Waiting {
				continue
			}
			other := taken[h.address]
			if from.Verdict == schedule.Waiting && ended(h.from, h.to) && other == "" {
				taken[h.address] = to.Name
				continue
			}
			again, refused = true, true
			*to = h.refused
			switch {
			case c.swaps(h):
				to.Hint = fmt.Sprintf("%s needs an address of %s, and the other way round: deploy one of the members with a free address first", from.Name, to.Name)
			case other != "":
				to.Hint = fmt.Sprintf("%s gives this address up in this run, but %s gets it: choose another address for %s", from.Name, other, to.Name)
			case !ended(h.from, h.to):
				to.Hint = fmt.Sprintf("%s gives this address up in this run, but %s may start before %s has ended: put %s before %s in the fleet file, with max_in_flight: 1, or first run the same command with --only %s",
					from.Name, to.Name, from.Name, from.Name, to.Name, from.Name)
			}
		}
	}
	return refused
}

// swaps reports whether the member that gives up the address waits for an address of
// the member that gets it, directly or through others.
func (c *coordinator) swaps(h handOver) bool {
	from := map[int]int{}
	for _, other := range c.handOvers {
		from[other.to] = other.from
	}
	at, found := h.from, true
	for range c.handOvers {
		if at == h.to {
			return true
		}
		if at, found = from[at]; !found {
			return false
		}
	}
	return at == h.to
}

// endedBefore returns a function that reports whether a member has certainly ended when
// another one starts.
func (c *coordinator) endedBefore() func(first, then int) bool {
	if len(c.handOvers) == 0 {
		return func(int, int) bool { return false }
	}
	starts, place := map[int]schedule.Start{}, map[int]int{}
	for i, s := range schedule.Order(c.rules, c.list) {
		starts[s.Member], place[s.Member] = s, i
	}
	return func(first, then int) bool {
		a, b := starts[first], starts[then]
		switch {
		case a.Canary != b.Canary:
			return a.Canary
		case a.Wave != b.Wave:
			return a.Wave < b.Wave
		}
		return c.rules.Width == 1 && place[first] < place[then]
	}
}
