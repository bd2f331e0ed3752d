package roster

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"bootstrap/network"
)

// placement is one group while its instances get their zones.
type placement struct {
	group    Group
	networks []network.Network
	existing []*Recorded // by index
	placed   []Instance
	counts   map[string]int     // of placed, by zone
	taken    map[*Recorded]bool // those of existing that are placed
}

// place chooses which instances stay, and the zones of new ones.
func (p *placement) place() error {
	if err := p.checkIgnored(); err != nil {
		return err
	}
	if p.group.static() {
		return p.placeStatic()
	}
	p.leaveEmpty()
	p.placeIgnored()
	p.placeDisks()
	p.balance()
	return nil
}

// leaveEmpty drops the instances without any resource, unless there are more of them than
// the group has instances too many.
func (p *placement) leaveEmpty() {
	empty := func(r *Recorded) bool { return r.Empty && !r.Ignored && reason(p.group, *r) == Fewer }
	number, left := 0, -p.group.Instances
	for _, r := range p.existing {
		if empty(r) {
			number++
		}
		if reason(p.group, *r) == Fewer {
			left++
		}
	}
	if number <= left {
		p.existing = slices.DeleteFunc(p.existing, empty)
	}
}

// placeStatic places the instances by their static addresses.
func (p *placement) placeStatic() error {
	var members []network.Member
	byID := map[string]*Recorded{}
	for _, r := range p.existing {
		members = append(members, network.Member{Instance: r.ID, Zone: r.Zone, Held: r.Held})
		byID[r.ID] = r
	}
	members, err := network.Place(p.networks, p.group.Group, members)
	if err != nil {
		return err
	}
	for _, m := range members {
		p.add(byID[m.Instance], m.Zone)
		p.placed[len(p.placed)-1].Static = m.Static
	}
	for _, r := range p.existing {
		if r.Ignored && !p.has(r) {
			return p.ignored(r, "static_ips lists no address for it; an ignored instance keeps its addresses")
		}
	}
	return nil
}

// add places an instance; was is nil for a new one.
func (p *placement) add(was *Recorded, zone string) {
	in := Instance{Group: p.group.Name, Zone: zone, Was: was}
	if was != nil {
		in.ID, in.Index, in.Bootstrap = was.ID, was.Index, was.Bootstrap
	}
	p.placed = append(p.placed, in)
	p.counts[zone]++
	p.taken[was] = true
}

// has reports whether the instance is placed.
func (p *placement) has(r *Recorded) bool {
	return p.taken[r]
}

// waiting returns the instances that are not placed, by index.
func (p *placement) waiting() []*Recorded {
	return slices.DeleteFunc(slices.Clone(p.existing), p.has)
}

// left returns how many instances are still to be placed.
func (p *placement) left() int { return p.group.Instances - len(p.placed) }

// count returns how many instances are placed in the zone.
func (p *placement) count(zone string) int { return p.counts[zone] }

// checkIgnored refuses what would change ignored instances.
func (p *placement) checkIgnored() error {
	var names []string
	for _, w := range p.group.Wishes {
		names = append(names, w.Network)
	}
	slices.Sort(names)
	count := 0
	for _, r := range p.existing {
		if !r.Ignored {
			continue
		}
		count++
		var held []string
		for _, h := range r.Held {
			held = append(held, h.Network)
		}
		slices.Sort(held)
		held = slices.Compact(held)
		switch {
		case !slices.Equal(slices.Compact(names), held):
			return p.ignored(r, fmt.Sprintf("its networks are %s; an ignored instance keeps its networks", strings.Join(held, ", ")))
		case p.group.static():
			if addr, ok := p.unlisted(r); ok {
				return p.ignored(r, fmt.Sprintf("static_ips no longer lists its address %s; an ignored instance keeps its addresses", addr))
			}
		case r.Zone != "" && !slices.Contains(p.group.Zones, r.Zone):
			return p.ignored(r, fmt.Sprintf("it is in the zone %s, which azs of the group does not have", r.Zone))
		}
	}
	if count > p.group.Instances && !p.group.static() {
		return &Refused{Kind: IgnoredModified, Group: p.group.Name,
			Why: fmt.Sprintf("%d of its instances are ignored, and only %d are asked for; ignored instances are never deleted", count, p.group.Instances)}
	}
	return nil
}

// unlisted returns an address of the instance on a network with static_ips that
// these do not list.
func (p *placement) unlisted(r *Recorded) (netip.Addr, bool) {
	for _, h := range r.Held {
		for _, w := range p.group.Wishes {
			if w.Network == h.Network && len(w.Static) > 0 && !slices.Contains(w.Static, h.Block.Addr()) {
				return h.Block.Addr(), true
			}
		}
	}
	return netip.Addr{}, false
}

// ignored returns the error for an ignored instance that would change.
func (p *placement) ignored(r *Recorded, why string) error {
	return &Refused{Kind: IgnoredModified, Group: p.group.Name, Instance: r.ID, Why: "the instance is ignored, and " + why}
}

// placeIgnored places the ignored instances.
func (p *placement) placeIgnored() {
	for _, r := range p.existing {
		if r.Ignored {
			p.add(r, r.Zone)
		}
	}
}

// placeDisks places instances with persistent disks in the zones that they are in:
// again and again the next one of the zone with the fewest, so that the zones are
// balanced if not all can stay.
func (p *placement) placeDisks() {
	if len(p.group.Zones) == 0 {
		return
	}
	first := len(p.placed)
	defer func() { // their order is that of the new indexes of those that migrate
		slices.SortStableFunc(p.placed[first:], func(a, b Instance) int {
			return slices.Index(p.existing, a.Was) - slices.Index(p.existing, b.Was)
		})
	}()
	for p.left() > 0 {
		var best *Recorded
		for _, r := range p.waiting() {
			if r.Disk && slices.Contains(p.group.Zones, r.Zone) && (best == nil || p.count(r.Zone) < p.count(best.Zone)) {
				best = r
			}
		}
		if best == nil {
			return
		}
		p.add(best, best.Zone)
	}
}

// balance places the others, again and again in the zone with the fewest: of
// several such zones in one with an instance that is not placed, or else in the
// one with the lowest name.
func (p *placement) balance() {
	zones := slices.Clone(p.group.Zones)
	if len(zones) == 0 {
		zones = []string{""}
	}
	existing := map[string]int{}
	for _, r := range p.existing {
		existing[r.Zone]++
	}
	slices.SortStableFunc(zones, func(a, b string) int { return existing[b] - existing[a] })
	// The zones of the instances that may stay. An instance counts until a zone
	// was chosen for it, as it does for the Director.
	preferred := map[string]int{}
	for _, r := range p.waiting() {
		preferred[r.Zone]++
	}
	for p.left() > 0 {
		fewest := p.count(slices.MinFunc(zones, func(a, b string) int { return p.count(a) - p.count(b) }))
		tied := slices.DeleteFunc(slices.Clone(zones), func(zone string) bool { return p.count(zone) != fewest })
		zone := slices.Min(tied)
		if i := slices.IndexFunc(tied, func(zone string) bool { return preferred[zone] > 0 }); i >= 0 {
			zone = tied[i]
		}
		preferred[zone]--
		var next *Recorded
		if i := slices.IndexFunc(p.waiting(), func(r *Recorded) bool { return r.Zone == zone }); i >= 0 {
			next = p.waiting()[i]
		}
		p.add(next, zone)
	}
}
