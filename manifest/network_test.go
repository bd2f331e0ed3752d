package manifest

import (
	"net/netip"
	"testing"
)

func TestNetmask(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ prefix, mask string }{
		{"10.245.0.0/16", "255.255.0.0"},
		{"10.0.0.0/24", "255.255.255.0"},
		{"10.0.0.77/26", "255.255.255.192"},
		{"10.0.0.4/31", "255.255.255.254"},
		{"10.0.0.4/32", "255.255.255.255"},
		{"0.0.0.0/0", "0.0.0.0"},
		{"172.16.0.0/12", "255.240.0.0"},
		{"fd00::/64", "ffff:ffff:ffff:ffff:0000:0000:0000:0000"},
		{"2001:db8::/45", "ffff:ffff:fff8:0000:0000:0000:0000:0000"},
		{"::/0", "0000:0000:0000:0000:0000:0000:0000:0000"},
		{"fd00::1/128", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff"},
	} {
		prefix, ok := parsePrefix(tt.prefix)
		if !ok {
			t.Fatalf("%s is refused", tt.prefix)
		}
		if got := netmask(prefix); got != tt.mask {
			t.Errorf("netmask of %s: got %s, want %s", tt.prefix, got, tt.mask)
		}
	}
}

func TestAddressesAndRangesThatAreNone(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "10.0.0", "10.0.0.256", "010.0.0.1", "fe80::1%eth0", "host", "10.0.0.1/24", " 10.0.0.1"} {
		if addr, ok := parseAddress(s); ok {
			t.Errorf("address %q: got %s", s, addr)
		}
	}
	for _, s := range []string{"", "10.0.0.0", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.0/", "::ffff:10.0.0.0/120", "x/24", "10.0.0.0/024"} {
		if prefix, ok := parsePrefix(s); ok {
			t.Errorf("prefix %q: got %s", s, prefix)
		}
	}
	for _, s := range []string{"", "-", "10.0.0.9-10.0.0.2", "10.0.0.2-", "a-b", "10.0.0.2 to 10.0.0.3", "10.0.0.2-fd00::3"} {
		if r, ok := parseRange(s); ok {
			t.Errorf("range %q: got %v", s, r)
		}
	}
}

func TestRanges(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text, in, out string
	}{
		{"10.0.0.5", "10.0.0.5", "10.0.0.6"},
		{"10.0.0.5-10.0.0.7", "10.0.0.7", "10.0.0.8"},
		{"10.0.0.5 - 10.0.0.7", "10.0.0.5", "10.0.0.4"},
		{"10.0.0.4/30", "10.0.0.7", "10.0.0.8"},
		{"fd00::1-fd00::ff", "fd00::80", "fd00::100"},
		{"10.0.0.0-10.0.0.255", "10.0.0.9", "fd00::9"},
	} {
		r, ok := parseRange(tt.text)
		if !ok || !r.Contains(netip.MustParseAddr(tt.in)) || r.Contains(netip.MustParseAddr(tt.out)) {
			t.Errorf("%q must hold %s and not %s: %v", tt.text, tt.in, tt.out, r)
		}
	}
}

func TestRefuse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ subnet, gateway, addr, want string }{
		{"10.0.0.0/24", "10.0.0.1", "10.0.0.9", ""},
		{"10.0.0.0/24", "10.0.0.1", "10.0.0.1", "10.0.0.1 is the gateway of the network"},
		{"10.0.0.0/24", "10.0.0.1", "10.0.0.0", "10.0.0.0 is the network address of 10.0.0.0/24"},
		{"10.0.0.0/24", "10.0.0.1", "10.0.0.255", "10.0.0.255 is the broadcast address of 10.0.0.0/24"},
		{"10.0.0.0/24", "10.0.0.1", "10.0.1.9", "10.0.1.9 is not in the range 10.0.0.0/24 of the network"},
		{"10.0.0.0/24", "10.0.0.1", "fd00::1", "fd00::1 is not in the range 10.0.0.0/24 of the network"},
		{"fd00::/64", "fd00::1", "fd00::ffff:ffff:ffff:ffff", ""},
		{"fd00::/64", "fd00::1", "fd00::", "fd00:: is the network address of fd00::/64"},
		{"fd00::/64", "fd00:0:0::1", "fd00::1", "fd00::1 is the gateway of the network"},
		{"10.0.0.7/32", "", "10.0.0.7", ""},
	} {
		subnet := &Subnet{Range: netip.MustParsePrefix(tt.subnet), Gateway: tt.gateway}
		if got := subnet.refuse(netip.MustParseAddr(tt.addr)); got != tt.want {
			t.Errorf("%s in %s: got %q, want %q", tt.addr, tt.subnet, got, tt.want)
		}
	}
}
