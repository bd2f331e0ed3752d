package network

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// document returns the value of a YAML document.
func document(t testing.TB, text string) any {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return value
}

// subnets returns a manual network a with the subnets.
func subnets(list string) string { return `[{"name": "a", "subnets": [` + list + `]}]` }

// inside returns a manual network named a with one subnet 192.168.1.0/24. The subnet has
// a range, a gateway and these fields.
func inside(fields string) string {
	return subnets(`{"range": "192.168.1.0/24", "gateway": "192.168.1.1", ` + fields + `}`)
}

func rules() Rules { return Rules{Zones: []string{"z1", "z2"}} }

// paths returns a line "path kind" for each problem.
func paths(problems []Problem) string {
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Path + " " + p.Kind
	}
	return strings.Join(lines, "\n")
}

// Each refusal has the Director's name of the error and the path of the value.
func TestParseRefuses(t *testing.T) {
	const subnet = `{"range": "10.0.0.0/24", "gateway": "10.0.0.1"}`
	for name, c := range map[string]struct{ list, want string }{
		"nothing":        {`null`, "networks DeploymentNoNetworks"},
		"an empty list":  {`[]`, "networks DeploymentNoNetworks"},
		"a map":          {`{}`, "networks ValidationInvalidType"},
		"a text":         {`["a"]`, "networks[0] ValidationInvalidType"},
		"no name":        {`[{}]`, "networks[0].name ValidationMissingField"},
		"a numeric name": {`[{"name": 1}]`, "networks[0].name ValidationInvalidType"},
		"an unknown type": {`[{"name": "a", "type": "bridge"}]`,
			"networks[0].type DeploymentInvalidNetworkType"},
		"names that are the same": {`[{"name": "A_b", "type": "vip"}, {"name": "a-B", "type": "vip"}]`,
			"networks[1].name DeploymentCanonicalNetworkNameTaken"},

		"no subnets":    {`[{"name": "a"}]`, "networks[0].subnets ValidationMissingField"},
		"empty subnets": {`[{"name": "a", "subnets": []}]`, "networks[0].subnets NetworkInvalidProperty"},
		"no range":      {subnets(`{"gateway": "10.0.0.1"}`), "networks[0].subnets[0].range ValidationMissingField"},
		"a numeric range": {subnets(`{"range": 10, "gateway": "10.0.0.1"}`),
			"networks[0].subnets[0].range ValidationInvalidType"},
		"a range that is none": {subnets(`{"range": "10.0.0.0/33", "gateway": "10.0.0.1"}`),
			"networks[0].subnets[0].range NetworkInvalidRange"},
		"a range of one address": {subnets(`{"range": "10.0.0.0/32", "gateway": "10.0.0.0"}`),
			"networks[0].subnets[0].range NetworkInvalidRange\nnetworks[0].subnets[0].gateway NetworkInvalidGateway"},

		"no gateway": {subnets(`{"range": "10.0.0.0/24"}`), "networks[0].subnets[0].gateway ValidationMissingField"},
		"a gateway that is a block": {subnets(`{"range": "10.0.0.0/24", "gateway": "10.0.0.0/30"}`),
			"networks[0].subnets[0].gateway NetworkInvalidGateway"},
		"a gateway outside": {subnets(`{"range": "10.0.0.0/24", "gateway": "10.0.1.1"}`),
			"networks[0].subnets[0].gateway NetworkInvalidGateway"},
		"a gateway of the other family": {subnets(`{"range": "10.0.0.0/24", "gateway": "2001:db8::1"}`),
			"networks[0].subnets[0].gateway NetworkInvalidGateway"},
		"the network's address as gateway": {subnets(`{"range": "10.0.0.0/24", "gateway": "10.0.0.0"}`),
			"networks[0].subnets[0].gateway NetworkInvalidGateway"},
		"the last address as gateway": {subnets(`{"range": "10.0.0.0/24", "gateway": "10.0.0.255"}`),
			"networks[0].subnets[0].gateway NetworkInvalidGateway"},

		"dns that is a text":           {inside(`"dns": "8.8.8.8"`), "networks[0].subnets[0].dns ValidationInvalidType"},
		"dns with a block and a name":  {inside(`"dns": ["8.8.8.0/24", "9.9.9.9", "ns1"]`), "networks[0].subnets[0].dns[0] NetworkInvalidDns\nnetworks[0].subnets[0].dns[2] NetworkInvalidDns"},
		"cloud_properties as a list":   {inside(`"cloud_properties": []`), "networks[0].subnets[0].cloud_properties ValidationInvalidType"},
		"reserved outside":             {inside(`"reserved": ["192.168.1.4", "192.168.2.4"]`), "networks[0].subnets[0].reserved[1] NetworkReservedIpOutOfRange"},
		"reserved that ends outside":   {inside(`"reserved": "192.168.1.250-192.168.2.4"`), "networks[0].subnets[0].reserved NetworkReservedIpOutOfRange"},
		"a reserved block beyond":      {inside(`"reserved": ["192.168.0.0/23"]`), "networks[0].subnets[0].reserved[0] NetworkReservedIpOutOfRange"},
		"a reserved range of blocks":   {inside(`"reserved": ["192.168.1.0/30-192.168.1.8"]`), "networks[0].subnets[0].reserved[0] NetworkInvalidIpRangeFormat"},
		"a range with three ends":      {inside(`"reserved": ["192.168.1.2-192.168.1.3-192.168.1.4"]`), "networks[0].subnets[0].reserved[0] NetworkInvalidIpRangeFormat"},
		"a reversed range":             {inside(`"reserved": ["192.168.1.9-192.168.1.2"]`), "networks[0].subnets[0].reserved[0] NetworkInvalidIpRangeFormat"},
		"a range of two families":      {inside(`"reserved": ["192.168.1.9-2001:db8::1"]`), "networks[0].subnets[0].reserved[0] NetworkInvalidIpRangeFormat"},
		"a number in reserved":         {inside(`"reserved": [["192.168.1.9", 7]]`), "networks[0].subnets[0].reserved[0][1] NetworkInvalidIpRangeFormat"},
		"static outside":               {inside(`"static": ["192.168.2.4"]`), "networks[0].subnets[0].static[0] NetworkStaticIpOutOfRange"},
		"static that is the gateway":   {inside(`"static": ["192.168.1.1"]`), "networks[0].subnets[0].static[0] NetworkStaticIpOutOfRange"},
		"static that has the last one": {inside(`"static": ["192.168.1.250-192.168.1.255"]`), "networks[0].subnets[0].static[0] NetworkStaticIpOutOfRange"},
		"reserved inside static":       {inside(`"reserved": ["192.168.1.20"], "static": ["192.168.1.16/28"]`), "networks[0].subnets[0].static[0] NetworkStaticIpOutOfRange"},
		"static inside reserved":       {inside(`"reserved": ["192.168.1.16/28"], "static": ["192.168.1.20"]`), "networks[0].subnets[0].static[0] NetworkStaticIpOutOfRange"},

		"az and azs":         {inside(`"az": "z1", "azs": ["z1"]`), "networks[0].subnets[0].azs NetworkInvalidProperty"},
		"empty azs":          {inside(`"azs": []`), "networks[0].subnets[0].azs NetworkInvalidProperty"},
		"azs that is a text": {inside(`"azs": "z1"`), "networks[0].subnets[0].azs ValidationInvalidType"},
		"an unknown az":      {inside(`"az": "z9"`), "networks[0].subnets[0].az NetworkSubnetUnknownAvailabilityZone"},
		"an unknown zone":    {inside(`"azs": ["z1", "z9"]`), "networks[0].subnets[0].azs[1] NetworkSubnetUnknownAvailabilityZone"},
		"subnets with and without zones": {subnets(`{"range": "10.0.0.0/24", "gateway": "10.0.0.1", "az": "z1"}, {"range": "10.0.1.0/24", "gateway": "10.0.1.1"}`),
			"networks[0].subnets[1] JobInvalidAvailabilityZone"},
		"overlapping subnets": {subnets(subnet + `, {"range": "10.0.0.0/16", "gateway": "10.0.7.1"}`),
			"networks[0].subnets[1].range NetworkOverlappingSubnets"},

		"a prefix larger than the range": {inside(`"prefix": 23`), "networks[0].subnets[0].prefix NetworkPrefixSizeTooBig"},
		"a prefix that is none":          {inside(`"prefix": 33`), "networks[0].subnets[0].prefix NetworkInvalidProperty"},
		"prefixes of the second subnet": {subnets(subnet + `, {"range": "10.0.1.0/24", "gateway": "10.0.1.1", "prefix": 28}`),
			"networks[0].subnets[1].prefix NetworkPrefixSizesDiffer"},
		"a static address inside a block": {inside(`"prefix": 28, "static": ["192.168.1.17"]`),
			"networks[0].subnets[0].static[0] NetworkPrefixStaticIpNotBaseAddress"},
		"a static range without a base": {inside(`"prefix": 28, "static": ["192.168.1.17-192.168.1.31"]`),
			"networks[0].subnets[0].static[0] NetworkPrefixStaticIpNotBaseAddress"},

		"dynamic with az, azs, managed and prefix": {`[{"name": "a", "type": "dynamic", "az": "z1", "azs": ["z1"], "managed": true, "prefix": 32}]`,
			"networks[0].az NetworkInvalidProperty\nnetworks[0].azs NetworkInvalidProperty\nnetworks[0].managed NetworkInvalidProperty\nnetworks[0].prefix NetworkInvalidProperty"},
		"dynamic with dns beside subnets": {`[{"name": "a", "type": "dynamic", "dns": [], "cloud_properties": {}, "subnets": [{}]}]`,
			"networks[0].dns NetworkInvalidProperty\nnetworks[0].cloud_properties NetworkInvalidProperty"},
		"dynamic with empty subnets": {`[{"name": "a", "type": "dynamic", "subnets": []}]`, "networks[0].subnets NetworkInvalidProperty"},
		"a dynamic block":            {`[{"name": "a", "type": "dynamic", "subnets": [{"prefix": 28}]}]`, "networks[0].subnets[0].prefix NetworkInvalidProperty"},
		"a vip block":                {`[{"name": "a", "type": "vip", "subnets": [{"prefix": 28}]}]`, "networks[0].subnets[0].prefix NetworkInvalidProperty"},
		"a reversed vip list":        {`[{"name": "a", "type": "vip", "subnets": [{"static": ["2.2.2.2-1.1.1.1"]}]}]`, "networks[0].subnets[0].static[0] NetworkInvalidIpRangeFormat"},
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := Parse(document(t, c.list), rules())
			if got := paths(problems); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			for _, p := range problems {
				if p.Message == "" {
					t.Errorf("the message of %s: %q", p.Path, p.Message)
				}
			}
		})
	}
}

