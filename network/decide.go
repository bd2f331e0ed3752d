package network

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// Decide returns what happens to the addresses of the instances. Each instance keeps its
// address if the rules allow that. Static addresses are reserved as requested; for all
// others, the lowest free address is chosen. No instance gets an address that another one
// gives up in the same decision. A refusal is a *Refused; other errors are those of the
// ledger, and of ended, which says whether the caller still waits.
func Decide(ended func() error, networks []Network, instances []Instance, taken Taken) ([]Outcome, error) {
	d := &decider{networks: networks, taken: taken, instances: make([]*instance, len(instances)), free: map[freeIn]*freeList{}}
	for _, in := range instances {
		d.held = append(d.held, in.Held...)
	}
	for i := range instances {
		if err := ended(); err != nil {
			return nil, err
		}
		in := &instance{Instance: &instances[i]}
		d.instances[i] = in
		if err := d.prepare(in); err != nil {
			return nil, err
		}
		chosen := d.chosen
		if err := d.match(in); err != nil {
			return nil, err
		}
		if d.needsSwap(in) {
			// The VM keeps its addresses until the new VM serves.
			in.swapped, d.chosen = true, chosen
			in.undo()
			if err := d.match(in); err != nil {
				return nil, err
			}
		}
	}
	// Static addresses are decided first, so that no automatic address of another network
	// with the same range takes one of them.
	for _, static := range []bool{true, false} {
		for _, in := range d.instances {
			if err := ended(); err != nil {
				return nil, err
			}
			for i := range in.wants {
				w := &in.wants[i]
				if w.done || w.static.IsValid() != static {
					continue
				}
				if err := d.reserve(in, w); err != nil {
					return nil, err
				}
			}
		}
	}
	outcomes := make([]Outcome, len(instances))
	for i, in := range d.instances {
		outcomes[i] = d.outcome(in)
	}
	return outcomes, nil
}

// decider makes one decision.
type decider struct {
	networks  []Network
	taken     Taken
	instances []*instance
	held      []Reservation // all reservations of the instances
	chosen    []Reservation // new reservations of this decision
	free      map[freeIn]*freeList
}

// instance is the state of an instance during the decision.
type instance struct {
	*Instance
	wants []want
	held  []holding
	// swapped is true if the addresses of the VM are not used again, because the VM
	// keeps them until the new VM serves.
	swapped bool
	// unbound is true if the ledger does not contain the addresses of the VM: a run was
	// killed after it had created the VM.
	unbound bool
	noSwap  string
}

// want is the state of a wish during the decision.
type want struct {
	*Wish
	network *Network
	static  netip.Prefix // the static address that is requested; the zero Prefix: any address
	done    bool
	change  Change
}

// holding is a reservation that the instance has.
type holding struct {
	Reservation
	used   bool // it is used for one of the wishes
	orphan bool
	ofVM   bool // the VM of the instance uses it
}

// prepare finds the networks of the wishes, and sorts the addresses of the instance.
func (d *decider) prepare(in *instance) error {
	for i := range in.Wishes {
		w := want{Wish: &in.Wishes[i]}
		n, ok := Find(d.networks, w.Network)
		switch {
		case !ok:
			known := make([]string, len(d.networks))
			for i, n := range d.networks {
				known[i] = n.Name
			}
			return &Refused{Kind: UnknownNetwork, Owner: in.Owner, Network: w.Network, Known: known}
		case slices.ContainsFunc(in.wants, func(other want) bool { return other.Network == w.Network }):
			return &Refused{Kind: AlreadyExists, Owner: in.Owner, Network: w.Network}
		}
		w.network = n
		if err := d.asked(in, &w); err != nil {
			return err
		}
		in.wants = append(in.wants, w)
	}
	for _, r := range in.Held {
		in.held = append(in.held, holding{Reservation: r, orphan: slices.Contains(in.Orphans, r.VM) && r.VM != in.VM, ofVM: r.VM != "" && r.VM == in.VM})
	}
	// If no address is bound to the VM, it uses the addresses that are bound to no VM.
	if in.VM != "" && !slices.ContainsFunc(in.held, func(h holding) bool { return h.ofVM }) {
		in.unbound = true
		for i := range in.held {
			in.held[i].ofVM = in.held[i].VM == ""
		}
	}
	// Addresses of a failed run are preferred to those of the old VM; those of the last
	// run come first, because its VM may exist.
	slices.SortStableFunc(in.held, func(a, b holding) int {
		if (a.VM == "") != (b.VM == "") {
			if a.VM == "" {
				return -1
			}
			return 1
		}
		return cmp.Or(b.Since.Compare(a.Since), a.Block.Addr().Compare(b.Block.Addr()))
	})
	return nil
}

