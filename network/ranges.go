package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"go4.org/netipx"
)

// parseAddress reads a single address, which may be written as 10.0.0.1/32.
func parseAddress(text string) (netip.Addr, bool) {
	text = strings.TrimSpace(text)
	if address, length, found := strings.Cut(text, "/"); found {
		addr, ok := parseAddress(address)
		return addr, ok && length == strconv.Itoa(addr.BitLen())
	}
	addr, err := netip.ParseAddr(text)
	if err != nil || addr.Zone() != "" {
		return netip.Addr{}, false
	}
	return addr.Unmap(), true
}

// parseBlock reads an address, or a block such as 10.0.0.0/24 or
// 10.0.0.0/255.255.255.0. Like the Director, it clears the bits after the prefix.
func parseBlock(text string) (netip.Prefix, bool) {
	address, length, found := strings.Cut(strings.TrimSpace(text), "/")
	addr, ok := parseAddress(address)
	if !ok || !found {
		return netip.PrefixFrom(addr, addr.BitLen()), ok
	}
	if mask, err := netip.ParseAddr(length); err == nil && mask.Is4() && addr.Is4() {
		bits := maskBits(mask)
		return netip.PrefixFrom(addr, bits).Masked(), bits >= 0
	}
	// If an IPv4 address is written in IPv6 form, the length is not counted from the
	// first bit of the IPv4 address.
	if prefix, err := netip.ParsePrefix(address + "/" + length); err == nil && !prefix.Addr().Is4In6() {
		return prefix.Masked(), true
	}
	return netip.Prefix{}, false
}

// maskBits returns the length of a mask such as 255.255.255.0, or -1.
func maskBits(mask netip.Addr) int {
	for bits := range mask.BitLen() + 1 {
		if netmaskAddr(bits, mask.BitLen()) == mask {
			return bits
		}
	}
	return -1
}

// netmaskAddr returns the address whose first length bits are 1.
func netmaskAddr(bits, length int) netip.Addr {
	ones := slices.Repeat([]byte{0xff}, length/8)
	addr, _ := netip.AddrFromSlice(ones)
	return netip.PrefixFrom(addr, bits).Masked().Addr()
}

// parseRange reads an address, a block, or "10.0.0.2-10.0.0.9"; wrong describes the
// mistake.
func parseRange(text string) (r netipx.IPRange, wrong string) {
	from, to, found := strings.Cut(text, "-")
	if !found {
		block, ok := parseBlock(text)
		if !ok {
			return r, fmt.Sprintf("%q is not an address, a range such as 10.0.0.2-10.0.0.9 or a block such as 10.0.0.0/28", text)
		}
		return netipx.RangeOfPrefix(block), ""
	}
	first, ok := parseAddress(from)
	last, ok2 := parseAddress(to)
	switch {
	case !ok || !ok2:
		return r, fmt.Sprintf("%q is not a range: it needs two addresses, such as 10.0.0.2-10.0.0.9", text)
	case first.Is4() != last.Is4():
		return r, fmt.Sprintf("the range %q has an IPv4 and an IPv6 address", text)
	case last.Less(first):
		return r, fmt.Sprintf("the range %q ends before it begins; did you mean %s-%s?", text, last, first)
	}
	return netipx.IPRangeFrom(first, last), ""
}

// setOf returns the addresses of all the ranges.
func setOf(ranges ...[]netipx.IPRange) *netipx.IPSet {
	var b netipx.IPSetBuilder
	for _, list := range ranges {
		for _, r := range list {
			b.AddRange(r)
		}
	}
	set, _ := b.IPSet() // fails only for invalid ranges, and the list contains none
	return set
}

// single returns the range of one address.
func single(addr netip.Addr) netipx.IPRange { return netipx.IPRangeFrom(addr, addr) }

// blockAt returns the block of the length that contains the address.
func blockAt(addr netip.Addr, bits int) netip.Prefix {
	return netip.PrefixFrom(addr, bits).Masked()
}

// isSingle reports whether a block of this length is one address.
func isSingle(addr netip.Addr, bits int) bool { return bits == addr.BitLen() }

// show returns the range as people write it: an address, a block or first-last.
func show(r netipx.IPRange) string {
	if r.From() == r.To() {
		return r.From().String()
	}
	if block, ok := r.Prefix(); ok {
		return block.String()
	}
	return r.String()
}

// showBlock returns the block as text; for a block of one address, only the address.
func showBlock(block netip.Prefix) string {
	if block.IsSingleIP() {
		return block.Addr().String()
	}
	return block.String()
}
