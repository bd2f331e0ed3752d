package network

import (
	"net/netip"
	"slices"
	"strings"

	"go4.org/netipx"
)

// bits returns the length of the blocks that instances get.
func (s *Subnet) bits() int {
	if s.Prefix == 0 {
		return s.Range.Addr().BitLen()
	}
	return s.Prefix
}

// ofZone reports whether instances of the zone may be in the subnet. Instances without a
// zone may be in every subnet.
func (s *Subnet) ofZone(zone string) bool {
	return zone == "" || len(s.Zones) == 0 || slices.Contains(s.Zones, zone)
}

// restricted returns the addresses that no instance may have: the reserved
// ones, the gateway, and the first and last address of the range.
func (s *Subnet) restricted() *netipx.IPSet {
	ends := []netipx.IPRange{single(s.Range.Addr()), single(netipx.PrefixLastIP(s.Range))}
	if s.Gateway.IsValid() {
		ends = append(ends, single(s.Gateway))
	}
	return setOf(s.Reserved, ends)
}

// whyRestricted returns the role of the restricted address, such as the gateway.
func (s *Subnet) whyRestricted(addr netip.Addr) string {
	switch {
	case addr == s.Gateway:
		return "the gateway"
	case addr == s.Range.Addr():
		return "the network address of " + s.Range.String()
	case addr == netipx.PrefixLastIP(s.Range):
		return "the last address of " + s.Range.String()
	}
	return "reserved"
}

// automatic returns the addresses for instances without static_ips, in
// ascending order.
func (s *Subnet) automatic() []netipx.IPRange {
	var b netipx.IPSetBuilder
	b.AddPrefix(s.Range)
	b.RemoveSet(s.restricted())
	b.RemoveSet(setOf(s.Static))
	set, _ := b.IPSet()
	return set.Ranges()
}

// canHold reports whether an instance may have the block: it lies in the range
// and none of its addresses is restricted.
func (s *Subnet) canHold(block netip.Prefix) bool {
	return s.Range.IsValid() && block.Bits() >= s.Range.Bits() && s.Range.Contains(block.Addr()) &&
		!s.restricted().OverlapsPrefix(block)
}

// lists reports whether the list static contains the block.
func (s *Subnet) lists(block netip.Prefix) bool {
	return setOf(s.Static).ContainsPrefix(block)
}

// holding returns the first subnet whose range has the address.
func (n *Network) holding(addr netip.Addr) (*Subnet, bool) {
	for i := range n.Subnets {
		if s := &n.Subnets[i]; s.Range.IsValid() && s.Range.Contains(addr) {
			return s, true
		}
	}
	return nil, false
}

// zones returns the zones of the network's subnets, without duplicates.
func (n *Network) zones() []string {
	var all []string
	for _, s := range n.Subnets {
		for _, zone := range s.Zones {
			if !slices.Contains(all, zone) {
				all = append(all, zone)
			}
		}
	}
	return all
}

// ranges returns the ranges of the subnets as text for messages.
func (n *Network) ranges() string { return n.rangesOf("") }

// rangesOf returns the ranges of the subnets of a zone, or the lists of a vip network
// for it.
func (n *Network) rangesOf(zone string) string {
	var all []string
	for i := range n.Subnets {
		s := &n.Subnets[i]
		switch {
		case !s.ofZone(zone):
		case s.Range.IsValid():
			all = append(all, s.Range.String())
		default:
			for _, r := range s.Static {
				all = append(all, show(r))
			}
		}
	}
	if len(all) > 10 {
		all = append(all[:10], "…")
	}
	return strings.Join(all, ", ")
}
