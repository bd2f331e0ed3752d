package team_test

import (
	"fmt"
	"strings"
	"testing"

	"bootstrap/state/team"
	"bootstrap/state/versions"
)

// A machine that has seen nothing of a store refuses a state or a record that is older than
// its history, until a person trusts it. A state that was written meanwhile is not old.
func testBehind(t *testing.T, address string) {
	anna := newPerson(t, "anna")
	a := anna.open(address, "")
	key := ""
	for name, text := range map[string]string{"state.json": stateText, "deployment/deployment.json": `{"format": 1, "serial": 1}`} {
		c := a
		if strings.Contains(name, "/") {
			c = a.Record()
		}
		var first, second []byte
		for i, content := range []string{text, strings.Replace(text, "1}", "2}", 1)} {
			anna.save(c, content)
			first, second = second, raw(t, c, name)
			lock(t, c.Store)
			if err := c.Keep(t.Context(), i+1, versions.Documents{versions.Snapshot: []byte(content)}, versions.Rules{}); err != nil {
				t.Fatal(err)
			}
			if err := c.Unlock(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		key, _, _ = a.KeyText(t.Context())
		load := func(who string) error {
			t.Helper()
			c := newPerson(t, who).open(address, key)
			if strings.Contains(name, "/") {
				c = c.Record()
			}
			_, err := c.Load(t.Context())
			return err
		}
		put(t, c, name, first)
		for range 2 {
			if err := load("cleo"); !isDoubt(err, team.Behind) || !strings.Contains(fmt.Sprint(err), name) {
				t.Errorf("%s: %v", name, err)
			}
		}
		put(t, c, name, second)
		if err := load("cleo"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		put(t, c, name, first)

		bert := newPerson(t, "bert").open(address, key)
		found, err := bert.Examine(t.Context())
		if err != nil || !found.Doubtful() {
			t.Fatalf("%s: %+v, %v", name, found, err)
		}
		lock(t, bert.Store)
		if err := bert.Trust(t.Context(), found); err != nil {
			t.Fatal(err)
		}
		if err := bert.Unlock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := load("cleo"); err != nil {
			t.Errorf("%s after a person has trusted it: %v", name, err)
		}
	}
}

func TestRaise(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, content, want string }{
		{"state.json", `{"bootstrap": {"serial": 3, "format": 1}, "disks": []}`, `"serial": 8`},
		{"state.json", `{"bootstrap": {"serial": 7}}`, `"serial": 7`},
		{"state.json", `{"disks": []}`, `{"disks": []}`}, // of another tool
		{"deployment/deployment.json", `{"serial": 3, "instances": [{"state_serial": 5}]}`, `"serial": 8`},
	} {
		got, err := team.Raise(c.name, []byte(c.content), 7)
		if err != nil || !strings.Contains(string(got), c.want) {
			t.Errorf("%s of %s: %s, %v", c.name, c.content, got, err)
		}
	}
}
