package network

import (
	"fmt"
	"net/netip"
	"testing"
)

// The time of these benchmarks may depend on the lengths of lists, but not on the sizes
// of ranges.

func BenchmarkParse(b *testing.B) {
	for _, length := range []int{1, 10_000} {
		b.Run(fmt.Sprint(length, " static"), func(b *testing.B) {
			static := make([]any, length)
			for i := range static {
				static[i] = fmt.Sprintf("2001:db8::1:%x", 2*i)
			}
			list := []any{map[string]any{"name": "a", "subnets": []any{map[string]any{
				"range": "2001:db8::/32", "gateway": "2001:db8::1", "reserved": "2001:db8:1::/48", "static": static}}}}
			for b.Loop() {
				if _, problems := Parse(list, Rules{}); len(problems) > 0 {
					b.Fatal(problems)
				}
			}
		})
	}
}

func BenchmarkUsage(b *testing.B) {
	n := Network{Name: "a", Type: Manual, Subnets: []Subnet{{Range: netip.MustParsePrefix("10.0.0.0/16"), Gateway: netip.MustParseAddr("10.0.0.1"), Prefix: 32}}}
	reservations := make([]Reservation, 60_000)
	addr := netip.MustParseAddr("10.0.0.2")
	for i := range reservations {
		reservations[i].Block = netip.PrefixFrom(addr, 32)
		addr = addr.Next()
	}
	for b.Loop() {
		if u := n.Usage(reservations); u[0].Free != 1<<16-3-60_000 {
			b.Fatal(u)
		}
	}
}