// A network is read like the Director reads it.
func TestParse(t *testing.T) {
	networks, problems := Parse(document(t, `[
		{"name": "a", "scope": "lab", "subnets": [
			{"range": "10.0.0.77/24", "gateway": "10.0.0.1/32", "dns": ["8.8.8.8"], "azs": ["z1", "z2", "z1"],
			 "reserved": ["10.0.0.2", "10.0.0.5/30", " 10.0.0.10 - 10.0.0.12", ["10.0.0.14"]], "static": "10.0.0.200-10.0.0.210", "cloud_properties": {"name": "x"}},
			{"range": "2001:DB8::/64", "gateway": "2001:db8::1", "az": "z2", "reserved": "2001:db8::2"}]},
		{"name": "b", "subnets": [{"range": "10.9.0.0/255.255.0.0", "gateway": "10.9.0.1", "prefix": "28", "static": ["10.9.1.0/24", "10.9.2.3-10.9.2.40"]}]},
		{"name": "c", "type": "dynamic", "dns": ["9.9.9.9"], "cloud_properties": {"k": 1}},
		{"name": "d", "type": "vip", "subnets": [{"static": ["2.2.2.2", "1.1.1.1"]}]}]`), Rules{
		Zones: []string{"z1", "z2"},
	})
	if len(problems) > 0 {
		t.Fatal(paths(problems))
	}
	a, _ := Find(networks, "a")
	if s := a.Subnets[0]; a.Scope != "lab" || s.Range.String() != "10.0.0.0/24" || s.Gateway.String() != "10.0.0.1" || s.Prefix != 32 ||
		!slices.Equal(s.Zones, []string{"z1", "z2"}) || s.CloudProperties["name"] != "x" || len(s.DNS) != 1 {
		t.Errorf("%+v", s)
	}
	if got := setOf(a.Subnets[0].Reserved).Ranges(); len(got) != 4 || got[0].String() != "10.0.0.2-10.0.0.2" || got[1].String() != "10.0.0.4-10.0.0.7" {
		t.Errorf("reserved: %v", got)
	}
	if s := a.Subnets[1]; s.Prefix != 128 || len(s.Reserved) != 1 {
		t.Errorf("%+v", s)
	}
	b, _ := Find(networks, "b")
	if s := b.Subnets[0]; s.Range.String() != "10.9.0.0/16" || s.Prefix != 28 || s.Static[0].String() != "10.9.1.0-10.9.1.255" || s.Static[1].String() != "10.9.2.16-10.9.2.47" {
		t.Errorf("%+v", s)
	}
	c, _ := Find(networks, "c")
	if s := c.Subnets[0]; s.CloudProperties["k"] != 1.0 || len(s.DNS) != 1 {
		t.Errorf("%+v", s)
	}
	d, _ := Find(networks, "d")
	if s := d.Subnets[0]; s.Static[0].From().String() != "2.2.2.2" || d.CloudProperties == nil {
		t.Errorf("%+v", s)
	}
	if _, found := Find(networks, "e"); found {
		t.Error("found a network that is none")
	}
}

