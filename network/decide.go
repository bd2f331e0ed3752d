package network

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"

	"go4.org/netipx"
)

// Decide returns what happens to the addresses of the instances: each keeps what
// it holds and may keep; static addresses are reserved as asked for, all others
// are the lowest free ones. Nothing that one of the instances gives up is given
// to another. A refusal is a *Refused; other errors are those of the ledger.
func Decide(networks []Network, instances []Instance, taken Taken) ([]Outcome, error) {
	d := &decider{networks: networks, taken: taken, instances: make([]*instance, len(instances))}
	for i := range instances {
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
			// What the VM has stays its own until the new one serves.
			in.swapped, d.chosen = true, chosen
			in.undo()
			if err := d.match(in); err != nil {
				return nil, err
			}
		}
	}
	// Static addresses are first, so that an automatic one of another network
	// with the same range does not take them.
	for _, static := range []bool{true, false} {
		for _, in := range d.instances {
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

// decider is one decision.
type decider struct {
	networks  []Network
	taken     Taken
	instances []*instance
	chosen    []Reservation // that this decision reserves
}

// instance is an instance while the decision is made.
type instance struct {
	*Instance
	wants []want
	held  []holding
	// swapped is true if what the VM has is not used again, since the VM keeps it
	// until the new one serves.
	swapped bool
	// unbound is true if the ledger does not say what the VM has: a run was killed
	// after it made the VM.
	unbound bool
	noSwap  string
}

// want is a wish while the decision is made.
type want struct {
	*Wish
	network *Network
	static  netip.Prefix // asked for; the zero Prefix: any
	done    bool
	change  Change
}

// holding is a reservation that the instance has.
type holding struct {
	Reservation
	used   bool // for a wish
	orphan bool
	ofVM   bool // the VM of the instance has it
}

// prepare finds the networks of the wishes, and sorts what the instance holds.
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
	// Then it has some of what is bound to no VM.
	if in.VM != "" && !slices.ContainsFunc(in.held, func(h holding) bool { return h.ofVM }) {
		in.unbound = true
		for i := range in.held {
			in.held[i].ofVM = in.held[i].VM == ""
		}
	}
	// What a failed run reserved is used before what the old VM has.
	slices.SortStableFunc(in.held, func(a, b holding) int {
		if (a.VM == "") != (b.VM == "") {
			if a.VM == "" {
				return -1
			}
			return 1
		}
		return cmp.Or(a.Since.Compare(b.Since), a.Block.Addr().Compare(b.Block.Addr()))
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
		refused.Kind, refused.Why = ReservationError, "it is in a subnet of other zones than the instance, which is in "+in.Zone+among(s.Zones)
		return refused
	}
	return nil
}

// match uses what the instance holds for its wishes: static ones first, because
// they can use only one address; first what it holds on the network of the same
// name, then on any, because a network that got another name keeps its addresses.
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

// matchOne uses what the instance holds on networks of the same name, or of
// others, for the wish.
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

// fits reports whether the reservation can be used for the wish. In a network
// with another scope it can if the address is free there.
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

// ask leaves the address to the IaaS.
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

// obstacle returns why the reservation cannot be used for the wish, or Same.
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

// why returns why the reservation is not used for the wish. Another scope is the
// reason only if there is no other.
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

// needsSwap reports whether a second VM is made beside the old one, with
// addresses of its own.
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

// undo forgets what is used for which wish.
func (in *instance) undo() {
	for i := range in.held {
		in.held[i].used = false
	}
	for i := range in.wants {
		in.wants[i].done = false
	}
}

// moves reports whether the VM's addresses are others than those that are
// wished for.
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

// cause returns why the instance needs another address than it has.
func (d *decider) cause(in *instance, w *want, r Reservation) Reason {
	for _, sameName := range []bool{true, false} {
		for _, h := range in.held {
			if h.used || h.orphan || sameName != (h.Network == w.Network) {
				continue
			}
			if _, known := Find(d.networks, h.Network); !sameName && known {
				continue // it is no earlier name of this network
			}
			reason := d.why(in, w, h.Reservation)
			if reason.Kind == Same {
				return Reason{Swapped, showBlock(h.Block), showBlock(r.Block)}
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

// holder returns a reservation that has an address of the new one, or nil.
func (d *decider) holder(r Reservation) (*Reservation, error) {
	for _, other := range d.chosen {
		if other.Scope == r.Scope && other.Block.Overlaps(r.Block) {
			return &other, nil
		}
	}
	holder, found, err := d.taken.Overlapping(r.Scope, r.Block.Addr(), netipx.PrefixLastIP(r.Block))
	if err != nil || !found {
		return nil, err
	}
	return &holder, nil
}

// inUse returns the error for a static address that somebody holds.
func (d *decider) inUse(in *instance, r, holder Reservation) error {
	refused := &Refused{Kind: AlreadyInUse, Owner: in.Owner, Network: r.Network, Scope: r.Scope, Zone: in.Zone, Block: r.Block, Holders: []Reservation{holder}}
	refused.Orphan, refused.Leaves = d.leaves(holder)
	return refused
}

// leaves reports whether an orphaned VM has the reservation, and otherwise
// whether an instance of this decision gives it up.
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

// lowest returns the lowest free block of the subnets of the zone, in their
// order.
func (d *decider) lowest(n *Network, zone string) (netip.Prefix, bool, error) {
	for i := range n.Subnets {
		s := &n.Subnets[i]
		if !s.ofZone(zone) {
			continue
		}
		if n.Type == VIP {
			for _, list := range ascending(s.Static) {
				block, ok, err := d.lowestOf(n.Scope, list, list[0].From().BitLen())
				if ok || err != nil {
					return block, ok, err
				}
			}
			continue
		}
		block, ok, err := d.lowestOf(n.Scope, s.automatic(), s.bits())
		if ok || err != nil {
			return block, ok, err
		}
	}
	return netip.Prefix{}, false, nil
}

// ascending cuts a list into the longest parts whose order is that of the
// addresses, so that the lowest address of a part is the first one of the list.
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

// lowestOf returns the lowest block that neither the ledger nor this decision
// has reserved.
func (d *decider) lowestOf(scope string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error) {
	var b netipx.IPSetBuilder
	for _, r := range in {
		b.AddRange(r)
	}
	for _, r := range d.chosen {
		if r.Scope == scope {
			b.RemovePrefix(r.Block)
		}
	}
	set, _ := b.IPSet()
	ranges := set.Ranges()
	if len(ranges) == 0 {
		return netip.Prefix{}, false, nil
	}
	return d.taken.LowestFree(scope, ranges, bits)
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
				holder, found, err := d.taken.Overlapping(n.Scope, first, r.To())
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

// outcome returns what was decided for the instance.
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

// leave returns what happens to a reservation that no wish uses.
func (d *decider) leave(in *instance, h holding) Change {
	c := Change{Action: Release, Reservation: h.Reservation}
	from := showBlock(h.Block)
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
			c.Reason = Reason{Replaced, from, showBlock(w.change.Reservation.Block)}
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
