package addressestest

import (
	"fmt"
	"net/netip"
	"testing"

	"bootstrap/addresses"
	"bootstrap/network"
)

// Scale measures a deploy that needs one address: in a /16 that has 60,000
// reservations, in an IPv6 /32 with as many, and where the only free address is
// the last one. open returns a ledger with the reservations.
func Scale(b *testing.B, open func(b *testing.B, held []network.Reservation) *addresses.Ledger) {
	const held = 60_000
	for name, c := range map[string]struct {
		subnet network.Subnet
		held   int
	}{
		"IPv4 16":      {network.Subnet{Range: netip.MustParsePrefix("10.0.0.0/16"), Gateway: netip.MustParseAddr("10.0.0.1"), Prefix: 32}, held},
		"IPv4 16 full": {network.Subnet{Range: netip.MustParsePrefix("10.0.0.0/16"), Gateway: netip.MustParseAddr("10.0.0.1"), Prefix: 32}, 1<<16 - 4},
		"IPv6 32":      {network.Subnet{Range: netip.MustParsePrefix("2001:db8::/32"), Gateway: netip.MustParseAddr("2001:db8::1"), Prefix: 128}, held},
		"IPv6 blocks":  {network.Subnet{Range: netip.MustParsePrefix("2001:db8::/32"), Gateway: netip.MustParseAddr("2001:db8::1"), Prefix: 64}, held},
	} {
		b.Run(name, func(b *testing.B) {
			networks := []network.Network{{Name: "a", Type: network.Manual, Subnets: []network.Subnet{c.subnet}}}
			reservations := many(c.subnet, c.held)
			ledger := open(b, reservations)
			first := reservations[len(reservations)/2]
			for b.Loop() {
				// Only one address is free, in the middle.
				if _, err := ledger.Release(b.Context(), first); err != nil {
					b.Fatal(err)
				}
				outcomes, err := ledger.Reserve(b.Context(), "run", networks, []network.Instance{{Owner: first.Owner, Wishes: []network.Wish{{Network: "a"}}}})
				if err != nil {
					b.Fatal(err)
				}
				if got := outcomes[0].Changes[0].Reservation.Block; got != first.Block {
					b.Fatalf("got %s, want %s", got, first.Block)
				}
			}
		})
	}
}

// many returns as many reservations of a subnet without a gap, in the order in which
// instances get them.
func many(s network.Subnet, n int) []network.Reservation {
	all := make([]network.Reservation, n)
	addr := s.Gateway.Next()
	if s.Prefix < addr.BitLen() {
		addr = after(netip.PrefixFrom(s.Gateway, s.Prefix).Masked())
	}
	for i := range all {
		block := netip.PrefixFrom(addr, s.Prefix)
		all[i] = network.Reservation{Block: block, Owner: owner(fmt.Sprintf("d%d", i), "g/0"), Network: "a", Kind: network.Automatic, VM: fmt.Sprintf("vm-%d", i)}
		addr = after(block)
	}
	return all
}

// after returns the address after the block.
func after(block netip.Prefix) netip.Addr {
	bytes := block.Addr().AsSlice()
	for i := block.Bits() - 1; i >= 0; i-- {
		bytes[i/8] ^= 0x80 >> (i % 8)
		if bytes[i/8]&(0x80>>(i%8)) != 0 {
			break
		}
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}
