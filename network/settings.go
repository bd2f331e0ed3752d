package network

import (
	"maps"
	"net/netip"
	"slices"
	"strconv"
)

// Settings returns the settings of a VM's network in the form that create_vm and the
// apply spec expect. block is the VM's address on the network; for a dynamic network its
// last known address, or the zero Prefix. The settings contain the length of the block as
// prefix, like those of the Director. The caller may change the map, but not the values
// in cloud_properties.
func (n *Network) Settings(w Wish, block netip.Prefix, zone string) (map[string]any, error) {
	entry := map[string]any{"type": string(n.Type)}
	s, err := n.subnetFor(block, zone)
	if err != nil {
		return nil, err
	}
	properties := n.CloudProperties
	if s != nil && n.Type != VIP {
		properties = s.CloudProperties
	}
	entry["cloud_properties"] = maps.Clone(properties)
	if properties == nil {
		entry["cloud_properties"] = map[string]any{}
	}
	if block.IsValid() {
		entry["ip"] = block.Addr().String()
	}
	if len(w.Default) > 0 {
		entry["default"] = slices.Sorted(slices.Values(w.Default))
	}
	entry["prefix"] = singlePrefix
	if n.Type != Dynamic {
		entry["prefix"] = strconv.Itoa(block.Bits())
		if w.NICGroup != "" {
			entry["nic_group"] = w.NICGroup
		}
	}
	if s == nil || n.Type == VIP {
		return entry, nil
	}
	if s.DNS != nil {
		servers := make([]string, len(s.DNS))
		for i, addr := range s.DNS {
			servers[i] = addr.String()
		}
		entry["dns"] = servers
	}
	if n.Type == Manual {
		entry["netmask"] = netmask(s.Range)
		if s.Gateway.IsValid() {
			entry["gateway"] = s.Gateway.String()
		}
	}
	return entry, nil
}

// singlePrefix is the prefix of an IPv4 address.
const singlePrefix = "32"

// subnetFor returns the subnet whose settings the VM gets; nil for a vip
// network.
func (n *Network) subnetFor(block netip.Prefix, zone string) (*Subnet, error) {
	switch n.Type {
	case Dynamic:
		for i := range n.Subnets {
			if n.Subnets[i].ofZone(zone) {
				return &n.Subnets[i], nil
			}
		}
		return nil, &Refused{Kind: NoSubnetOfZone, Network: n.Name, Zone: zone, Known: n.zones()}
	case VIP:
		if !block.IsValid() {
			return nil, &Refused{Kind: ReservationIPAbsent, Network: n.Name}
		}
		return nil, nil
	}
	if !block.IsValid() {
		return nil, &Refused{Kind: ReservationIPAbsent, Network: n.Name}
	}
	s, ok := n.holding(block.Addr())
	if !ok {
		return nil, &Refused{Kind: IPOutsideSubnet, Network: n.Name, Block: block, Ranges: n.ranges()}
	}
	return s, nil
}

// netmask returns the mask of the prefix: dotted for IPv4, eight groups of
// four hex digits for IPv6.
func netmask(prefix netip.Prefix) string {
	return netmaskAddr(prefix.Bits(), prefix.Addr().BitLen()).StringExpanded()
}
