package network

import (
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
)

// place reads networks and a group, and places its instances.
func place(t *testing.T, networks, group string, existing ...Member) ([]Member, error) {
	t.Helper()
	parsed, problems := Parse(document(t, networks), rules())
	g, more := ParseGroup("g", document(t, group).(map[string]any), parsed, rules())
	if problems = append(problems, more...); len(problems) > 0 {
		t.Fatalf("%+v", problems)
	}
	return Place(parsed, g, existing)
}

// zonesOf returns the zones of the members.
func zonesOf(members []Member) []string {
	var zones []string
	for _, m := range members {
		zones = append(zones, m.Zone)
	}
	return zones
}

// holds returns an existing instance with the addresses.
func holds(instance, zone string, addrs ...string) Member {
	m := Member{Instance: instance, Zone: zone}
	for _, text := range addrs {
		addr := netip.MustParseAddr(text)
		m.Held = append(m.Held, Reservation{Block: netip.PrefixFrom(addr, addr.BitLen())})
	}
	return m
}

const (
	zoned = `[{"name": "a", "subnets": [
		{"range": "192.168.1.0/24", "gateway": "192.168.1.1", "az": "z1", "static": ["192.168.1.10-192.168.1.20"]},
		{"range": "192.168.2.0/24", "gateway": "192.168.2.1", "az": "z2", "static": ["192.168.2.10-192.168.2.20"]}]},
		{"name": "b", "subnets": [
		{"range": "10.1.0.0/24", "gateway": "10.1.0.1", "az": "z1", "static": ["10.1.0.10-10.1.0.20"]},
		{"range": "10.2.0.0/24", "gateway": "10.2.0.1", "az": "z2", "static": ["10.2.0.10-10.2.0.20"]}]},
		{"name": "both", "subnets": [
		{"range": "10.3.0.0/24", "gateway": "10.3.0.1", "azs": ["z1", "z2"], "static": ["10.3.0.10-10.3.0.20"]}]}]`
	bothZones = `"azs": ["z1", "z2"], `
)

