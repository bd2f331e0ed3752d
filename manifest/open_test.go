package manifest

import (
	"net/netip"
	"reflect"
	"testing"
)

const openNetworks = `networks:
- name: old
  type: manual
  subnets: [{range: 10.9.0.0/24, gateway: 10.9.0.1}]
- name: default
  type: manual
  subnets: [{range: 10.0.0.0/24, gateway: 10.0.0.1, dns: [8.8.8.8], reserved: [10.0.0.2], static: [10.0.0.9], cloud_properties: {id: net}}]
`

// Without static_ips, the address in a manual network is open. All else equals a manifest
// in which static_ips names the address.
func TestOpenAddress(t *testing.T) {
	t.Parallel()
	pairs := []string{"networks:\n- {name: default, type: dynamic}\n", openNetworks}
	m := mustLoad(t, replaced(t, append(pairs, "127.0.0.1", "0.0.0.0")...))
	p := m.Placement
	if p == nil || !p.Own || m.SharesNetworks() || len(p.Open()) != 1 || len(p.Networks) != 2 {
		t.Fatalf("placement %+v", p)
	}
	if ip, unknown := m.Address(); ip != "" || !unknown {
		t.Errorf("address %q, %t", ip, unknown)
	}
	placed, err := m.Place("", map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.0.3/32")})
	if err != nil {
		t.Fatal(err)
	}
	named := mustLoad(t, replaced(t, append(pairs, "127.0.0.1", "10.0.0.3", "[{name: default}]", "[{name: default, static_ips: [10.0.0.3]}]")...))
	if named.Placement != nil {
		t.Errorf("named: placement %+v", named.Placement)
	}
	if !reflect.DeepEqual(placed.Interfaces(), named.Interfaces()) {
		t.Errorf("interfaces %v\nwant %v", placed.Interfaces(), named.Interfaces())
	}
	ip, unknown := placed.Address()
	if ip != "10.0.0.3" || unknown || placed.CPI.MBus != named.CPI.MBus || placed.ResourcePool.Name != "vms" {
		t.Errorf("address %q, %t, %s, %+v", ip, unknown, placed.CPI.MBus, placed.ResourcePool)
	}
	if m.Group.Networks[0].StaticIPs != nil || m.CPI.MBusURL.Host != "0.0.0.0:6868" {
		t.Error("Place changed the manifest")
	}
}

// Addresses are chosen only on manual networks for which the group has no static_ips.
func TestOpenAddressBesideOthers(t *testing.T) {
	t.Parallel()
	m := mustLoad(t, replaced(t, "networks:\n- {name: default, type: dynamic}\n", openNetworks+"- {name: cloud, type: dynamic}\n",
		"[{name: default}]", "[{name: cloud}, {name: old, static_ips: [10.9.0.5]}, {name: default, default: [dns, gateway]}]"))
	wishes := m.Placement.Group.Wishes
	if len(wishes) != 1 || wishes[0].Network != "default" || !reflect.DeepEqual(wishes[0].Default, []string{"dns", "gateway"}) {
		t.Fatalf("wishes %+v", wishes)
	}
	placed, err := m.Place("", map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.0.3/32")})
	if err != nil {
		t.Fatal(err)
	}
	got := placed.Interfaces()
	if got["default"]["ip"] != "10.0.0.3" || got["old"]["ip"] != "10.9.0.5" || got["cloud"]["ip"] != nil || len(got) != 3 {
		t.Errorf("interfaces %v", got)
	}
}
