package manifest

import (
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"go4.org/netipx"
)

// The types of a network.
const (
	typeManual  = "manual"
	typeDynamic = "dynamic"
	typeVIP     = "vip"
)

// parseAddress reads an IP address without a zone.
func parseAddress(s string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(s)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// parsePrefix reads a range in CIDR form, and clears the bits of the host.
func parsePrefix(s string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(s)
	if err != nil || prefix.Addr().Is4In6() {
		return netip.Prefix{}, false
	}
	return prefix.Masked(), true
}

// parseRange reads "10.0.0.2", "10.0.0.2-10.0.0.9" or "10.0.0.0/30".
func parseRange(s string) (netipx.IPRange, bool) {
	if prefix, ok := parsePrefix(strings.TrimSpace(s)); ok {
		return netipx.RangeOfPrefix(prefix), true
	}
	from, to, found := strings.Cut(s, "-")
	first, ok := parseAddress(strings.TrimSpace(from))
	if !ok {
		return netipx.IPRange{}, false
	}
	last := first
	if found {
		if last, ok = parseAddress(strings.TrimSpace(to)); !ok {
			return netipx.IPRange{}, false
		}
	}
	r := netipx.IPRangeFrom(first, last)
	return r, r.IsValid()
}

// netmask returns the mask of the prefix: dotted for IPv4, eight groups of
// four hex digits for IPv6.
func netmask(prefix netip.Prefix) string {
	mask := net.CIDRMask(prefix.Bits(), prefix.Addr().BitLen())
	if prefix.Addr().Is4() {
		return net.IP(mask).String()
	}
	groups := make([]string, 8)
	for i := range groups {
		groups[i] = fmt.Sprintf("%04x", binary.BigEndian.Uint16(mask[2*i:]))
	}
	return strings.Join(groups, ":")
}

// refuse returns why the VM cannot have the address in this subnet, or "".
func (s *Subnet) refuse(addr netip.Addr) string {
	gateway, _ := parseAddress(s.Gateway)
	switch {
	case !s.Range.IsValid():
		return ""
	case !s.Range.Contains(addr):
		return fmt.Sprintf("%s is not in the range %s of the network", addr, s.Range)
	case addr == gateway:
		return fmt.Sprintf("%s is the gateway of the network", addr)
	case s.Range.IsSingleIP():
		return ""
	case addr == s.Range.Addr():
		return fmt.Sprintf("%s is the network address of %s", addr, s.Range)
	case addr.Is4() && addr == netipx.PrefixLastIP(s.Range):
		return fmt.Sprintf("%s is the broadcast address of %s", addr, s.Range)
	}
	return ""
}

// doubt returns how the address conflicts with the subnet's lists static and reserved, or
// "".
func (s *Subnet) doubt(addr netip.Addr) string {
	switch {
	case s.reserved.Contains(addr):
		return fmt.Sprintf("%s is in the reserved addresses of the network", addr)
	case len(s.static.Ranges()) > 0 && !s.static.Contains(addr):
		return fmt.Sprintf("%s is not in the static addresses of the network", addr)
	}
	return ""
}

// refuseGateway returns why the address cannot be the gateway of the range, or
// "".
func refuseGateway(addr netip.Addr, prefix netip.Prefix) string {
	switch {
	case !prefix.Contains(addr):
		return fmt.Sprintf("the gateway %s is not in the range %s", addr, prefix)
	case addr == prefix.Addr():
		return fmt.Sprintf("the gateway cannot be the network address %s", addr)
	case addr == netipx.PrefixLastIP(prefix):
		return fmt.Sprintf("the gateway cannot be the broadcast address %s", addr)
	}
	return ""
}
