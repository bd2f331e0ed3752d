package network

import (
	"maps"
	"net/netip"
	"reflect"
	"slices"
)

// Member is an instance of a group with several instances: an existing one, or one that
// Place adds.
type Member struct {
	Instance string // an existing instance such as web/0; empty: a new one
	Zone     string
	Held     []Reservation
	// Static are the addresses of static_ips that Place assigns to it, by network.
	Static map[string]netip.Addr
}

// ByName returns the networks with their subnets' zones sorted by name. In this order,
// the only instance of a manifest tries the zones.
func ByName(networks []Network) []Network {
	networks = slices.Clone(networks)
	for i := range networks {
		networks[i].Subnets = slices.Clone(networks[i].Subnets)
		for k := range networks[i].Subnets {
			networks[i].Subnets[k].Zones = slices.Sorted(slices.Values(networks[i].Subnets[k].Zones))
		}
	}
	return networks
}

// Place assigns a zone and a part of static_ips to each instance of a group. An existing
// instance keeps its zone, and keeps its address if that is still listed. If the group
// has no place for an existing instance, the instance is left out. New instances come
// last.
func Place(networks []Network, group Group, existing []Member) ([]Member, error) {
	p := &placement{group: group, zones: group.Zones, nicGroups: map[string]string{}}
	if len(p.zones) == 0 {
		p.zones = []string{""}
	}
	for _, w := range group.Wishes {
		n, ok := Find(networks, w.Network)
		if !ok || len(w.Static) == 0 {
			continue
		}
		p.lists = append(p.lists, w.Network)
		p.nicGroups[w.Network] = w.NICGroup
		for _, addr := range w.Static {
			c := candidate{network: w.Network, addr: addr, zones: p.zones}
			if s, found := n.holding(addr); found {
				c.properties = s.CloudProperties
				if len(s.Zones) > 0 {
					c.zones = slices.DeleteFunc(slices.Clone(s.Zones), func(zone string) bool { return !slices.Contains(p.zones, zone) })
				}
			}
			p.candidates = append(p.candidates, c)
		}
	}
	if err := p.keep(existing); err != nil {
		return nil, err
	}
	for _, e := range existing {
		p.reuse(e)
	}
	for i := range p.members {
		if !p.fill(&p.members[i]) {
			return nil, p.unsatisfied(p.members[i])
		}
	}
	if len(p.lists) > 0 && !p.distribute(0, new(int)) {
		return nil, &Refused{Kind: StaticIPMismatch, Network: p.lists[0], Owner: Owner{Instance: group.Name},
			Why: "static_ips of its networks cannot be spread so that each zone has as many addresses on every network"}
	}
	for len(p.members) < group.Instances {
		m := Member{Zone: p.nextZone(), Static: map[string]netip.Addr{}}
		if !p.fill(&m) {
			return nil, p.unsatisfied(m)
		}
		p.members = append(p.members, m)
	}
	return p.members, nil
}

// placement is the state of placing a group.
type placement struct {
	group      Group
	zones      []string          // contains only "" if the group has no zones
	lists      []string          // networks with static_ips, in the group's order
	nicGroups  map[string]string // nic_group by network
	candidates []candidate
	members    []Member
}

// candidate is an address of static_ips.
type candidate struct {
	network string
	addr    netip.Addr
	zones   []string // zones in which the address may be used
	claimed bool

	properties map[string]any // cloud_properties of its subnet
}

// claim finds an unused address of the network in the zone of the instance. If the
// instance already has an address in the same nic_group, the new address must be of a
// subnet with the same cloud_properties, as in the Director: these are addresses of one
// interface.
func (p *placement) claim(network string, m *Member) (*candidate, bool) {
	beside, shares := p.sibling(network, m)
	for i := range p.candidates {
		c := &p.candidates[i]
		if !c.claimed && c.network == network && slices.Contains(c.zones, m.Zone) && (!shares || reflect.DeepEqual(c.properties, beside)) {
			return c, true
		}
	}
	return nil, false
}

// sibling looks for an address that the instance already has in the nic_group of a
// network, and returns the cloud_properties of the subnet of that address.
func (p *placement) sibling(network string, m *Member) (properties map[string]any, found bool) {
	group := p.nicGroups[network]
	if group == "" {
		return nil, false
	}
	for _, other := range p.lists {
		addr, has := m.Static[other]
		if !has || other == network || p.nicGroups[other] != group {
			continue
		}
		for _, c := range p.candidates {
			if c.network == other && c.addr == addr {
				return c.properties, true
			}
		}
	}
	return nil, false
}