// asked checks the static address of a wish.
func (d *decider) asked(in *instance, w *want) error {
	n := w.network
	refused := &Refused{Owner: in.Owner, Network: n.Name, Scope: n.Scope, Zone: in.Zone}
	if len(w.Static) == 0 {
		if n.Type == VIP && len(n.Subnets) == 0 {
			refused.Kind, refused.Why = VIPMisconfigured, "the vip network has no list of addresses, so the instance group must give static_ips"
			return refused
		}
		return nil
	}
	addr := w.Static[0]
	refused.Block = netip.PrefixFrom(addr, addr.BitLen())
	switch n.Type {
	case Dynamic:
		refused.Kind, refused.Why = WrongType, "the network is dynamic, so the IaaS chooses the addresses; remove static_ips"
		return refused
	case VIP:
		if len(n.Subnets) > 0 {
			refused.Kind, refused.Why = VIPMisconfigured, "the vip network has a list of addresses; remove static_ips, or that list"
			return refused
		}
		w.static = refused.Block
		return nil
	}
	s, found := n.holding(addr)
	if !found {
		refused.Kind, refused.Ranges = IPOutsideSubnet, n.ranges()
		return refused
	}
	w.static = blockAt(addr, s.bits())
	refused.Block = w.static
	restricted := s.restricted()
	switch {
	case restricted.OverlapsPrefix(w.static):
		refused.Kind, refused.Why = IPReserved, s.whyRestricted(firstOf(restricted, netipx.RangeOfPrefix(w.static)))
		return refused
	case !s.lists(w.static):
		refused.Kind = WrongType
		return refused
	case !s.ofZone(in.Zone):
		refused.Kind, refused.Why = ReservationError, fmt.Sprintf("its subnet is in %s, and the instance in %s; choose an address of that zone", strings.Join(s.Zones, ", "), in.Zone)
		return refused
	}
	return nil
}

// outcome returns the decision for the instance.
func (d *decider) outcome(in *instance) Outcome {
	o := Outcome{Owner: in.Owner, NoSwap: in.noSwap, Moves: d.moves(in)}
	for _, w := range in.wants {
		o.Changes = append(o.Changes, w.change)
	}
	var rest []Change
	for _, h := range in.held {
		if !h.used {
			rest = append(rest, d.leave(in, h))
		}
	}
	slices.SortStableFunc(rest, func(a, b Change) int {
		return a.Reservation.Block.Addr().Compare(b.Reservation.Block.Addr())
	})
	o.Changes = append(o.Changes, rest...)
	return o
}

// leave returns the change of a reservation that fits no wish: it is released or kept.
func (d *decider) leave(in *instance, h holding) Change {
	c := Change{Action: Release, Reservation: h.Reservation}
	from := h.Address()
	switch {
	case h.orphan:
		c.Action, c.Reason = Orphan, Reason{OfOrphan, from, h.VM}
		return c
	case h.ofVM && in.VM != "":
		c.Action = Hold
	}
	w, wanted := wishOf(in, h.Network)
	_, known := Find(d.networks, h.Network)
	switch {
	case wanted:
		c.Reason = d.why(in, w, h.Reservation)
		if c.Reason.Kind == Same {
			c.Reason = Reason{Replaced, from, w.change.Reservation.Address()}
			if in.swapped && h.ofVM {
				c.Reason.Kind = Swapped
			}
		}
	case known:
		c.Reason = Reason{NotWanted, from, h.Network}
	default:
		c.Reason = Reason{NetworkGone, from, h.Network}
	}
	return c
}
