package deployer

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"bootstrap/state"
)

// deployed is the state of a deploy that succeeded.
func deployed() state.State {
	return state.State{
		CurrentVMCID:       "vm-1",
		CurrentStemcellID:  "s",
		CurrentManifestSHA: "digest",
		Stemcells:          []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1"}},
		Releases:           []state.Release{{ID: "a", Name: "cpi", Version: "1"}, {ID: "b", Name: "web", Version: "1"}},
	}
}

func same() wanted {
	return wanted{digest: "digest", stemcell: "os/1", releases: []state.Release{{Name: "cpi", Version: "1"}, {Name: "web", Version: "1"}}}
}

func TestDecide(t *testing.T) {
	well := facts{agentTold: true, jobState: "running", hasVM: true}
	silent := facts{agentErr: errors.New("connection refused"), hasVM: true}
	for _, c := range []struct {
		name   string
		want   func(*wanted)
		state  func(*state.State)
		facts  facts
		action action
		why    string // part of it
	}{
		{"nothing yet", nil, func(s *state.State) { *s = state.State{} }, facts{}, create, "no deploy is recorded"},
		{"manifest", func(w *wanted) { w.digest = "other" }, nil, well, replace, "the manifest changed"},
		{"stemcell", func(w *wanted) { w.stemcell = "os/2" }, nil, well, replace, "stemcell os/1 -> os/2"},
		{"release", func(w *wanted) { w.releases[1].Version = "2" }, nil, well, replace, "release web/1 -> 2"},
		{"new release", func(w *wanted) { w.releases = append(w.releases, state.Release{Name: "x", Version: "1"}) }, nil, well, replace, "release x/1 is new"},
		{"release gone", func(w *wanted) { w.releases = w.releases[:1] }, nil, well, replace, "release web is gone"},
		{"recreate", func(w *wanted) { w.recreate = true }, nil, well, replace, "--recreate"},
		{"cut short", nil, func(s *state.State) { s.CurrentManifestSHA = ""; s.Releases = nil }, well, replace, "no deploy is recorded"},
		{"VM gone", nil, nil, facts{agentErr: errors.New("refused")}, create, "VM vm-1 is gone"},
		{"VM deleted by a run that was cut", nil, func(s *state.State) { s.CurrentVMCID = "" }, facts{}, create, "there is no VM"},
		{"silent, to be fixed", func(w *wanted) { w.fix = true }, nil, silent, replace, "does not answer"},
		{"silent since it was made", nil, func(s *state.State) { s.Own.AgentID = "a" }, silent, replace, "never answered"},
		{"jobs fail", nil, nil, facts{agentTold: true, jobState: "failing", hasVM: true, failing: []string{"process web is failing"}}, start, "process web is failing"},
		{"a disk left over", nil, func(s *state.State) { s.Disks = []state.Disk{{ID: "d", CID: "disk-9"}} }, well, tidy, "disk-9"},
		{"an intent left open", nil, func(s *state.State) { s.Own.Intents = []state.Intent{{Method: "create_disk"}} }, well, tidy, "create_disk"},
		{"jobs stopped", nil, nil, facts{agentTold: true, jobState: "stopped", hasVM: true}, start, "stopped"},
		{"jobs fail and the manifest changed", func(w *wanted) { w.digest = "other" }, nil, facts{agentTold: true, jobState: "failing", hasVM: true}, replace, "the manifest changed"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w, st := same(), deployed()
			if c.want != nil {
				c.want(&w)
			}
			if c.state != nil {
				c.state(&st)
			}
			p, err := decide(w, st, c.facts)
			if err != nil || p.action != c.action || !strings.Contains(strings.Join(p.why, "; "), c.why) {
				t.Errorf("got %+v, %v; want %s because of %q", p, err, c.action, c.why)
			}
		})
	}
}

func TestDecideRefusesASilentAgent(t *testing.T) {
	cause := errors.New("connection refused")
	st := deployed()
	st.Own.AgentID, st.Own.Reached = "a", true
	_, err := decide(same(), st, facts{agentErr: cause, hasVM: true})
	var silent *AgentSilentError
	if !errors.As(err, &silent) || silent.VM != "vm-1" || !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

func TestNoChanges(t *testing.T) {
	if why := changes(same(), deployed()); why != nil {
		t.Errorf("changes %v", why)
	}
	st := deployed()
	st.CurrentStemcellID = ""
	if why := changes(same(), st); len(why) == 0 {
		t.Error("a missing stemcell record is no change")
	}
}

func TestSamePropertiesComparesAsTheStateFileDoes(t *testing.T) {
	for _, c := range []struct {
		a, b map[string]any
		want bool
	}{
		{nil, map[string]any{}, true},
		{map[string]any{"size": 10}, map[string]any{"size": 10.0}, true}, // YAML's int, JSON's float
		{map[string]any{"a": 1, "b": "x"}, map[string]any{"b": "x", "a": 1}, true},
		{map[string]any{"type": "gp2"}, map[string]any{"type": "gp3"}, false},
		{map[string]any{"type": "gp2"}, nil, false},
	} {
		if got := sameProperties(c.a, c.b); got != c.want {
			t.Errorf("sameProperties(%v, %v) = %v", c.a, c.b, got)
		}
	}
}

func TestTagsGoIntoTheEnvWithoutChangingTheManifests(t *testing.T) {
	env := map[string]any{"bosh": map[string]any{"password": "*"}}
	got := withTags(env, map[string]string{"team": "blue"})
	want := map[string]any{"bosh": map[string]any{"password": "*", "tags": map[string]string{"team": "blue"}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v", got)
	}
	if !reflect.DeepEqual(env, map[string]any{"bosh": map[string]any{"password": "*"}}) {
		t.Errorf("the manifest's env became %v", env)
	}
	if got := withTags(nil, nil); !reflect.DeepEqual(got, map[string]any{}) {
		t.Errorf("no env became %v", got)
	}
}

func TestAddressIn(t *testing.T) {
	for _, c := range []struct {
		nets map[string]map[string]any
		want string
	}{
		{map[string]map[string]any{"a": {"ip": "10.0.0.1"}}, "10.0.0.1"},
		{map[string]map[string]any{"a": {"ip": "10.0.0.1"}, "b": {"ip": "10.0.0.2", "default": []any{"dns", "gateway"}}}, "10.0.0.2"},
		{map[string]map[string]any{"a": {}}, ""},
		{nil, ""},
	} {
		if got := addressIn(c.nets); got != c.want {
			t.Errorf("addressIn(%v) = %q", c.nets, got)
		}
	}
}
