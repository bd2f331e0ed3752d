package network

import (
	"encoding/json"
	"net/netip"
	"reflect"
	"slices"
	"testing"
)

// some returns networks for groups.
func some(t testing.TB) []Network {
	t.Helper()
	networks, problems := Parse(document(t, `[
		{"name": "a", "subnets": [{"range": "192.168.1.0/24", "gateway": "192.168.1.1", "dns": ["8.8.8.8"], "cloud_properties": {"net": "x"},
			"reserved": ["192.168.1.11"], "static": ["192.168.1.5", "192.168.1.20-192.168.1.30"]}]},
		{"name": "b", "subnets": [{"range": "10.0.0.0/24", "gateway": "10.0.0.1"}]},
		{"name": "zoned", "subnets": [
			{"range": "10.1.0.0/24", "gateway": "10.1.0.1", "az": "z1", "static": ["10.1.0.5"]},
			{"range": "10.2.0.0/24", "gateway": "10.2.0.1", "az": "z2", "static": ["10.2.0.5"]}]},
		{"name": "six", "subnets": [{"range": "2001:db8::/64", "gateway": "2001:db8::1"}]},
		{"name": "blocks", "subnets": [{"range": "10.10.0.0/24", "gateway": "10.10.0.1", "prefix": 28, "static": ["10.10.0.64/26"]}]},
		{"name": "cloud", "type": "dynamic", "subnets": [{"az": "z1", "cloud_properties": {"of": "z1"}}, {"az": "z2", "dns": ["9.9.9.9"], "cloud_properties": {"of": "z2"}}]},
		{"name": "vip", "type": "vip", "cloud_properties": {"v": 1}},
		{"name": "listed", "type": "vip", "subnets": [{"static": ["1.1.1.1"]}]}]`), rules())
	if len(problems) > 0 {
		t.Fatal(paths(problems))
	}
	return networks
}

