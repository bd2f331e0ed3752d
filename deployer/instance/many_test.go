package instance

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/network"
)

const twoInstances = `{"format": 1, "name": "dep", "instances": [
 {"id": "a", "group": "web", "index": 0, "state": "web-0.json"},
 {"id": "b", "group": "web", "index": 3, "state": "/elsewhere/first-state.json", "addresses": {"default": "10.0.0.5/32"}}]}`

// An instance is selected by index or id, and its state is at the recorded path.
func TestSelectInstance(t *testing.T) {
	dir := t.TempDir()
	manifest := filepath.Join(dir, "m.yml")
	if err := os.Mkdir(record.Dir(manifest), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(record.Dir(manifest), "deployment.json"), []byte(twoInstances), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, state := range map[string]string{
		"web/0": filepath.Join(record.Dir(manifest), "web-0.json"), "web/3": "/elsewhere/first-state.json", "web/b": "/elsewhere/first-state.json",
	} {
		o := Options{Manifest: manifest, Instance: name}
		if err := o.SelectInstance(); err != nil || o.StateFile != state || o.StateArgument() != "" {
			t.Errorf("%s: %v, state %s", name, err, o.StateFile)
		}
	}
	var unknown *UnknownInstanceError
	many := Options{Manifest: manifest, Instance: "web"}
	if _, ok := errors.AsType[*ManySelectedError](many.SelectInstance()); !ok {
		t.Error("one instance of a group with two is selected")
	}
	for _, name := range []string{"web/1", "db/0", "web/"} {
		o := Options{Manifest: manifest, Instance: name}
		if err := o.SelectInstance(); !errors.As(err, &unknown) || len(unknown.Known) != 2 {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An instance asks the ledger for its recorded address, and refuses another one.
func TestRecordedAddress(t *testing.T) {
	networks, problems := network.Parse([]any{map[string]any{"name": "default", "subnets": []any{map[string]any{"range": "10.0.0.0/24", "gateway": "10.0.0.1"}}}}, network.Rules{})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	placement := &manifest.Placement{Networks: networks, Group: network.Group{Name: "web", Instances: 1, Wishes: []network.Wish{{Network: "default", Default: []string{"dns", "gateway"}}}}}
	in := &Inputs{Request: &Request{}, Manifest: &manifest.Manifest{Placement: placement, Identity: &manifest.Identity{Index: 3}, Group: manifest.InstanceGroup{Name: "web"}}}
	in.From.Of = &Member{Instance: &record.Instance{Group: "web", Index: 3, Addresses: map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.0.5/32"), "gone": netip.MustParsePrefix("10.9.0.5/32")}}}
	a := &Placement{in: in}
	if a.Kept() != "default" {
		t.Errorf("keeps %q", a.Kept())
	}
	held := a.recordedHeld(network.Instance{})
	if len(held) != 1 || held[0].Block != netip.MustParsePrefix("10.0.0.5/32") || held[0].Kind != network.Automatic {
		t.Errorf("%+v", held)
	}
	has := []network.Reservation{{Network: "default", Block: netip.MustParsePrefix("10.0.0.7/32"), VM: "vm"}}
	if got := a.recordedHeld(network.Instance{Held: has}); len(got) != 1 || got[0].VM != "vm" {
		t.Errorf("%+v", got)
	}
	reserve := func(text string) network.Outcome {
		return network.Outcome{Changes: []network.Change{{Action: network.Reserve, Reservation: network.Reservation{Network: "default", Block: netip.MustParsePrefix(text)}}}}
	}
	if err := a.expectRecorded(reserve("10.0.0.5/32")); err != nil {
		t.Error(err)
	}
	var moved *MovedInstanceError
	if err := a.expectRecorded(reserve("10.0.0.7/32")); !errors.As(err, &moved) || moved.Instance != "web/3" {
		t.Error(err)
	}
}
