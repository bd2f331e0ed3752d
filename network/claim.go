package network

import "net/netip"

// Holding returns the network that contains an address: the network with the given name
// if it contains the address, else the first one that does.
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

// has reports whether a subnet of the network contains the address. A vip network
// without lists has any address that static_ips names, which is unknown here.
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

// Claim returns the block and the kind of a reservation for an instance that uses the
// address on the network.
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
