package network

import (
	"fmt"
	"math"
	"net/netip"
	"slices"
	"strconv"

	"go4.org/netipx"

	"bootstrap/internal/number"
	"bootstrap/internal/spelling"
)

// Wish is the request of an instance, or of each instance of a group, for a network.
type Wish struct {
	Network string
	// Static are the addresses in static_ips: one for each instance of a group, or at
	// most one for a single instance.
	Static []netip.Addr
	// Default are the uses for which the network is the VM's default: dns, gateway,
	// addressable.
	Default []string
	// NICGroup is the group of networks that share an interface of the VM, as it is
	// passed to the CPI; empty: the CPI assigns the interface of the network by itself.
	NICGroup string
}

// Group is the use of networks by an instance group.
type Group struct {
	Name      string
	Instances int
	Zones     []string
	Wishes    []Wish
}

// MaxNIC is the largest number of an interface of a VM.
const MaxNIC = 1 << 20

// uses returns the uses for which a network can be the default. A group with several
// networks must choose a network for each of the first two uses.
func uses() []string { return []string{"dns", "gateway", "addressable"} }

// ParseGroup reads name, instances, azs and networks of an instance group from a
// decoded YAML document, and returns all problems. path is the group's path in the
// document, for example instance_groups[0].
func ParseGroup(path string, fields map[string]any, networks []Network, rules Rules) (Group, []Problem) {
	r := &reader{rules: rules}
	g := Group{Instances: 1}
	g.Name, _ = fields["name"].(string)
	if value := fields["instances"]; value != nil {
		n, err := number.Bound{Most: math.MaxInt32}.Of(value)
		if err != nil {
			r.fail(path+".instances", InvalidType, "%s", err)
		}
		g.Instances = n
	}
	var zonesOK bool
	g.Zones, zonesOK = r.groupZones(path, fields)
	items := r.filled(path, fields, "networks", MissingNetwork, "must contain at least one network")
	for i, item := range items {
		place := fmt.Sprintf("%s.networks[%d]", path, i)
		entry, ok := r.fields(place, item)
		if !ok {
			continue
		}
		name, ok := r.text(place, entry, "name", true)
		if !ok {
			continue
		}
		wish := Wish{Network: name, Default: r.defaults(place, entry), NICGroup: r.nicGroup(place, entry)}
		n, known := Find(networks, name)
		switch {
		case !known:
			r.fail(place+".name", UnknownNetwork, "there is no network %q%s", name, suggest(name, networks))
		case slices.ContainsFunc(g.Wishes, func(w Wish) bool { return w.Network == name }):
			r.fail(place+".name", AlreadyExists, "the network %q is already in this list: an instance has one address on each network", name)
		default:
			if zonesOK {
				r.checkZones(path, n, g)
			}
			wish.Static = r.staticIPs(place, entry, n, g)
		}
		g.Wishes = append(g.Wishes, wish)
	}
	if len(g.Wishes) == len(items) && len(items) > 0 {
		r.checkDefaults(path, networks, &g)
	}
	return g, r.problems
}

// suggest returns the end of a message about an unknown network.
func suggest(name string, networks []Network) string {
	names := make([]string, len(networks))
	for i, n := range networks {
		names[i] = n.Name
	}
	if near := spelling.Suggest(name, names); near != "" {
		return near
	}
	return among(names)
}

// groupZones reads azs of a group; ok is false if it has a problem.
func (r *reader) groupZones(path string, fields map[string]any) (zones []string, ok bool) {
	before := len(r.problems)
	zones = r.zoneList(path, fields, zoneKinds{MissingZones, InvalidZone, UnknownZone})
	return zones, len(r.problems) == before
}

// checkZones checks that a network has subnets for the zones of a group.
func (r *reader) checkZones(path string, n *Network, g Group) {
	have := n.zones()
	for _, zone := range g.Zones {
		if n.Type != VIP && !slices.Contains(have, zone) {
			r.fail(path+".azs", MissingRequiredZone, "the network %q has no subnet in the zone %s%s", n.Name, zone, among(have))
		}
	}
	anywhere := slices.ContainsFunc(n.Subnets, func(s Subnet) bool { return len(s.Zones) == 0 })
	if len(g.Zones) == 0 && len(have) > 0 && n.Type != VIP && !anywhere {
		r.fail(path+".azs", MissingRequiredZone, "must be provided, since the subnets of the network %q have zones%s", n.Name, among(have))
	}
}

// defaults reads the uses for which a network is the default.
func (r *reader) defaults(path string, fields map[string]any) []string {
	var defaults []string
	for i, item := range r.list(path, fields, "default") {
		use, ok := item.(string)
		if !ok || !slices.Contains(uses(), use) {
			r.fail(fmt.Sprintf("%s.default[%d]", path, i), InvalidDefault, "must be dns, gateway or addressable, not %s", describe(item))
			continue
		}
		if !slices.Contains(defaults, use) {
			defaults = append(defaults, use)
		}
	}
	return defaults
}

// nicGroup reads the number of the interface that the network shares with others.
func (r *reader) nicGroup(path string, fields map[string]any) string {
	value := fields["nic_group"]
	if value == nil {
		return ""
	}
	n, err := number.Bound{Most: MaxNIC, About: "networks with the same one share an interface"}.Lenient(value)
	if err != nil {
		r.fail(path+".nic_group", InvalidProperty, "%s", err)
		return ""
	}
	return strconv.Itoa(n)
}

