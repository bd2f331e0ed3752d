package instance

import (
	"context"
	"net/netip"
	"path/filepath"
	"slices"
	"testing"

	"bootstrap/addresses"
	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
)

// The state keeps the reservations of the ledger in memory, and then the released
// addresses; the oldest of these is removed at some time.
func TestOwnAddresses(t *testing.T) {
	ctx := t.Context()
	path := filepath.Join(t.TempDir(), "state.json")
	store, err := file.Open(ctx, path, file.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	target := New(NewEnv(Config{}), Options{})
	target.State = store
	networks := []network.Network{{Name: "default", Type: network.Manual, Subnets: []network.Subnet{{Range: block("10.0.0.0/24")}}}}
	in := network.Instance{Owner: target.Addresses.Owner(), Wishes: []network.Wish{{Network: "default"}}}
	take := func(ctx context.Context) (got string) {
		t.Helper()
		if err := target.Addresses.Change(ctx, func(ledger *addresses.Ledger) error {
			outcomes, err := ledger.Reserve(ctx, "run", networks, []network.Instance{in})
			if err == nil {
				got = outcomes[0].Changes[0].Reservation.Block.Addr().String()
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
		return got
	}
	release := func() {
		t.Helper()
		if err := target.Addresses.Change(ctx, func(ledger *addresses.Ledger) error {
			_, err := ledger.ReleaseDeployment(ctx, target.Installation.String())
			return err
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := []string{take(ctx), take(ctx)}; !slices.Equal(got, []string{"10.0.0.1", "10.0.0.1"}) {
		t.Errorf("got %v", got)
	}
	for range maxReleased {
		release()
		take(ctx)
	}
	list := store.Get().Own.Addresses
	if first, last := list[0], list[len(list)-1]; len(list) != maxReleased+1 || first.Released || first.Address != "10.0.0.51" || !last.Released || last.Address != "10.0.0.50" || first.Since.IsZero() {
		t.Errorf("%d: %+v, %+v", len(list), first, last)
	}
	release() // The record of .1 is removed.
	if got := take(ctx); got != "10.0.0.1" {
		t.Errorf("got %s", got)
	}
}

// The addresses in the state belong to the instance, unless the manifest names other
// ones.
func TestOwnAddressesOfNamedNetworks(t *testing.T) {
	ctx := t.Context()
	store, err := file.Open(ctx, filepath.Join(t.TempDir(), "state.json"), file.Options{Home: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	target := New(NewEnv(Config{}), Options{})
	target.State = store
	if err := target.Addresses.Set([]state.Address{{Network: "a", Address: "10.0.0.2", VM: "vm-1"}, {Network: "b", Address: "10.0.0.2", VM: "vm-1"}}); err != nil {
		t.Fatal(err)
	}
	held := func() (list []string) {
		t.Helper()
		all, err := target.Addresses.List(ctx)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			list = append(list, r.Network)
		}
		return list
	}
	if got := held(); !slices.Equal(got, []string{"a", "b"}) {
		t.Errorf("without a manifest: %v", got)
	}
	reads(target, &manifest.Manifest{
		Group:     manifest.InstanceGroup{Networks: []manifest.GroupNetwork{{Name: "a", StaticIPs: []string{"10.0.0.2"}}, {Name: "b"}}},
		Placement: &manifest.Placement{Own: true, Group: network.Group{Wishes: []network.Wish{{Network: "b"}}}},
	})
	if got := held(); !slices.Equal(got, []string{"b"}) {
		t.Errorf("with static_ips on a: %v", got)
	}
}

func block(text string) netip.Prefix { return netip.MustParsePrefix(text) }