func TestPlace(t *testing.T) {
	for name, c := range map[string]struct {
		networks, group string
		existing        []Member
		want            []string // the expected zones
		refused         string
	}{
		"place-two-zones": {group: `"instances": 3, "networks": [{"name": "a", "static_ips": ["192.168.1.10", "192.168.1.11", "192.168.2.10"]}]`,
			want: []string{"z1", "z1", "z2"}},
		"place-zones-of-networks-do-not-match": {group: `"instances": 2, "networks": [{"name": "a", "static_ips": ["192.168.1.10", "192.168.2.10"], "default": ["dns", "gateway"]},
			{"name": "b", "static_ips": ["10.1.0.10", "10.1.0.11"]}]`, refused: StaticIPMismatch},
		"place-address-moved-to-another-zone": {networks: `[{"name": "a", "subnets": [{"range": "192.168.2.0/24", "gateway": "192.168.2.1", "az": "z1", "static": ["192.168.2.10"]}]}]`,
			group: `"instances": 1, "networks": [{"name": "a", "static_ips": ["192.168.2.10"]}], "azs": ["z1"]`, existing: []Member{holds("g/0", "z2", "192.168.2.10")}, refused: ReservationError},
		"place-more-instances-balance-zones": {group: `"instances": 4, "networks": [{"name": "a"}]`,
			existing: []Member{holds("g/0", "z1", "192.168.1.2"), holds("g/1", "z1", "192.168.1.3")}, want: []string{"z1", "z1", "z2", "z2"}},
		"existing ones keep their address in any order": {group: `"instances": 2, "networks": [{"name": "a", "static_ips": ["192.168.2.10", "192.168.1.10"]}]`,
			existing: []Member{holds("g/0", "z1", "192.168.1.10"), holds("g/1", "z2", "192.168.2.10")}, want: []string{"z1", "z2"}},
		"an existing one gets an address of its zone": {group: `"instances": 2, "networks": [{"name": "a", "static_ips": ["192.168.2.10", "192.168.1.10"]}]`,
			existing: []Member{holds("g/0", "z1", "192.168.1.99")}, want: []string{"z1", "z2"}},
		"an existing one without place goes": {group: `"instances": 1, "networks": [{"name": "a", "static_ips": ["192.168.2.10"]}]`,
			existing: []Member{holds("g/0", "z1", "192.168.1.10")}, want: []string{"z2"}},
		"one too many goes": {group: `"instances": 1, "networks": [{"name": "a", "static_ips": ["192.168.1.10"]}]`,
			existing: []Member{holds("g/0", "z1", "192.168.1.10"), holds("g/1", "z1", "192.168.1.11")}, want: []string{"z1"}},
		"addresses of both zones are spread": {group: `"instances": 4, "networks": [{"name": "both", "static_ips": ["10.3.0.10-10.3.0.13"]}]`, want: []string{"z1", "z1", "z2", "z2"}},
		"a new one gets another address": {group: `"instances": 2, "networks": [{"name": "a", "static_ips": ["192.168.1.10", "192.168.1.11"]}]`,
			existing: []Member{holds("g/0", "z1", "192.168.1.10")}, want: []string{"z1", "z1"}},
		"subnets of both zones follow the other network": {group: `"instances": 3, "networks": [{"name": "both", "static_ips": ["10.3.0.10-10.3.0.12"], "default": ["dns", "gateway"]},
			{"name": "b", "static_ips": ["10.2.0.10", "10.2.0.11", "10.1.0.10"]}]`, want: []string{"z1", "z2", "z2"}},
	} {
		t.Run(name, func(t *testing.T) {
			networks, group := c.networks, "{"+bothZones+c.group+"}"
			if networks == "" {
				networks = zoned
			} else {
				group = "{" + c.group + "}"
			}
			members, err := place(t, networks, group, c.existing...)
			var refused *Refused
			if errors.As(err, &refused); refused != nil && refused.Kind != c.refused || refused == nil && c.refused != "" {
				t.Fatalf("%v, want %q", err, c.refused)
			}
			got := zonesOf(members)
			if c.refused == "" && !slices.Equal(got, c.want) && !slices.Equal(slices.Sorted(slices.Values(got)), c.want) {
				t.Errorf("%v, want %v", got, c.want)
			}
			taken := map[netip.Addr]bool{}
			for _, m := range members {
				for network, addr := range m.Static {
					if taken[addr] {
						t.Errorf("%s of %s is given twice", addr, network)
					}
					taken[addr] = true
					for _, e := range c.existing {
						had := slices.ContainsFunc(e.Held, func(r Reservation) bool { return r.Block.Addr() == addr })
						if had && e.Instance != m.Instance {
							t.Errorf("%s moved from %s to %q", addr, e.Instance, m.Instance)
						}
					}
				}
			}
		})
	}
}

// Many addresses of subnets in both zones are spread quickly, or given up quickly.
func TestPlaceEndsSoon(t *testing.T) {
	_, err := place(t, zoned, `{"azs": ["z1", "z2"], "instances": 11, "networks": [{"name": "both", "static_ips": ["10.3.0.10-10.3.0.20"], "default": ["dns", "gateway"]},
		{"name": "a", "static_ips": ["192.168.1.10-192.168.1.20"]}]}`)
	if err != nil {
		t.Fatal(err)
	}
}

