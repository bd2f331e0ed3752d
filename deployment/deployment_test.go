package deployment

import (
	"context"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/addresses"
	"bootstrap/deployer"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/network"
)

// cluster returns a deployment with one group. Its network has the given zones.
func cluster(t *testing.T, instances int, zones ...string) deployer.Several {
	t.Helper()
	networks := []network.Network{{Name: "default", Type: network.Manual}}
	for i, zone := range []string{"z1", "z2"} {
		base := netip.AddrFrom4([4]byte{10, 0, byte(i), 0})
		networks[0].Subnets = append(networks[0].Subnets, network.Subnet{Range: netip.PrefixFrom(base, 24), Gateway: base.Next(), Zones: []string{zone}, Prefix: 32})
	}
	group := manifest.Group{
		Group:    network.Group{Name: "web", Instances: instances, Zones: zones, Wishes: []network.Wish{{Network: "default", Default: []string{"dns", "gateway"}}}},
		Manifest: &manifest.Manifest{Group: manifest.InstanceGroup{Name: "web", Disk: &manifest.DiskPool{Size: 1}}},
	}
	ledger, err := addresses.Memory(nil, nil, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	return deployer.Several{Deployment: &manifest.Deployment{Name: "cluster", Common: &manifest.Manifest{}, Groups: []manifest.Group{group}, Networks: networks}, Decide: ledger.Decide}
}

// made drafts the deployment on top of an earlier record, and saves the result.
func made(t *testing.T, of deployer.Several, dir string) *Draft {
	t.Helper()
	old, err := record.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	draft, err := Make(context.Background(), of, old, func(*record.Instance) VM { return VM{} }, nil, "")
	if err != nil {
		t.Fatal(err)
	}
	if err := draft.Record.Save(); err != nil {
		t.Fatal(err)
	}
	return draft
}

// names returns the instances of a record with their zones and addresses.
func names(r *record.Record) []string {
	var list []string
	for _, in := range r.Instances {
		text := in.Name() + " " + in.Zone + " " + in.Addresses["default"].Addr().String()
		if in.Going != "" {
			text += " " + in.Going
		}
		list = append(list, text)
	}
	return list
}

func TestMake(t *testing.T) {
	dir := t.TempDir()
	first := made(t, cluster(t, 3, "z1", "z2"), dir)
	want := []string{"web/0 z1 10.0.0.2", "web/1 z2 10.0.1.2", "web/2 z1 10.0.0.3"}
	if got := names(first.Record); !slices.Equal(got, want) || len(first.New) != 3 {
		t.Fatalf("%q", got)
	}
	ids := map[string]string{}
	for _, in := range first.Record.Instances {
		ids[in.Name()] = in.ID
		if !strings.HasPrefix(in.State, "web-") || !in.Disk || in.Bootstrap != (in.Index == 0) {
			t.Errorf("%+v", in)
		}
	}
	again := made(t, cluster(t, 3, "z1", "z2"), dir)
	if got := names(again.Record); !slices.Equal(got, want) || len(again.New) != 0 {
		t.Fatalf("a second deploy: %q", got)
	}
	fewer := made(t, cluster(t, 1, "z1", "z2"), dir)
	if got := names(fewer.Record); !slices.Equal(got, []string{want[0], want[1] + " fewer", want[2] + " fewer"}) {
		t.Fatalf("fewer: %q", got)
	}
	for _, in := range fewer.Record.Instances {
		if in.ID != ids[in.Name()] {
			t.Errorf("%s has another id", in.Name())
		}
	}
	lost := made(t, cluster(t, 1), dir)
	if len(lost.Lost) == 0 {
		t.Error("disks of a group that loses its zones are not reported")
	}
}

func TestNextRunKeepsWhatGoes(t *testing.T) {
	dir := t.TempDir()
	made(t, cluster(t, 2, "z1"), dir)
	made(t, cluster(t, 1, "z1"), dir) // killed before it deleted web/1
	grown := made(t, cluster(t, 2, "z1"), dir)
	if got := names(grown.Record); !slices.Equal(got, []string{"web/0 z1 10.0.0.2", "web/1 z1 10.0.0.3"}) || len(grown.New) != 0 {
		t.Errorf("%q", got)
	}
}
