package deployment

import (
	"encoding/json"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bootstrap/deployment/record"
	"bootstrap/state"
)

// stateOf returns a state of these tests, changed.
func stateOf(t *testing.T, change func(*state.State)) json.RawMessage {
	t.Helper()
	var st state.State
	st.Identify()
	st.CurrentVMCID, st.CurrentManifestSHA = "vm-1", "sha"
	st.Stemcells, st.CurrentStemcellID = []state.Stemcell{{ID: "s", Name: "jammy", Version: "1.1", CID: "sc-1"}}, "s"
	st.Disks, st.CurrentDiskID = []state.Disk{{ID: "d", CID: "disk-1", Size: 64}}, "d"
	st.Releases = []state.Release{{ID: "r", Name: "page", Version: "3"}}
	st.Own.Salt, st.Own.Address = "00", "10.0.0.5"
	st.Own.Applied = map[string]string{"property: web title": "a", "property: web password": "b", "template: web": "c", "spec": "d", "the agent: user and password": "e"}
	if change != nil {
		change(&st)
	}
	data, err := st.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func explain(t *testing.T, before, after Side) []string {
	t.Helper()
	lines, err := Explain(before, after)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range lines {
		for _, hidden := range []string{"sha", "serial", "salt", "manifest_sha", "secret"} {
			if strings.Contains(line, hidden) {
				t.Errorf("%q has %q", line, hidden)
			}
		}
	}
	return lines
}

// A difference is told in words that a person knows.
func TestExplainOne(t *testing.T) {
	t.Parallel()
	was := &record.Version{States: map[string]json.RawMessage{"": stateOf(t, nil)}}
	is := &record.Version{States: map[string]json.RawMessage{"": stateOf(t, func(s *state.State) {
		s.CurrentVMCID, s.Stemcells[0].Version, s.Releases[0].Version, s.Own.Address = "vm-2", "1.2", "4", "10.0.0.6"
		s.CurrentManifestSHA = "sha2"
		s.Own.Serial = 7
		s.Disks = append(s.Disks, state.Disk{ID: "e", CID: "disk-2", Size: 128})
		for part := range s.Own.Applied {
			s.Own.Applied[part] += "2"
		}
	})}}
	before := Side{was, []byte("instance_groups: [{name: web, jobs: [{name: web, properties: {title: hello, password: <redacted>}}]}]\nupdate: {canaries: 1}\n")}
	after := Side{is, []byte("instance_groups: [{name: web, jobs: [{name: web, properties: {title: good day, password: <redacted>, size: 2}}]}]\nupdate: {canaries: 2}\n")}
	want := []string{
		"VM replaced (vm-1 -> vm-2)",
		"address 10.0.0.5 -> 10.0.0.6",
		"disk created (disk-2, 128 MiB)",
		"stemcell jammy 1.1 -> 1.2",
		"release page 3 -> 4",
		"web.password: changed",
		"user and password of the agent: changed",
		"web.title: hello -> good day",
		"web.size: 2 (added)",
		"update.canaries: 1 -> 2",
	}
	if got := explain(t, before, after); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	// Without the manifests, only the states tell.
	before.Manifest = nil
	if got := explain(t, before, after); !slices.Contains(got, "web.title: changed") || slices.ContainsFunc(got, func(line string) bool { return strings.Contains(line, "hello") }) {
		t.Errorf("%q", got)
	}
	if got := explain(t, before, before); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

// Lines that several instances have are told once, with the names of the instances unless
// all have them.
func TestExplainSeveral(t *testing.T) {
	t.Parallel()
	recordOf := func(names ...string) *record.Record {
		r := &record.Record{Groups: []record.Group{{Name: "web"}, {Name: "db"}}}
		for i, name := range names {
			group, _, _ := strings.Cut(name, "/")
			r.Instances = append(r.Instances, &record.Instance{ID: name, Group: group, Index: i, Addresses: map[string]netip.Prefix{"default": netip.MustParsePrefix("10.0.0.9/24")}})
		}
		return r
	}
	changed := func(more func(*state.State)) json.RawMessage {
		return stateOf(t, func(s *state.State) {
			s.Stemcells[0].Version = "1.2"
			if more != nil {
				more(s)
			}
		})
	}
	before := map[string]json.RawMessage{"web/0": stateOf(t, nil), "web/1": stateOf(t, nil), "web/2": stateOf(t, nil)}
	after := maps.Clone(before)
	delete(after, "web/2")
	after["web/0"] = changed(nil)
	after["web/1"] = changed(func(s *state.State) { s.Releases[0].Version = "4"; s.Own.Stopped = true })
	got := explain(t,
		Side{&record.Version{Record: recordOf("web/0", "web/1", "web/2"), States: before}, []byte("instance_groups: [{name: web, instances: 3, jobs: [{name: page, properties: {title: a}}]}]")},
		Side{&record.Version{Record: recordOf("web/0", "web/1"), States: after}, []byte("instance_groups: [{name: web, instances: 2, jobs: [{name: page, properties: {title: b}}]}]")})
	want := []string{
		"instances of web: 3 -> 2",
		"web/2: instance removed (VM vm-1, disk disk-1, stemcell sc-1, 10.0.0.9)",
		"web/1: stopped",
		"stemcell jammy 1.1 -> 1.2",
		"web/1: release page 3 -> 4",
		"page.title of web: a -> b",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}
