package places

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"bootstrap/state/file"
)

// twoVersions deploys twice, and returns the machine and the document of each version.
func twoVersions(t *testing.T, w *world) (ann *machine, older, newer []byte) {
	t.Helper()
	ann = w.machine("ann")
	ann.deploy("vm-1")
	older = bytes.Clone(w.raw.get(t, "state.json"))
	ann.deploy("vm-2")
	return ann, older, bytes.Clone(w.raw.get(t, "state.json"))
}

// refuses checks that a document in place of the state is refused by the machine, and by
// one that has seen nothing if fresh is set; that nothing is changed; and that there is a
// way back.
func refuses(t *testing.T, w *world, ann *machine, with []byte, fresh bool) {
	t.Helper()
	w.raw.put(t, "state.json", with)
	machines := []*machine{ann}
	if fresh {
		machines = append(machines, w.machine("fresh"))
	}
	for _, m := range machines {
		before, _ := os.ReadFile(m.path()) // a machine that has seen nothing has none
		s, err := m.try()
		if err == nil {
			t.Errorf("%s uses it: %+v", m.who, s.Get())
			s.Close()
			continue
		}
		if w.address != "" && !isDoubt(err) {
			t.Errorf("%s: %v", m.who, err)
		}
		if after, _ := os.ReadFile(m.path()); !bytes.Equal(after, before) {
			t.Errorf("%s: its copy is now %q", m.who, after)
		}
		if now := w.raw.get(t, "state.json"); !bytes.Equal(now, with) {
			t.Errorf("%s: the document is now %q", m.who, now)
		}
	}
	if w.address == "" {
		list := ann.readVersions(t)
		if len(list) == 0 {
			t.Fatal("there are no versions")
		}
		check(t, ann.restore(t, list[0].Serial, true))
	} else if did, err := file.Push(t.Context(), true, ann.options()); err != nil || !did {
		t.Fatalf("the way back: %v, %v", did, err)
	}
	ann.expect("vm-2")
	w.machine("bob").expect("vm-2")
}

func emptied(t *testing.T, w *world) {
	ann, _, _ := twoVersions(t, w)
	refuses(t, w, ann, nil, true)
}

func truncated(t *testing.T, w *world) {
	ann, _, newer := twoVersions(t, w)
	refuses(t, w, ann, newer[:len(newer)/2], true)
}

// exchanged puts another document of the same store, and the state of another environment
// with the same key, in place of the state.
func exchanged(t *testing.T, w *world) {
	ann, _, _ := twoVersions(t, w)
	refuses(t, w, ann, w.raw.get(t, "history.json"), true)
}

func foreign(t *testing.T, w *world) {
	ann, _, _ := twoVersions(t, w)
	good := map[string][]byte{}
	for _, name := range w.raw.names(t) {
		good[name] = bytes.Clone(w.raw.get(t, name))
		w.raw.remove(t, name)
	}
	stranger := w.machine("stranger")
	stranger.given = key(2)
	stranger.deploy("vm-of-the-stranger")
	theirs := bytes.Clone(w.raw.get(t, "state.json"))
	for name, data := range good {
		w.raw.put(t, name, data)
	}
	refuses(t, w, ann, theirs, true)
}

func rolledBack(t *testing.T, w *world) {
	ann, older, _ := twoVersions(t, w)
	refuses(t, w, ann, older, false)
}

// rolledBackUnseen is rolledBack for a machine that has seen nothing: the history, which is
// signed, has a newer version.
func rolledBackUnseen(t *testing.T, w *world) {
	ann, older, _ := twoVersions(t, w)
	refuses(t, w, ann, older, true)
}

// missing removes the state while versions of it are left. A folder cannot tell that from
// a folder in which nothing was deployed, but the versions lead back.
func missing(t *testing.T, w *world) {
	ann, _, _ := twoVersions(t, w)
	w.raw.remove(t, "state.json")
	if w.address == "" {
		list := ann.readVersions(t)
		if len(list) == 0 {
			t.Fatal("there are no versions")
		}
		check(t, ann.restore(t, list[0].Serial, false))
		ann.expect("vm-2")
		return
	}
	lost(t, w, ann)
}

