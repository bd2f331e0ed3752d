// Package network decides which addresses an instance gets: it reads networks, checks
// what a group asks of them, and chooses addresses by the rules of BOSH's Director. It
// reads and writes nothing itself: the ledger of reserved addresses is an argument.
package network

import (
	"net/netip"
	"slices"

	"go4.org/netipx"
)

// Type is the type of a network.
type Type string

// The types of networks.
const (
	Manual  Type = "manual"  // this program chooses the addresses
	Dynamic Type = "dynamic" // the IaaS chooses the addresses
	VIP     Type = "vip"     // addresses that the IaaS routes to the VM
)

// Network is an entry of networks.
type Network struct {
	Name string
	Type Type
	// Scope names a group of networks whose addresses must be unique among each other;
	// networks of different scopes may have equal ranges. Networks that name no scope
	// share the empty one.
	Scope string
	// Subnets of a dynamic network are never empty. Those of a vip network are empty
	// unless the network has lists of addresses.
	Subnets []Subnet
	// CloudProperties are those of a vip network; other networks have them in Subnets.
	CloudProperties map[string]any
}

// Subnet is a part of a network.
type Subnet struct {
	Range   netip.Prefix // range of a manual network, else the zero Prefix
	Gateway netip.Addr   // the zero Addr if there is none
	DNS     []netip.Addr // nil: not given, which settings tell from an empty list
	// Reserved are addresses that no instance gets. Gateway, first and last address of
	// Range are not in this list, but are not given to instances either.
	Reserved []netipx.IPRange
	// Static are the addresses that only instances with static_ips get: whole blocks if
	// instances get blocks. For a vip network, they are the addresses that instances
	// get, in this order.
	Static []netipx.IPRange
	Zones  []string // empty: for instances without a zone
	// Prefix is the length of the block that an instance gets: 32 or 128 is a
	// single address.
	Prefix          int
	CloudProperties map[string]any
}

// Find returns the network with the name.
func Find(networks []Network, name string) (*Network, bool) {
	i := slices.IndexFunc(networks, func(n Network) bool { return n.Name == name })
	if i < 0 {
		return nil, false
	}
	return &networks[i], true
}

// Reserve makes an address one that no instance gets. It changes only this value of the
// network.
func (n *Network) Reserve(addr netip.Addr) {
	n.Subnets = slices.Clone(n.Subnets)
	for i := range n.Subnets {
		if s := &n.Subnets[i]; s.Range.IsValid() && s.Range.Contains(addr) {
			s.Reserved = append(slices.Clone(s.Reserved), netipx.IPRangeFrom(addr, addr))
		}
	}
}