// Some rules allow a network without a gateway.
func TestParseGatewayOptional(t *testing.T) {
	networks, problems := Parse(document(t, subnets(`{"range": "10.0.0.0/31"}`)), Rules{GatewayOptional: true})
	if len(problems) > 0 || networks[0].Subnets[0].Gateway.IsValid() {
		t.Fatal(paths(problems), networks)
	}
}

// FuzzParse looks for documents that make Parse panic, hang, or accept networks
// with addresses outside their ranges.
func FuzzParse(f *testing.F) {
	for _, list := range []string{
		`[{"name": "a", "subnets": [{"range": "10.0.0.0/24", "gateway": "10.0.0.1", "reserved": ["10.0.0.4-10.0.0.9", "10.0.0.16/28"], "static": "10.0.0.100", "azs": ["z1"], "prefix": 32, "dns": ["8.8.8.8"]}]}]`,
		`[{"name": "a", "subnets": [{"range": "2001:db8::/32", "gateway": "2001:db8::1", "prefix": 80, "static": "2001:db8:1::/64"}]}]`,
		`[{"name": "a", "type": "vip", "subnets": [{"static": ["1.1.1.1-1.1.1.9"]}]}, {"name": "b", "type": "dynamic"}]`,
	} {
		f.Add([]byte(list))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		var list any
		if json.Unmarshal(data, &list) != nil {
			return
		}
		networks, problems := Parse(list, rules())
		if len(problems) > 0 {
			return
		}
		if len(networks) == 0 {
			t.Fatal("accepted nothing")
		}
		for _, n := range networks {
			for _, s := range n.Subnets {
				if n.Type != Manual {
					continue
				}
				for _, r := range slices.Concat(s.automatic(), s.Reserved, s.Static) {
					if !rangeOf(s.Range, r) {
						t.Fatalf("%s is outside of %s", r, s.Range)
					}
				}
				for _, r := range s.automatic() {
					if setOf(s.Reserved, s.Static).OverlapsRange(r) {
						t.Fatalf("%s is for everybody, and reserved or static", r)
					}
				}
			}
		}
	})
}
