package network

import (
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// reserve reserves an address for the wish.
func (d *decider) reserve(in *instance, w *want) error {
	r := Reservation{Scope: w.network.Scope, Owner: in.Owner, Network: w.Network, Kind: w.kind(), Block: w.static}
	if w.static.IsValid() {
		holder, err := d.holder(r)
		if err != nil {
			return err
		}
		if holder != nil {
			return d.inUse(in, r, *holder)
		}
	} else if block, ok, err := d.wanted(in, w); err != nil {
		return err
	} else if ok {
		r.Block = block
	} else {
		block, ok, err := d.lowest(w.network, in.Zone)
		if err != nil {
			return err
		}
		if !ok {
			return d.noCapacity(in, w)
		}
		r.Block = block
	}
	d.chosen = append(d.chosen, r)
	w.change, w.done = Change{Action: Reserve, Reservation: r, Reason: d.cause(in, w, r)}, true
	return nil
}

// wanted returns the address that was chosen for the instance before, if it is free and the
// network can give it.
func (d *decider) wanted(in *instance, w *want) (netip.Prefix, bool, error) {
	addr, ok := in.Chosen[w.Network]
	s, found := w.network.holding(addr)
	if !ok || !found {
		return netip.Prefix{}, false, nil
	}
	r := Reservation{Scope: w.network.Scope, Owner: in.Owner, Network: w.Network, Kind: w.kind(), Block: blockAt(addr, s.bits())}
	if d.obstacle(in, w, r).Kind != Same {
		return netip.Prefix{}, false, nil
	}
	holder, err := d.holder(r)
	return r.Block, err == nil && holder == nil, err
}

// cause returns why the instance cannot keep its address.
func (d *decider) cause(in *instance, w *want, r Reservation) Reason {
	for _, sameName := range []bool{true, false} {
		for _, h := range in.held {
			if h.used || h.orphan || sameName != (h.Network == w.Network) {
				continue
			}
			if _, known := Find(d.networks, h.Network); !sameName && known {
				continue // the network is not an earlier name of this network
			}
			reason := d.why(in, w, h.Reservation)
			if reason.Kind == Same {
				return Reason{Swapped, h.Address(), r.Address()}
			}
			return reason
		}
	}
	return Reason{Kind: New}
}

// wishOf returns the wish for the network.
func wishOf(in *instance, network string) (*want, bool) {
	for i := range in.wants {
		if in.wants[i].Network == network {
			return &in.wants[i], true
		}
	}
	return nil, false
}

// holder returns a reservation that shares an address with the new one, or nil.
func (d *decider) holder(r Reservation) (*Reservation, error) {
	for _, other := range d.chosen {
		if other.Scope == r.Scope && other.Block.Overlaps(r.Block) {
			return &other, nil
		}
	}
	holder, found, err := d.overlapping(r.Scope, r.Block.Addr(), netipx.PrefixLastIP(r.Block))
	if err != nil || !found {
		return nil, err
	}
	return &holder, nil
}

// overlapping returns the lowest reservation with one of the addresses. It also looks
// at addresses of the instances that the ledger does not contain.
func (d *decider) overlapping(scope string, first, last netip.Addr) (Reservation, bool, error) {
	lowest, found, err := d.taken.Overlapping(scope, first, last)
	for _, r := range d.held {
		if r.Scope == scope && netipx.RangeOfPrefix(r.Block).Overlaps(netipx.IPRangeFrom(first, last)) && (!found || r.Block.Addr().Less(lowest.Block.Addr())) {
			lowest, found = r, true
		}
	}
	return lowest, found, err
}

// inUse returns the error for a static address that somebody holds.
func (d *decider) inUse(in *instance, r, holder Reservation) error {
	refused := &Refused{Kind: AlreadyInUse, Owner: in.Owner, Network: r.Network, Scope: r.Scope, Zone: in.Zone, Block: r.Block, Holders: []Reservation{holder}}
	refused.Orphan, refused.Leaves = d.leaves(holder)
	return refused
}

// leaves reports whether an orphaned VM has the reservation; if not, whether an instance
// gives the reservation up in this decision.
func (d *decider) leaves(r Reservation) (orphan, leaves bool) {
	for _, in := range d.instances {
		for _, h := range in.held {
			if in.Owner.Same(r.Owner) && h.Block == r.Block && h.Scope == r.Scope {
				return h.orphan, !h.orphan && !h.used
			}
		}
	}
	return false, false
}

// lowest returns the lowest free block in the zone's subnets, in their order.
func (d *decider) lowest(n *Network, zone string) (netip.Prefix, bool, error) {
	for i := range n.Subnets {
		s := &n.Subnets[i]
		if !s.ofZone(zone) {
			continue
		}
		if n.Type == VIP {
			for part, list := range ascending(s.Static) {
				block, ok, err := d.lowestOf(freeIn{n.Scope, s, part}, list, list[0].From().BitLen())
				if ok || err != nil {
					return block, ok, err
				}
			}
			continue
		}
		block, ok, err := d.lowestOf(freeIn{n.Scope, s, 0}, nil, s.bits())
		if ok || err != nil {
			return block, ok, err
		}
	}
	return netip.Prefix{}, false, nil
}

// ascending splits a list into the longest ascending parts, so that the first address
// of a part is its lowest.
func ascending(list []netipx.IPRange) [][]netipx.IPRange {
	var parts [][]netipx.IPRange
	for i, r := range list {
		if i == 0 || list[i-1].To().Compare(r.From()) >= 0 || list[i-1].To().BitLen() != r.From().BitLen() {
			parts = append(parts, nil)
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], r)
	}
	return parts
}

