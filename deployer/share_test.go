package deployer

import (
	"maps"
	"testing"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/network"
)

// A manifest with one instance shares its links by the addresses that are known, also if
// the run has not opened a state.
func TestSharedAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		address string // of the instance
		want    map[string]string
	}{
		"unknown": {"", map[string]string{"inner": "10.1.0.2"}},
		"known":   {"10.0.0.3", map[string]string{"inner": "10.1.0.2", "outer": "10.0.0.3"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRun(Options{Config: instance.Config{Report: func(report.Event) {}}})
			r.reads(&manifest.Manifest{
				Name: "db", Networks: []manifest.Network{{Name: "inner", Type: "dynamic"}, {Name: "outer", Type: "dynamic"}},
				Group: manifest.InstanceGroup{Name: "db", Networks: []manifest.GroupNetwork{
					{Name: "inner", StaticIPs: []string{"10.1.0.2"}}, {Name: "outer", Default: []string{"dns", "gateway"}},
				}},
			})
			r.address = c.address
			g := r.onlyGroup(nil)
			if g.Default != "outer" || !maps.Equal(g.Instances[0].Addresses, c.want) {
				t.Errorf("got %v by default on %s", g.Instances[0].Addresses, g.Default)
			}
		})
	}
}

// A manifest with one instance and a cloud config shares the address that addressable
// names, as one with several does.
func TestSharesAddressable(t *testing.T) {
	t.Parallel()
	r := newRun(Options{Config: instance.Config{Report: func(report.Event) {}}})
	r.reads(&manifest.Manifest{
		Name: "db", Group: manifest.InstanceGroup{Name: "db"},
		Placement: &manifest.Placement{Group: network.Group{Wishes: []network.Wish{
			{Network: "outer", Default: []string{"dns", "gateway"}}, {Network: "inner", Default: []string{"addressable"}},
		}}},
	})
	if g := r.onlyGroup(nil); g.Default != "inner" {
		t.Errorf("got %s", g.Default)
	}
}