func TestUsage(t *testing.T) {
	networks := some(t)
	reserved := []Reservation{
		{Block: netip.MustParsePrefix("192.168.1.2/32")}, {Block: netip.MustParsePrefix("192.168.1.20/32")},
		{Block: netip.MustParsePrefix("10.10.0.17/32")}, {Block: netip.MustParsePrefix("1.1.1.1/32")},
		{Scope: "lab", Block: netip.MustParsePrefix("192.168.1.3/32")},
	}
	for name, want := range map[string]Usage{
		"a":      {Total: 240, Free: 239, Static: 12, StaticFree: 11},
		"b":      {Total: 253, Free: 253},
		"blocks": {Total: 10, Free: 9, Static: 4, StaticFree: 4},
		"six":    {Total: 1<<64 - 3, Free: 1<<64 - 3},
		"listed": {Total: 1},
	} {
		n, _ := Find(networks, name)
		want.Network, want.Range, want.Zones = name, n.Subnets[0].Range, n.Subnets[0].Zones
		got := n.Usage(reserved)
		if len(got) != 1 || got[0].Total != want.Total || got[0].Free != want.Free || got[0].Static != want.Static || got[0].StaticFree != want.StaticFree || got[0].Range != want.Range {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	needs := Needs(networks, []Instance{
		{Swap: true, Wishes: []Wish{{Network: "a"}, {Network: "cloud"}}},
		{Swap: true, Wishes: []Wish{{Network: "b", Static: []netip.Addr{{}}}, {Network: "a"}}},
	})
	if want := []Need{{Network: "a", Automatic: 3, Swap: 1}, {Network: "b", Static: 1}}; !slices.Equal(needs, want) {
		t.Errorf("%+v, want %+v", needs, want)
	}
}

// dual contains an IPv4 and an IPv6 network with the same two subnets of the IaaS.
const dual = `[
	{"name": "four", "subnets": [
		{"range": "10.1.0.0/24", "gateway": "10.1.0.1", "az": "z1", "static": ["10.1.0.10-10.1.0.20"], "cloud_properties": {"subnet": "s1"}},
		{"range": "10.2.0.0/24", "gateway": "10.2.0.1", "az": "z1", "static": ["10.2.0.10-10.2.0.20"], "cloud_properties": {"subnet": "s2"}}]},
	{"name": "six", "subnets": [
		{"range": "fd00:1::/64", "gateway": "fd00:1::1", "az": "z1", "static": ["fd00:1::10-fd00:1::20"], "cloud_properties": {"subnet": "s1"}},
		{"range": "fd00:2::/64", "gateway": "fd00:2::1", "az": "z1", "static": ["fd00:2::10-fd00:2::20"], "cloud_properties": {"subnet": "s2"}}]}]`

// The static addresses of networks that share an interface are in the same subnet of
// the IaaS, as with the Director.
func TestPlaceNICGroup(t *testing.T) {
	group := func(nics [2]string, six string) string {
		return `{"azs": ["z1"], "instances": 2, "networks": [
			{"name": "four", "static_ips": ["10.2.0.10", "10.1.0.10"], "default": ["dns", "gateway"]` + nics[0] + `},
			{"name": "six", "static_ips": [` + six + `]` + nics[1] + `}]}`
	}
	same, others := [2]string{`, "nic_group": 1`, `, "nic_group": "1"`}, [2]string{`, "nic_group": 1`, `, "nic_group": 2`}
	crossed := `"fd00:1::10", "fd00:2::10"`
	for name, c := range map[string]struct {
		group    string
		existing []Member
		want     []string // the addresses of each instance
		refused  string
	}{
		"one interface":      {group: group(same, crossed), want: []string{"10.2.0.10 fd00:2::10", "10.1.0.10 fd00:1::10"}},
		"two interfaces":     {group: group(others, crossed), want: []string{"10.2.0.10 fd00:1::10", "10.1.0.10 fd00:2::10"}},
		"no group":           {group: group([2]string{}, crossed), want: []string{"10.2.0.10 fd00:1::10", "10.1.0.10 fd00:2::10"}},
		"no address left":    {group: group(same, `"fd00:2::10", "fd00:2::11"`), refused: "no address left in a subnet with the cloud_properties of the other networks of nic_group 1"},
		"an existing one":    {group: group(same, crossed), existing: []Member{holds("g/0", "z1", "10.1.0.10")}, want: []string{"10.1.0.10 fd00:1::10", "10.2.0.10 fd00:2::10"}},
		"an existing IPv6":   {group: group(same, crossed), existing: []Member{holds("g/0", "z1", "fd00:1::10")}, want: []string{"10.1.0.10 fd00:1::10", "10.2.0.10 fd00:2::10"}},
		"existing addresses": {group: group(same, crossed), existing: []Member{holds("g/0", "z1", "10.1.0.10", "fd00:1::10")}, want: []string{"10.1.0.10 fd00:1::10", "10.2.0.10 fd00:2::10"}},
	} {
		t.Run(name, func(t *testing.T) {
			members, err := place(t, dual, c.group, c.existing...)
			if c.refused != "" {
				if refused, ok := errors.AsType[*Refused](err); !ok || refused.Kind != ReservationError || !strings.Contains(err.Error(), c.refused) {
					t.Fatalf("%v, want %q", err, c.refused)
				}
				return
			}
			var got []string
			for _, m := range members {
				got = append(got, m.Static["four"].String()+" "+m.Static["six"].String())
			}
			if err != nil || !slices.Equal(got, c.want) {
				t.Errorf("%q %v, want %q", got, err, c.want)
			}
		})
	}
}
