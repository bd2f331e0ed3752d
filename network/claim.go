package network

import "net/netip"

// Holding returns the network that an address belongs to: the one with the name
// if it has the address, or else the first one with it.
func Holding(networks []Network, name string, addr netip.Addr) (*Network, bool) {
	if n, ok := Find(networks, name); ok && n.has(addr) {
		return n, true
	}
	for i := range networks {
		if n := &networks[i]; n.has(addr) {
			return n, true
		}
	}
	return nil, false
}

// has reports whether the address is in a subnet of the network. A vip network
// without lists has every address that static_ips names, which nothing tells.
func (n *Network) has(addr netip.Addr) bool {
	if _, ok := n.holding(addr); ok {
		return true
	}
	for i := range n.Subnets {
		if n.Type == VIP && n.Subnets[i].lists(netip.PrefixFrom(addr, addr.BitLen())) {
			return true
		}
	}
	return false
}

// Claim returns the block and the kind of a reservation for an instance that has
// the address on the network.
func (n *Network) Claim(addr netip.Addr) (netip.Prefix, Kind) {
	block := netip.PrefixFrom(addr, addr.BitLen())
	if n.Type == VIP {
		return block, Floating
	}
	s, ok := n.holding(addr)
	if ok && s.Prefix > 0 {
		block = netip.PrefixFrom(addr, s.Prefix).Masked()
	}
	if ok && s.lists(block) {
		return block, Static
	}
	return block, Automatic
}