// emptiedPlace removes all documents of a place.
func emptiedPlace(t *testing.T, w *world) {
	ann, _, _ := twoVersions(t, w)
	for _, name := range w.raw.names(t) {
		w.raw.remove(t, name)
	}
	lost(t, w, ann)
}

// lost checks that looking at a place without its state removes nothing from the machine
// that has a copy, that no run begins there, and that the copy leads back.
func lost(t *testing.T, w *world, ann *machine) {
	t.Helper()
	before, err := os.ReadFile(ann.path())
	check(t, err)
	same := func(after string) {
		t.Helper()
		if data, err := os.ReadFile(ann.path()); err != nil || !bytes.Equal(data, before) {
			t.Fatalf("after %s, the copy is %q: %v", after, data, err)
		}
	}
	if err := file.Refresh(t.Context(), ann.options().Team); err == nil {
		t.Error("a command that only reads finds nothing wrong")
	}
	same("a command that only reads")
	if s, err := ann.try(); err == nil {
		t.Errorf("a run begins with %+v", s.Get())
		s.Close()
	}
	same("a run")
	if did, err := file.Push(t.Context(), true, ann.options()); err != nil || !did {
		t.Fatalf("the way back: %v, %v", did, err)
	}
	ann.expect("vm-2")
	w.machine("bob").expect("vm-2")
}

// damagedVersion damages one version: the others can be read and restored.
func damagedVersion(t *testing.T, w *world) {
	ann, _, _ := twoVersions(t, w)
	ann.deploy("vm-3")
	var name string
	for _, n := range w.raw.names(t) {
		if (strings.HasPrefix(n, "history/") || strings.Contains(n, ".backups/")) && strings.Contains(string(w.raw.get(t, n)), `"vm-1"`) {
			name = n
		}
	}
	if name == "" {
		t.Fatalf("no version has vm-1: %v", w.raw.names(t))
	}
	w.raw.put(t, name, w.raw.get(t, name)[:100])
	bob := w.machine("bob")
	if w.address != "" { // the damaged one is refused, whichever machine reads it
		opts := bob.options()
		check(t, file.Refresh(t.Context(), opts.Team))
		if err := file.PullHistory(t.Context(), opts.Team); !isDoubt(err) {
			t.Errorf("%v", err)
		}
	}
	list, err := file.Versions(ann.path())
	check(t, err)
	serial := 0
	for _, v := range list {
		if v.Err == nil && v.State.CurrentVMCID == "vm-2" {
			serial = v.Serial
		}
	}
	check(t, ann.restore(t, serial, true))
	ann.expect("vm-2")
	bob.expect("vm-2")
}

// conflict lets two machines change the same version: neither is overwritten.
func conflict(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	ann.deploy("vm-1")
	s := ann.open()
	w.faulty(func(request) verdict { return refuse })
	check(t, s.Update(toVM("vm-of-ann")))
	if s.Unsent() == nil {
		t.Fatal("a refused write has arrived")
	}
	s.Close()
	w.faulty(nil)
	store := bob.options().Team
	if held, err := store.Holder(t.Context()); err != nil {
		t.Fatal(err)
	} else if held != nil {
		check(t, store.Break(t.Context(), held.Fence))
	}
	bob.deploy("vm-of-bob")

	if s, err := ann.try(); !isConflict(err) {
		t.Fatalf("%v, %v", s, err)
	}
	if _, err := file.Push(t.Context(), false, ann.options()); err == nil {
		t.Fatal("ann has overwritten the state of bob")
	}
	kept, err := file.Pull(t.Context(), ann.options())
	check(t, err)
	if data, err := os.ReadFile(kept); err != nil || !strings.Contains(string(data), "vm-of-ann") {
		t.Errorf("%s: %v", data, err)
	}
	ann.expect("vm-of-bob")
}
