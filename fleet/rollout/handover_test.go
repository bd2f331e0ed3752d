//go:build unix

package rollout

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"bootstrap/fleet/schedule"
)

// A member may take over an address only if the member that gives it up has certainly
// ended before.
func TestEndedBefore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rules       schedule.Rules
		first, then int
		want        bool
	}{
		{schedule.Rules{Width: 1}, 0, 1, true},
		{schedule.Rules{Width: 1}, 1, 0, false},
		{schedule.Rules{Width: 2}, 0, 1, false},
		{schedule.Rules{Width: 2}, 0, 5, false}, // the first one may take longer than all others
		{schedule.Rules{Width: 2, Canaries: 1}, 2, 0, true},
		{schedule.Rules{Width: 2, Canaries: 1}, 0, 2, false},
		{schedule.Rules{Width: 1, Canaries: 1}, 0, 2, false},
		{schedule.Rules{Width: 2, Waves: []int{2}}, 1, 2, true},
		{schedule.Rules{Width: 2, Waves: []int{2}}, 0, 1, false},
		{schedule.Rules{Width: 1, Waves: []int{3}}, 0, 1, true},
		{schedule.Rules{Width: 1, Waves: []int{2}}, 4, 3, false},
	} {
		t.Run(fmt.Sprintf("%+v %d %d", test.rules, test.first, test.then), func(t *testing.T) {
			t.Parallel()
			c := &coordinator{rules: test.rules, list: make([]schedule.Member, 6), handOvers: make([]handOver, 1)}
			c.list[2].Candidate = true
			if got := c.endedBefore()(test.first, test.then); got != test.want {
				t.Errorf("%t, and should be %t", got, test.want)
			}
		})
	}
}

// If a plan was refused because another member has the address, the member waits for that
// one, if it gives up the address in this run and ends before.
func TestHandOver(t *testing.T) {
	t.Parallel()
	const givesUp = `echo '{"kind":"plan","plan":{"changes":[{"action":"hold","what":"address","name":"10.0.0.5 of default"}]}}'; echo '{"kind":"result","exit_code":2}'; exit 2`
	wants := func(address, holder string) string {
		return fmt.Sprintf(`echo '{"kind":"result","exit_code":1,"error":"%s is taken","held_by":{"address":"%[1]s","network":"default","deployment":"'$(sed -n 's/.*"installation_id": "\(.*\)",/\1/p' %s-state.json)'"}}'; exit 1`, address, holder)
	}
	for name, c := range map[string]struct {
		update   string
		does     map[string]string
		verdicts string
		deploys  string
		changes  string // changes of c
		hint     string // hint for c
	}{
		"given up before": {"", map[string]string{"plan a": givesUp, "plan c": wants("10.0.0.5", "a")}, "a done, b done, c done", "a b c", "take over address 10.0.0.5 from a", ""},
		"kept":            {"", map[string]string{"plan c": wants("10.0.0.5", "a")}, "a not started, b not started, c failed", "", "", ""},
		"at the same time": {"canaries: 0, max_in_flight: 2", map[string]string{"plan b": givesUp, "plan c": wants("10.0.0.5", "b")}, "a not started, b not started, c failed", "", "",
			"b gives this address up in this run, but c may start before b has ended: put b before c in the fleet file, with max_in_flight: 1, or first run the same command with --only b"},
		"for two": {"", map[string]string{"plan a": givesUp, "plan b": wants("10.0.0.5", "a"), "plan c": wants("10.0.0.5", "a")}, "a not started, b not started, c failed", "", "",
			"a gives this address up in this run, but b gets it: choose another address for c"},
		"a swap": {"", map[string]string{"plan b": wants("10.0.0.6", "c"), "plan c": wants("10.0.0.5", "b")}, "a not started, b failed, c failed", "", "",
			"b needs an address of c, and the other way round: deploy one of the members with a free address first"},
		"of another deployment": {"", map[string]string{"plan a": givesUp, "plan c": wants("10.0.0.5", "other")}, "a not started, b not started, c failed", "", "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, "abc", c.update, c.does)
			for _, member := range []string{"a", "b", "c", "other"} {
				s.deployedAs(t, member, nil)
			}
			opts := s.options(t)
			changes := ""
			opts.Confirm = func(_ context.Context, r *Record) error {
				changes = strings.Join(r.Find("c").Changes, ", ")
				return nil
			}
			r, _ := Deploy(t.Context(), opts)
			if verdicts(r) != c.verdicts || s.calls("deploy") != c.deploys {
				t.Errorf("%s; deployed %s", verdicts(r), s.calls("deploy"))
			}
			if m := r.Find("c"); changes != c.changes && c.changes != "" || m.Hint != c.hint || (m.Reason == "10.0.0.5 is taken") != (m.Verdict == schedule.Failed) {
				t.Errorf("changes %s; %s, %s", changes, m.Reason, m.Hint)
			}
		})
	}
}
