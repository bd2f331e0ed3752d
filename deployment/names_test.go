package deployment

import (
	"maps"
	"slices"
	"testing"

	"bootstrap/deployment/dns"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
)

// Numbers are given when instances are drafted, and they stay: over fewer and more
// instances, over a rename, and after the feature is switched off.
func TestNumbersOfDrafts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if without := made(t, cluster(t, 1, "z1"), dir); without.Record.Names != nil {
		t.Fatal("a deployment without DNS names has numbers")
	}
	named := func(instances int) *dns.Names {
		of := cluster(t, instances, "z1", "z2")
		of.Common.DNS.Addresses = true
		draft := made(t, of, dir)
		draft.Record.Instances = slices.DeleteFunc(draft.Record.Instances, func(in *record.Instance) bool { return in.Going != "" })
		if err := draft.Record.Save(); err != nil {
			t.Fatal(err)
		}
		return draft.Record.Names
	}
	named(3)
	named(1)
	again := named(2)
	if got := slices.Sorted(maps.Values(again.Instances)); !slices.Equal(got, []int{1, 4}) {
		t.Errorf("instances have the numbers %v", got)
	}
	of := cluster(t, 2, "z1", "z2")
	of.Groups[0].Name, of.Groups[0].From = "site", []manifest.Origin{{Name: "web"}}
	renamed := made(t, of, dir).Record.Names
	if renamed == nil || !maps.Equal(renamed.Groups, map[string]int{"site": 1}) || !maps.Equal(renamed.Zones, map[string]int{"z1": 1, "z2": 2}) {
		t.Errorf("%+v", renamed)
	}
}

func TestOutdated(t *testing.T) {
	t.Parallel()
	names := &dns.Names{Version: 3, Digest: "now"}
	for _, c := range []struct {
		digest string
		last   uint64
		want   bool
	}{{"now", 2, false}, {"now", 0, false}, {"other", 2, true}, {"now", 3, true}, {"now", 4, true}} {
		if got := outdated(names, c.digest, c.last); got != c.want {
			t.Errorf("%+v: got %v", c, got)
		}
	}
}
