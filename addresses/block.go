package addresses

import (
	"net/netip"

	"go4.org/netipx"
)

// lastOf returns the last address of the block.
func lastOf(block netip.Prefix) netip.Addr { return netipx.PrefixLastIP(block) }

// family returns 4 or 6.
func family(addr netip.Addr) int {
	if addr.Is4() {
		return 4
	}
	return 6
}

// firstBlock returns the lowest block of the length that begins at or after the address
// and ends at or before the limit.
func firstBlock(from, limit netip.Addr, bits int) (netip.Prefix, bool) {
	block := netip.PrefixFrom(from, bits).Masked()
	if block.Addr() != from {
		next := lastOf(block).Next()
		if !next.IsValid() {
			return block, false
		}
		block = netip.PrefixFrom(next, bits)
	}
	return block, block.IsValid() && lastOf(block).Compare(limit) <= 0
}