// keep places the existing instances that hold listed addresses.
func (p *placement) keep(existing []Member) error {
	for _, e := range existing {
		m := Member{Instance: e.Instance, Zone: e.Zone, Held: e.Held, Static: map[string]netip.Addr{}}
		for _, network := range p.lists {
			i := slices.IndexFunc(p.candidates, func(c candidate) bool {
				return c.network == network && !c.claimed && slices.ContainsFunc(e.Held, func(r Reservation) bool { return r.Block.Addr() == c.addr })
			})
			if i < 0 {
				continue
			}
			if len(p.members) >= p.group.Instances {
				// The instance is left out, but only after the others have their
				// addresses.
				p.candidates = slices.Delete(p.candidates, i, i+1)
				continue
			}
			c := &p.candidates[i]
			c.claimed = true
			if !slices.Contains(c.zones, e.Zone) {
				return &Refused{Kind: ReservationError, Network: network, Owner: Owner{Instance: e.Instance}, Zone: e.Zone, Block: netip.PrefixFrom(c.addr, c.addr.BitLen()),
					Why: "the instance has it in the zone " + e.Zone + ", and the subnet of the address is in other zones: list another address in its place, which a new instance gets, or keep the zone in azs and in the subnet"}
			}
			c.zones = []string{e.Zone}
			m.Static[network] = c.addr
		}
		if len(m.Static) > 0 {
			p.members = append(p.members, m)
		}
	}
	return nil
}

// reuse places an existing instance without a listed address, if its zone has room.
func (p *placement) reuse(e Member) {
	placed := slices.ContainsFunc(p.members, func(m Member) bool { return m.Instance == e.Instance })
	if placed || len(p.members) >= p.group.Instances || !slices.Contains(p.zones, e.Zone) {
		return
	}
	m := Member{Instance: e.Instance, Zone: e.Zone, Held: e.Held, Static: map[string]netip.Addr{}}
	for _, network := range p.lists {
		if _, ok := p.claim(network, &m); !ok {
			return
		}
	}
	p.fill(&m)
	p.members = append(p.members, m)
}

// fill gives the instance an address on each network where it has no address.
func (p *placement) fill(m *Member) bool {
	for _, network := range p.lists {
		if _, has := m.Static[network]; has {
			continue
		}
		c, ok := p.claim(network, m)
		if !ok {
			return false
		}
		c.claimed, c.zones = true, []string{m.Zone}
		m.Static[network] = c.addr
	}
	return true
}

// distribute chooses one zone for each address from the i-th on, so that all
// networks have the same number in each zone. It gives up after some steps.
func (p *placement) distribute(i int, steps *int) bool {
	const limit = 100_000
	if *steps++; *steps > limit {
		return false
	}
	if i == len(p.candidates) {
		first := p.perZone(p.lists[0])
		return !slices.ContainsFunc(p.lists, func(network string) bool { return !maps.Equal(first, p.perZone(network)) })
	}
	c := &p.candidates[i]
	if len(c.zones) == 1 {
		return p.distribute(i+1, steps)
	}
	all := c.zones
	counts := map[string]int{} // number of earlier addresses in each zone, on all networks
	for _, before := range p.candidates[:i] {
		counts[before.zones[0]]++
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b string) int { return counts[a] - counts[b] })
	for _, zone := range sorted {
		c.zones = []string{zone}
		if p.distribute(i+1, steps) {
			return true
		}
	}
	c.zones = all
	return false
}

// perZone counts, for each zone, the addresses of a network for which the zone is already
// chosen.
func (p *placement) perZone(network string) map[string]int {
	counts := map[string]int{}
	for _, c := range p.candidates {
		if c.network == network && len(c.zones) == 1 {
			counts[c.zones[0]]++
		}
	}
	return counts
}

// nextZone returns the zone of the next new instance: the zone of the next static
// address, or the zone with the fewest instances, by name.
func (p *placement) nextZone() string {
	if len(p.lists) > 0 {
		for _, c := range p.candidates {
			if !c.claimed && c.network == p.lists[0] {
				return c.zones[0]
			}
		}
	}
	counts := map[string]int{}
	for _, m := range p.members {
		counts[m.Zone]++
	}
	return slices.MinFunc(slices.Sorted(slices.Values(p.zones)), func(a, b string) int { return counts[a] - counts[b] })
}

// unsatisfied returns the error for an instance that gets no address.
func (p *placement) unsatisfied(m Member) error {
	for _, network := range p.lists {
		if _, has := m.Static[network]; has {
			continue
		}
		if _, shares := p.sibling(network, &m); shares {
			return &Refused{Kind: ReservationError, Network: network, Owner: Owner{Instance: p.group.Name}, Zone: m.Zone,
				Why: "static_ips has no address left in a subnet with the cloud_properties of the other networks of nic_group " + p.nicGroups[network] + ": all of them are addresses of one interface"}
		}
	}
	return &Refused{Kind: ReservationError, Network: p.lists[0], Owner: Owner{Instance: p.group.Name}, Zone: m.Zone,
		Why: "static_ips has no address left in the zone " + m.Zone + " that no existing instance holds"}
}