// freeIn names a list of addresses from which automatic ones are chosen.
type freeIn struct {
	scope  string
	subnet *Subnet
	part   int // of the list static of a vip network
}

// freeList has the addresses of such a list that are reserved neither by an instance nor in
// this decision. Making it for each instance would take quadratic time.
type freeList struct {
	ranges []netipx.IPRange // ascending
	seen   int              // how many of the chosen reservations are not in it
}

// lowestOf returns the lowest block that is reserved neither in the ledger nor in this
// decision, and that no instance holds. list are the addresses; nil: those of the subnet
// for automatic ones.
func (d *decider) lowestOf(of freeIn, list []netipx.IPRange, bits int) (netip.Prefix, bool, error) {
	f := d.free[of]
	if f == nil {
		if list == nil {
			list = of.subnet.automatic()
		}
		var b netipx.IPSetBuilder
		for _, r := range list {
			b.AddRange(r)
		}
		for _, r := range d.held {
			if r.Scope == of.scope {
				b.RemovePrefix(r.Block)
			}
		}
		set, _ := b.IPSet()
		f = &freeList{ranges: set.Ranges()}
		d.free[of] = f
	}
	for ; f.seen < len(d.chosen); f.seen++ {
		if r := d.chosen[f.seen]; r.Scope == of.scope {
			f.remove(netipx.RangeOfPrefix(r.Block))
		}
	}
	if len(f.ranges) == 0 {
		return netip.Prefix{}, false, nil
	}
	return d.taken.LowestFree(of.scope, f.ranges, bits)
}

// remove removes a range from the list.
func (f *freeList) remove(gone netipx.IPRange) {
	at, _ := slices.BinarySearchFunc(f.ranges, gone.From(), func(r netipx.IPRange, addr netip.Addr) int { return r.To().Compare(addr) })
	for at < len(f.ranges) && f.ranges[at].From().Compare(gone.To()) <= 0 {
		r := f.ranges[at]
		var rest []netipx.IPRange
		if r.From().Less(gone.From()) {
			rest = append(rest, netipx.IPRangeFrom(r.From(), gone.From().Prev()))
		}
		if gone.To().Less(r.To()) {
			rest = append(rest, netipx.IPRangeFrom(gone.To().Next(), r.To()))
		}
		switch {
		case len(rest) == 0 && at == 0: // the usual case, without moving the others
			f.ranges = f.ranges[1:]
		case len(rest) == 1:
			f.ranges[at] = rest[0]
			at++
		default:
			f.ranges = slices.Replace(f.ranges, at, at+1, rest...)
			at += len(rest)
		}
	}
}

// noCapacity returns the error for a network without a free address.
func (d *decider) noCapacity(in *instance, w *want) error {
	n := w.network
	refused := &Refused{Kind: NotEnoughCapacity, Owner: in.Owner, Network: n.Name, Scope: n.Scope, Zone: in.Zone, Ranges: n.rangesOf(in.Zone)}
	for _, other := range d.instances {
		for _, x := range other.wants {
			if x.network == n && !x.static.IsValid() && (other.Zone == in.Zone || in.Zone == "") {
				switch {
				case !x.done:
					refused.Needed++
				case x.change.Action == Reserve:
					refused.Needed++
					refused.Free++
				}
			}
		}
	}
	const shown = 3
	for _, s := range n.Subnets {
		ranges := s.Static
		if n.Type == Manual {
			ranges = s.automatic()
		}
		for _, r := range ranges {
			first := r.From()
			for s.ofZone(in.Zone) && len(refused.Holders) < shown && first.IsValid() && first.Compare(r.To()) <= 0 {
				holder, found, err := d.overlapping(n.Scope, first, r.To())
				if err != nil {
					return err
				}
				if !found {
					break
				}
				refused.Holders = distinct(refused.Holders, holder)
				if _, leaves := d.leaves(holder); leaves {
					refused.Leaves = true
				}
				first = netipx.PrefixLastIP(holder.Block).Next()
			}
		}
	}
	return refused
}
