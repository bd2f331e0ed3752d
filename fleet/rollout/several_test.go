package rollout

import (
	"encoding/json"
	"slices"
	"testing"
)

// A member is down only for the steps of a group of which no instance serves.
func TestInstancesPlan(t *testing.T) {
	const text = `{"deployment": "page", "instances": [
	 {"name": "db/0", "action": "change", "changes": [{"action": "replace", "what": "vm", "name": "vm-1"}], "down": ["stop", "start"]},
	 {"name": "web/0", "action": "change", "changes": [{"action": "update in place", "what": "jobs"}], "down": ["drain", "stop", "apply", "start"]},
	 {"name": "web/1", "action": "create", "changes": [{"action": "create", "what": "vm"}, {"action": "update in place", "what": "jobs"}]},
	 {"name": "web/2", "action": "delete"}],
	 "shared": [{"action": "create", "what": "stemcell", "instances": ["web/1"]}],
	 "groups": [{"group": "db", "down": true, "downtime_seconds": 4}, {"group": "web"}]}`
	var p instancesPlan
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	v := p.view()
	want := []string{"create stemcell", "replace vm", "update in place jobs", "create vm", "delete instance"}
	if got := changes(v); !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	if !slices.Equal(v.Outage(), []string{"stop", "start"}) || v.Downtime != 4 {
		t.Errorf("down for %q, %v s", v.Outage(), v.Downtime)
	}
}

func TestInstanceStates(t *testing.T) {
	for text, want := range map[string][2]string{
		`{"well": true, "instances": [{"name": "web/0", "state": "running"}]}`:                                                                {string(Runs), ""},
		`{"instances": [{"name": "web/0", "state": "running"}, {"name": "web/1", "state": "stopped"}]}`:                                       {string(NotWell), "web/1 is stopped"},
		`{"instances": [{"name": "web/0", "state": "stopped"}, {"name": "web/1", "state": "stopped"}]}`:                                       {string(Stopped), ""},
		`{"instances": [{"name": "web/0", "state": "no VM"}]}`:                                                                                {string(NoVM), ""},
		`{"instances": [{"name": "web/0", "state": "unreachable", "problems": ["its agent is silent"]}]}`:                                     {string(Unreachable), "web/0: its agent is silent"},
		`{"instances": [{"name": "web/0", "state": "failing", "problems": ["a process is failing"]}, {"name": "web/1", "state": "running"}]}`: {string(NotWell), "web/0: a process is failing"},
	} {
		var s instanceStates
		if err := json.Unmarshal([]byte(text), &s); err != nil {
			t.Fatal(err)
		}
		if state, problem := s.state(); string(state) != want[0] || problem != want[1] {
			t.Errorf("%s: %s, %q", text, state, problem)
		}
	}
}
