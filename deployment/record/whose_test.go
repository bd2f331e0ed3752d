package record

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/internal/failure"
	"bootstrap/state"
)

const (
	firstID  = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"
	secondID = "7ba7b810-9dad-41d1-80b4-00c04fd430c8"
	aloneID  = "8ba7b810-9dad-51d1-80b4-00c04fd430c8" // from the group and ofAlone
	ofAlone  = "9ba7b810-9dad-41d1-80b4-00c04fd430c8"
	foreign  = "aba7b810-9dad-41d1-80b4-00c04fd430c8"
)

// A state is used only for its own instance, also if an earlier program, which did not record
// installation ids and serial numbers, has written the record.
func TestOwns(t *testing.T) {
	t.Parallel()
	alone := &Instance{ID: aloneID, Group: "web", State: "../x-state.json"}
	first := &Instance{ID: firstID, Group: "web", Index: 1, State: "web-6ba7b810.json"}
	second := &Instance{ID: secondID, Group: "web", Index: 2, State: "web-7ba7b810.json"}
	named := &Instance{ID: "web-of-a-person", Group: "db", State: "db.json"}
	former := &Instance{ID: "bba7b810-9dad-41d1-80b4-00c04fd430c8", Group: "web", Index: 3, State: "web-bba7b810.json"}
	r := &Record{Instances: []*Instance{alone, first, second, named}, Former: []*Instance{former}, dir: filepath.Join(t.TempDir(), "x-state")}
	check := func(in *Instance, installation string, serial int, of string) {
		t.Helper()
		err := r.Owns(in)(state.State{InstallationID: installation, Own: state.Own{Serial: serial}})
		stray, refused := errors.AsType[*StrayStateError](err)
		switch {
		case of == "" && err != nil, of != "" && !refused:
			t.Errorf("%s with the state %s, number %d: %v", in.Name(), installation, serial, err)
		case refused && stray.Of != of && (of != "another" || stray.Of != "") && (of != "old" || stray.Seen == 0):
			t.Errorf("%s with the state %s is that of %q, not %q", in.Name(), installation, stray.Of, of)
		case refused && stray.ExitCode() != failure.NoState:
			t.Errorf("exit code %d", stray.ExitCode())
		}
	}
	check(first, firstID, 3, "")
	check(first, secondID, 3, "web/2")
	check(first, former.ID, 3, "web/3")
	check(first, foreign, 3, "another")
	check(alone, ofAlone, 3, "") // nothing is known about it
	check(alone, secondID, 3, "web/2")
	check(named, foreign, 3, "")
	check(named, firstID, 3, "web/1")

	alone.Whose(state.State{InstallationID: ofAlone, Own: state.Own{Serial: 5}})
	first.Whose(state.State{InstallationID: firstID, Own: state.Own{Serial: 5}})
	if alone.Installation != ofAlone || first.Installation != "" {
		t.Errorf("installations %q and %q", alone.Installation, first.Installation)
	}
	check(alone, ofAlone, 5, "")
	check(alone, ofAlone, 4, "old")
	check(alone, ofAlone, 0, "") // another tool has written it
	check(alone, foreign, 5, "another")
	check(second, ofAlone, 5, "web/0")
	check(first, firstID, 4, "old")
	check(first, firstID, 6, "")
}

// The state of one instance cannot be a link to that of another one, also if none of both
// exists; a link to a file elsewhere is used.
func TestCheckLink(t *testing.T) {
	t.Parallel()
	top := t.TempDir()
	dir := filepath.Join(top, "x-state")
	first, second := &Instance{ID: firstID, Group: "web", State: "a.json"}, &Instance{ID: secondID, Group: "web", Index: 1, State: "b.json"}
	r := &Record{Instances: []*Instance{first, second}, dir: dir}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	for to, linked := range map[string]bool{"a.json": true, filepath.Join(dir, "a.json"): true, "../x-state/a.json": true, "../b.json": false} {
		if err := os.Symlink(to, filepath.Join(dir, "b.json")); err != nil {
			t.Fatal(err)
		}
		err := r.CheckLink(second)
		stray, refused := errors.AsType[*StrayStateError](err)
		if refused != linked || refused && (!stray.Link || stray.Of != "web/0") {
			t.Errorf("a link to %s: %v", to, err)
		}
		if err := r.CheckLink(first); err != nil {
			t.Errorf("the file itself: %v", err)
		}
		if err := os.Remove(filepath.Join(dir, "b.json")); err != nil {
			t.Fatal(err)
		}
	}
}
