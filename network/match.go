package network

import (
	"net/netip"
	"slices"
	"strconv"

	"go4.org/netipx"
)

// match finds, for each wish of the instance, one of its reservations that fits. It
// begins with static wishes, because only one address fits a static wish. For each wish,
// it first tries reservations on the network of the same name, and then those on any
// network, because a renamed network keeps its addresses.
func (d *decider) match(in *instance) error {
	for _, static := range []bool{true, false} {
		for _, sameName := range []bool{true, false} {
			for i := range in.wants {
				w := &in.wants[i]
				if w.done || w.network.Type == Dynamic || w.static.IsValid() != static {
					continue
				}
				if err := d.matchOne(in, w, sameName); err != nil {
					return err
				}
			}
		}
	}
	for i := range in.wants {
		if w := &in.wants[i]; w.network.Type == Dynamic {
			w.ask(in)
		}
	}
	return nil
}

// matchOne finds a reservation for the wish: on a network of the same name if sameName is
// set, else on any network.
func (d *decider) matchOne(in *instance, w *want, sameName bool) error {
	for j := range in.held {
		h := &in.held[j]
		if h.used || h.orphan || in.swapped && h.ofVM || sameName != (h.Network == w.Network) {
			continue
		}
		fits, err := d.fits(in, w, h.Reservation)
		if err != nil {
			return err
		}
		if fits {
			h.used = true
			w.bind(h.Reservation)
			return nil
		}
	}
	return nil
}

// fits reports whether the reservation can be used for the wish. If the scope of the
// network is another one, the address must be free in that scope.
func (d *decider) fits(in *instance, w *want, r Reservation) (bool, error) {
	obstacle := d.obstacle(in, w, r)
	if obstacle.Kind != Rescoped {
		return obstacle.Kind == Same, nil
	}
	r.Scope = w.network.Scope
	if d.obstacle(in, w, r).Kind != Same {
		return false, nil
	}
	holder, err := d.holder(r)
	if err != nil || holder != nil {
		return false, err
	}
	d.chosen = append(d.chosen, r)
	return true, nil
}

// bind keeps a reservation for the wish.
func (w *want) bind(r Reservation) {
	after, reason := r, Reason{Kind: Same}
	after.Network, after.Kind, after.Scope = w.Network, w.kind(), w.network.Scope
	switch {
	case r.Scope != after.Scope:
		reason = Reason{Rescoped, r.Scope, after.Scope}
	case r.Network != after.Network:
		reason = Reason{Renamed, r.Network, after.Network}
	case r.Kind != after.Kind:
		reason = Reason{Retyped, string(r.Kind), string(after.Kind)}
	}
	w.change = Change{Action: Bind, Reservation: after, Reason: reason}
	if after != r {
		w.change.Before = &r
	}
	w.done = true
}

// ask lets the IaaS choose the address.
func (w *want) ask(in *instance) {
	hint := Reservation{Scope: w.network.Scope, Owner: in.Owner, Network: w.Network, Kind: Automatic, VM: in.VM}
	if addr, ok := in.LastKnown[w.Network]; ok {
		hint.Block = netip.PrefixFrom(addr, addr.BitLen())
	}
	w.change = Change{Action: Ask, Reservation: hint, Reason: Reason{Kind: ByIaaS}}
	w.done = true
}

// kind returns the kind of the wish's reservation.
func (w *want) kind() Kind {
	switch {
	case w.network.Type == VIP:
		return Floating
	case w.static.IsValid():
		return Static
	}
	return Automatic
}

// obstacle returns why the reservation cannot be used for the wish; Same if it can be
// used.
func (d *decider) obstacle(in *instance, w *want, r Reservation) Reason {
	n, from := w.network, showBlock(r.Block)
	if n.Type == Dynamic || (n.Type == VIP) != (r.Kind == Floating) {
		return Reason{OtherType, from, string(n.Type)}
	}
	if n.Scope != r.Scope {
		return Reason{Rescoped, r.Scope, n.Scope}
	}
	if w.static.IsValid() && w.static != r.Block {
		return Reason{StaticAsked, from, showBlock(w.static)}
	}
	if n.Type == VIP {
		for _, s := range n.Subnets {
			if s.ofZone(in.Zone) && s.lists(r.Block) {
				return Reason{Kind: Same}
			}
		}
		if len(n.Subnets) == 0 && w.static == r.Block {
			return Reason{Kind: Same}
		}
		return Reason{NotListed, from, n.Name}
	}
	s, found := n.holding(r.Block.Addr())
	switch {
	case !found:
		return Reason{Outside, from, n.ranges()}
	case s.bits() != r.Block.Bits():
		return Reason{OtherBlock, from, strconv.Itoa(s.bits())}
	case !s.canHold(r.Block):
		return Reason{Restricted, from, s.whyRestricted(firstOf(s.restricted(), netipx.RangeOfPrefix(r.Block)))}
	case !s.ofZone(in.Zone):
		return Reason{OtherZone, from, in.Zone}
	case !w.static.IsValid() && s.lists(r.Block):
		return Reason{Listed, from, n.Name}
	}
	return Reason{Kind: Same}
}

// why returns why the reservation is not used for the wish. It returns the reason
// “another scope” only if there is no other reason.
func (d *decider) why(in *instance, w *want, r Reservation) Reason {
	reason := d.obstacle(in, w, r)
	if reason.Kind != Rescoped {
		return reason
	}
	r.Scope = w.network.Scope
	if other := d.obstacle(in, w, r); other.Kind != Same {
		return other
	}
	return reason
}

// needsSwap reports whether a new VM with its own addresses is created before the old VM
// is deleted.
func (d *decider) needsSwap(in *instance) bool {
	if !in.Swap || in.VM == "" || !in.Replace && !d.moves(in) {
		return false
	}
	for i := range in.wants {
		if w := &in.wants[i]; w.static.IsValid() || w.network.Type == VIP {
			in.noSwap = w.Network
			return false
		}
	}
	return true
}

// undo removes the assignment of reservations to wishes.
func (in *instance) undo() {
	for i := range in.held {
		in.held[i].used = false
	}
	for i := range in.wants {
		in.wants[i].done = false
	}
}

// moves reports whether the VM has other addresses than the wishes.
func (d *decider) moves(in *instance) bool {
	if in.VM == "" {
		return false
	}
	if slices.ContainsFunc(in.wants, func(w want) bool { return !w.done || w.change.Action == Reserve }) {
		return true
	}
	return slices.ContainsFunc(in.held, func(h holding) bool {
		return !h.orphan && (h.used && !h.ofVM || !h.used && h.ofVM && !in.unbound)
	})
}