// Each refusal of a group has the Director's name of the error and the path of the value.
func TestParseGroupRefuses(t *testing.T) {
	const both = `{"name": "a", "default": ["dns", "gateway"]}, `
	for name, c := range map[string]struct{ group, want string }{
		"no networks":    {`{}`, "g.networks JobMissingNetwork"},
		"empty networks": {`{"networks": []}`, "g.networks JobMissingNetwork"},
		"no name":        {`{"networks": [{}]}`, "g.networks[0].name ValidationMissingField"},
		"unknown":        {`{"networks": [{"name": "A"}]}`, "g.networks[0].name JobUnknownNetwork"},
		"a network twice": {`{"networks": [` + both + `{"name": "a"}]}`,
			"g.networks[1].name NetworkReservationAlreadyExists"},
		"static on dynamic":     {`{"azs": ["z1"], "networks": [{"name": "cloud", "static_ips": null}]}`, "g.networks[0].static_ips JobStaticIPNotSupportedOnDynamicNetwork"},
		"static twice":          {`{"instances": 2, "networks": [{"name": "a", "static_ips": ["192.168.1.20-192.168.1.21", "192.168.1.21"]}]}`, "g.networks[0].static_ips[1] JobInvalidStaticIPs"},
		"static in one block":   {`{"instances": 2, "networks": [{"name": "blocks", "static_ips": ["10.10.0.64", "10.10.0.65"]}]}`, "g.networks[0].static_ips[1] JobInvalidStaticIPs"},
		"too many static":       {`{"networks": [{"name": "a", "static_ips": ["192.168.1.20-192.168.1.21"]}]}`, "g.networks[0].static_ips InstanceGroupNetworkInstanceIpMismatch"},
		"too few static":        {`{"networks": [{"name": "a", "static_ips": []}]}`, "g.networks[0].static_ips InstanceGroupNetworkInstanceIpMismatch"},
		"a huge range":          {`{"networks": [{"name": "six", "static_ips": ["2001:db8::/64"]}]}`, "g.networks[0].static_ips InstanceGroupNetworkInstanceIpMismatch"},
		"static outside":        {`{"networks": [{"name": "a", "static_ips": ["192.168.2.6"]}]}`, "g.networks[0].static_ips[0] InstanceGroupNetworkInstanceIpMismatch"},
		"static reserved":       {`{"networks": [{"name": "a", "static_ips": "192.168.1.11"}]}`, "g.networks[0].static_ips InstanceGroupNetworkInstanceIpMismatch"},
		"static not listed":     {`{"networks": [{"name": "a", "static_ips": ["192.168.1.7"]}]}`, "g.networks[0].static_ips[0] InstanceGroupNetworkInstanceIpMismatch"},
		"static without a list": {`{"networks": [{"name": "b", "static_ips": ["10.0.0.7"]}]}`, "g.networks[0].static_ips[0] InstanceGroupNetworkInstanceIpMismatch"},
		"static reversed":       {`{"networks": [{"name": "a", "static_ips": ["192.168.1.21-192.168.1.20"]}]}`, "g.networks[0].static_ips[0] NetworkInvalidIpRangeFormat"},
		"no default":            {`{"networks": [{"name": "a"}, {"name": "b", "default": ["gateway"]}]}`, "g.networks JobNetworkMissingDefault"},
		"two defaults":          {`{"networks": [` + both + `{"name": "b", "default": ["dns"]}]}`, "g.networks[1].default JobNetworkMultipleDefaults"},
		"two addressable":       {`{"networks": [{"name": "a", "default": ["dns", "gateway", "addressable"]}, {"name": "b", "default": ["addressable"]}]}`, "g.networks[1].default JobNetworkMultipleDefaults"},
		"a default that is none": {`{"networks": [{"name": "a", "default": ["router"]}]}`,
			"g.networks[0].default[0] JobNetworkInvalidDefault"},
		"zones needed":     {`{"networks": [{"name": "zoned"}]}`, "g.azs JobNetworkMissingRequiredAvailabilityZone"},
		"zones of nothing": {`{"azs": ["z1"], "networks": [{"name": "a"}]}`, "g.azs JobNetworkMissingRequiredAvailabilityZone"},
		"empty zones":      {`{"azs": [], "networks": [{"name": "a"}]}`, "g.azs JobMissingAvailabilityZones"},
		"an unknown zone":  {`{"azs": ["z1", "z9"], "networks": [{"name": "zoned"}]}`, "g.azs[1] JobUnknownAvailabilityZone"},
		"a numeric zone":   {`{"azs": [1], "networks": [{"name": "zoned"}]}`, "g.azs[0] JobInvalidAvailabilityZone"},
		"static of another zone": {`{"azs": ["z1"], "networks": [{"name": "zoned", "static_ips": ["10.2.0.5"]}]}`,
			"g.networks[0].static_ips[0] JobStaticIpsFromInvalidAvailabilityZone"},
		"a vip list in both":       {`{"networks": [` + both + `{"name": "listed", "static_ips": ["1.1.1.1"]}]}`, "g.networks[1].static_ips NetworkReservationVipMisconfigured"},
		"a vip list in none":       {`{"networks": [` + both + `{"name": "vip"}]}`, "g.networks[1].static_ips NetworkReservationVipMisconfigured"},
		"a nic_group that is none": {`{"networks": [{"name": "a", "nic_group": "first"}]}`, "g.networks[0].nic_group NetworkInvalidProperty"},
		"a negative nic_group":     {`{"networks": [{"name": "a", "nic_group": -1}]}`, "g.networks[0].nic_group NetworkInvalidProperty"},
		"only a vip":               {`{"networks": [{"name": "vip", "static_ips": ["69.69.69.69"]}]}`, "g.networks[0] NetworkReservationVipDefaultProvided"},
	} {
		t.Run(name, func(t *testing.T) {
			fields := document(t, c.group).(map[string]any)
			_, problems := ParseGroup("g", fields, some(t), rules())
			if got := paths(problems); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

func TestParseGroup(t *testing.T) {
	g, problems := ParseGroup("g", document(t, `{"name": "web", "instances": 2, "azs": ["z2", "z1"], "networks": [
		{"name": "zoned", "static_ips": ["10.2.0.5", "10.1.0.5"], "default": ["gateway", "dns"], "nic_group": 1}, {"name": "vip", "static_ips": ["69.69.69.69-69.69.69.70"], "nic_group": "01"}]}`).(map[string]any), some(t), rules())
	if len(problems) > 0 {
		t.Fatal(paths(problems))
	}
	if g.Name != "web" || g.Instances != 2 || !slices.Equal(g.Zones, []string{"z2", "z1"}) || len(g.Wishes) != 2 ||
		g.Wishes[0].Static[0] != netip.MustParseAddr("10.2.0.5") || len(g.Wishes[1].Static) != 2 || g.Wishes[0].NICGroup != "1" || g.Wishes[1].NICGroup != "1" {
		t.Errorf("%+v", g)
	}
	only, problems := ParseGroup("g", document(t, `{"networks": [{"name": "a"}]}`).(map[string]any), some(t), rules())
	if len(problems) > 0 || !slices.Equal(only.Wishes[0].Default, []string{"dns", "gateway"}) {
		t.Errorf("%+v %s", only, paths(problems))
	}
}

// create_vm and the apply spec get the settings that the Director sends.
func TestSettings(t *testing.T) {
	networks := some(t)
	for name, c := range map[string]struct {
		network, block, zone string
		uses                 []string
		nicGroup             string
		want                 map[string]any
	}{
		"manual": {"a", "192.168.1.7/32", "", []string{"gateway", "dns"}, "", map[string]any{"type": "manual", "ip": "192.168.1.7", "prefix": "32", "netmask": "255.255.255.0",
			"gateway": "192.168.1.1", "dns": []string{"8.8.8.8"}, "default": []string{"dns", "gateway"}, "cloud_properties": map[string]any{"net": "x"}}},
		"IPv6": {"six", "2001:db8::7/128", "", nil, "1", map[string]any{"type": "manual", "ip": "2001:db8::7", "prefix": "128", "nic_group": "1", "netmask": "ffff:ffff:ffff:ffff:0000:0000:0000:0000",
			"gateway": "2001:db8::1", "cloud_properties": map[string]any{}}},
		"a block": {"blocks", "10.10.0.32/28", "", nil, "", map[string]any{"type": "manual", "ip": "10.10.0.32", "prefix": "28", "netmask": "255.255.255.0",
			"gateway": "10.10.0.1", "cloud_properties": map[string]any{}}},
		"dynamic":            {"cloud", "", "z2", []string{"dns"}, "1", map[string]any{"type": "dynamic", "prefix": "32", "dns": []string{"9.9.9.9"}, "default": []string{"dns"}, "cloud_properties": map[string]any{"of": "z2"}}},
		"dynamic, last seen": {"cloud", "10.7.7.7/32", "z1", nil, "", map[string]any{"type": "dynamic", "prefix": "32", "ip": "10.7.7.7", "cloud_properties": map[string]any{"of": "z1"}}},
		"vip":                {"vip", "69.69.69.69/32", "z1", nil, "1", map[string]any{"type": "vip", "prefix": "32", "nic_group": "1", "ip": "69.69.69.69", "cloud_properties": map[string]any{"v": 1.0}}},
	} {
		t.Run(name, func(t *testing.T) {
			n, _ := Find(networks, c.network)
			var block netip.Prefix
			if c.block != "" {
				block = netip.MustParsePrefix(c.block)
			}
			got, err := n.Settings(Wish{Default: c.uses, NICGroup: c.nicGroup}, block, c.zone)
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("got  %v %v\nwant %v", got, err, c.want)
			}
		})
	}
	n, _ := Find(networks, "a")
	for _, block := range []netip.Prefix{{}, netip.MustParsePrefix("10.9.9.9/32")} {
		if got, err := n.Settings(Wish{}, block, ""); err == nil {
			t.Errorf("%s: %v", block, got)
		}
	}
}

// FuzzParseGroup looks for groups that make ParseGroup panic, hang, or accept
// static addresses that an instance may not have.
func FuzzParseGroup(f *testing.F) {
	for _, group := range []string{
		`{"name": "web", "instances": 2, "azs": ["z1"], "networks": [{"name": "zoned", "static_ips": ["10.1.0.5"], "default": ["dns", "gateway"]}, {"name": "vip", "static_ips": "69.69.69.69-69.69.69.70"}]}`,
		`{"networks": [{"name": "a", "static_ips": ["192.168.1.20"]}]}`,
		`{"instances": 4, "networks": [{"name": "blocks", "static_ips": ["10.10.0.64-10.10.0.67"]}]}`,
	} {
		f.Add([]byte(group))
	}
	networks := some(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		var fields map[string]any
		if json.Unmarshal(data, &fields) != nil {
			return
		}
		g, problems := ParseGroup("g", fields, networks, rules())
		if len(problems) > 0 {
			return
		}
		if len(g.Wishes) == 0 {
			t.Fatal("accepted a group without networks")
		}
		for _, w := range g.Wishes {
			n, found := Find(networks, w.Network)
			if !found || len(w.Static) != 0 && len(w.Static) != g.Instances {
				t.Fatalf("accepted %+v", w)
			}
			for _, addr := range w.Static {
				if s, found := n.holding(addr); n.Type == Manual && (!found || !s.canHold(blockAt(addr, s.bits()))) {
					t.Fatalf("accepted %s on %s", addr, n.Name)
				}
			}
		}
		if g.Instances < 100 {
			_, _ = Place(networks, g, nil)
		}
	})
}