// checkDefaults checks that one network is the default for each use, and makes
// the only network of a group the default for dns and gateway.
func (r *reader) checkDefaults(path string, networks []Network, g *Group) {
	if len(g.Wishes) == 1 {
		g.Wishes[0].Default = uses()[:2]
	}
	for _, use := range uses() {
		var of []int
		for i, w := range g.Wishes {
			if slices.Contains(w.Default, use) {
				of = append(of, i)
			}
		}
		switch {
		case len(of) > 1:
			r.fail(fmt.Sprintf("%s.networks[%d].default", path, of[1]), MultipleDefaults, "%s: the network %q is the default for it already, and only one can be", use, g.Wishes[of[0]].Network)
		case len(of) == 0 && use != "addressable":
			r.fail(path+".networks", MissingDefault, "with several networks, one of them must be the default for %s: add %q to its list default", use, use)
		}
	}
	for i, w := range g.Wishes {
		if n, ok := Find(networks, w.Network); ok && n.Type == VIP && len(w.Default) > 0 {
			r.fail(fmt.Sprintf("%s.networks[%d]", path, i), VIPDefaultProvided, "the vip network %q cannot be the default for %s: add a manual or dynamic network that is", w.Network, w.Default[0])
		}
	}
}

// staticIPs reads and checks static_ips of a group.
func (r *reader) staticIPs(path string, fields map[string]any, n *Network, g Group) []netip.Addr {
	value, given := fields["static_ips"]
	place := path + ".static_ips"
	listed := slices.ContainsFunc(n.Subnets, func(s Subnet) bool { return len(s.Static) > 0 })
	switch {
	case n.Type == Dynamic && given:
		r.fail(place, StaticIPsOnDynamic, "must not be given: %q is a dynamic network, whose addresses the IaaS chooses", n.Name)
		return nil
	case n.Type == VIP && value != nil && len(n.Subnets) > 0:
		r.fail(place, VIPMisconfigured, "must not be given: the vip network %q has a list of addresses of its own", n.Name)
		return nil
	case n.Type == VIP && value == nil && len(n.Subnets) == 0:
		r.fail(place, VIPMisconfigured, "must be provided, since the vip network %q has no list of addresses (subnets with static)", n.Name)
		return nil
	}
	if value == nil {
		return nil
	}
	before := len(r.problems)
	ranges := r.ranges(place, value)
	var seen []placed
	count := 0
	for _, item := range ranges {
		for _, other := range seen {
			if other.Overlaps(item.IPRange) {
				r.fail(item.path, InvalidStaticIPs, "%s is in this list more than once", show(item.IPRange))
			}
		}
		seen = append(seen, item)
		for addr := item.From(); count <= g.Instances && addr.IsValid() && addr.Compare(item.To()) <= 0; addr = addr.Next() {
			count++
		}
	}
	if len(r.problems) > before {
		return nil
	}
	if count != g.Instances {
		r.fail(place, StaticIPMismatch, "must contain as many addresses as the group has instances: %d", g.Instances)
		return nil
	}
	var addrs []netip.Addr
	blocks := map[netip.Prefix]bool{}
	for _, item := range ranges {
		for addr := item.From(); addr.IsValid() && addr.Compare(item.To()) <= 0; addr = addr.Next() {
			addrs = append(addrs, addr)
			if n.Type != Manual {
				continue
			}
			r.checkStatic(item.path, addr, n, g, listed)
			if s, found := n.holding(addr); found {
				block := blockAt(addr, s.bits())
				if blocks[block] {
					r.fail(item.path, InvalidStaticIPs, "%s is in the block %s, which is in this list already", addr, block)
				}
				blocks[block] = true
			}
		}
	}
	return addrs
}

// checkStatic checks that a list static of a subnet contains an address of static_ips,
// and that this subnet is in a zone of the group.
func (r *reader) checkStatic(path string, addr netip.Addr, n *Network, g Group, listed bool) {
	s, found := n.holding(addr)
	if !found {
		r.fail(path, StaticIPMismatch, "%s is in no subnet of the network %q: %s", addr, n.Name, n.ranges())
		return
	}
	block := blockAt(addr, s.bits())
	restricted := s.restricted()
	switch {
	case restricted.OverlapsPrefix(block):
		bad := firstOf(restricted, netipx.RangeOfPrefix(block))
		r.fail(path, StaticIPMismatch, "%s cannot be used: %s is %s", showBlock(block), bad, s.whyRestricted(bad))
	case !s.lists(block) && !listed:
		r.fail(path, StaticIPMismatch, "%s is not a static address: the network %q needs a list static in its subnet", showBlock(block), n.Name)
	case !s.lists(block):
		r.fail(path, StaticIPMismatch, "%s is not in the list static of the subnet %s", showBlock(block), s.Range)
	case len(g.Zones) > 0 && !slices.ContainsFunc(g.Zones, s.ofZone):
		r.fail(path, StaticIPsInOtherZone, "%s is in a subnet of other zones than the group%s", addr, among(s.Zones))
	}
}
