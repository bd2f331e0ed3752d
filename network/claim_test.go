package network

import (
	"net/netip"
	"testing"
)

// An address of a VM is claimed on the network of the given name if that contains the
// address, else on a network whose range contains it. Its kind is the one that a normal
// reservation has there.
func TestClaim(t *testing.T) {
	networks, problems := Parse([]any{
		map[string]any{"name": "a", "subnets": []any{map[string]any{"range": "10.0.0.0/24", "gateway": "10.0.0.1", "static": []any{"10.0.0.9"}}}},
		map[string]any{"name": "b", "subnets": []any{map[string]any{"range": "10.0.0.0/16", "gateway": "10.0.0.1", "prefix": 28}}},
		map[string]any{"name": "v", "type": "vip", "subnets": []any{map[string]any{"static": []any{"1.1.1.1"}}}},
		map[string]any{"name": "d", "type": "dynamic"},
	}, Rules{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, c := range []struct {
		name, addr, network, block string
		kind                       Kind
	}{
		{"a", "10.0.0.5", "a", "10.0.0.5/32", Automatic},
		{"a", "10.0.0.9", "a", "10.0.0.9/32", Static},
		{"b", "10.0.0.18", "b", "10.0.0.16/28", Automatic},
		{"was a", "10.0.0.5", "a", "10.0.0.5/32", Automatic},
		{"a", "10.0.7.5", "b", "10.0.7.0/28", Automatic},
		{"", "1.1.1.1", "v", "1.1.1.1/32", Floating},
		{"d", "9.9.9.9", "", "", ""},
	} {
		addr := netip.MustParseAddr(c.addr)
		n, ok := Holding(networks, c.name, addr)
		if ok != (c.network != "") {
			t.Errorf("%s on %q: found %v", c.addr, c.name, ok)
		}
		if !ok {
			continue
		}
		if block, kind := n.Claim(addr); n.Name != c.network || block.String() != c.block || kind != c.kind {
			t.Errorf("%s on %q: %s %s %s", c.addr, c.name, n.Name, block, kind)
		}
	}
}
