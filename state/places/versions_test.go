package places

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"bootstrap/state/file"
	"bootstrap/state/team"
	"bootstrap/state/versions"
)

func isConflict(err error) bool {
	_, conflict := errors.AsType[*team.ConflictError](err)
	return conflict
}

// keepsVersions checks that the newest versions are kept, on each machine, and the oldest are
// removed from the place, except one that is the only record of something.
func keepsVersions(t *testing.T, w *world) {
	const runs, fewest, most = 104, versions.Kept, 100
	ann, bob := w.machine("ann"), w.machine("bob")
	for n := range runs {
		if w.kind != "https" && n == 24 { // the others have the same code above their documents
			break
		}
		ann.deploy(fmt.Sprintf("vm-%d", n))
	}
	own, other := ann.readVersions(t), bob.readVersions(t)
	if len(own) < fewest || len(other) < fewest || len(other) > most+1 {
		t.Fatalf("ann has %d versions, bob %d", len(own), len(other))
	}
	for i, v := range other {
		switch {
		case v.Err != nil:
			t.Errorf("version %d: %v", v.Serial, v.Err)
		case len(v.Only) > 0:
			t.Errorf("version %d alone records %v, which ann has deleted", v.Serial, v.Only)
		case v.By != "ann@here" || v.Command != "deploy":
			t.Errorf("version %d: %+v", v.Serial, v.Version)
		case i > 0 && v.Serial >= other[i-1].Serial:
			t.Errorf("version %d comes after %d", v.Serial, other[i-1].Serial)
		case i < fewest && v.Serial != own[i].Serial:
			t.Errorf("version %d of ann is %d of bob", own[i].Serial, v.Serial)
		}
	}
	kept := 0
	for _, name := range w.raw.names(t) {
		if strings.HasPrefix(name, "history/") && strings.HasSuffix(name, ".json") {
			kept++
		}
	}
	if kept > most {
		t.Errorf("the place keeps %d versions", kept)
	}
}

// restore makes an earlier version the present one on another machine.
func restore(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	for _, vm := range []string{"vm-1", "vm-2", "vm-3"} {
		ann.deploy(vm)
	}
	list := bob.readVersions(t)
	i := 0
	for i < len(list) && list[i].State.CurrentVMCID != "vm-2" {
		i++
	}
	if i == len(list) {
		t.Fatalf("no version has vm-2: %+v", list)
	}
	err := bob.restore(t, list[i].Serial, false)
	if _, owns := errors.AsType[*file.OwnsError](err); !owns { // vm-3 is nowhere else
		t.Fatalf("%v", err)
	}
	newest := list[0].Serial
	check(t, bob.restore(t, list[i].Serial, true))
	s := bob.open()
	if got := s.Get(); got.Own.Serial <= newest || got.CurrentVMCID != "vm-2" {
		t.Errorf("restored %+v", got)
	}
	s.Close()
	ann.expect("vm-2")
	ann.deploy("vm-4")
	bob.expect("vm-4")
}

// forget removes the state, and nothing that it records.
func forget(t *testing.T, w *world) {
	ann, bob := w.machine("ann"), w.machine("bob")
	if err := file.Discard(t.Context(), bob.path(), false, bob.options()); err == nil {
		t.Error("discarded a state that does not exist")
	}
	ann.deploy("vm-1")
	err := file.Discard(t.Context(), bob.path(), false, bob.options())
	if _, owns := errors.AsType[*file.OwnsError](err); !owns {
		t.Fatalf("%v", err)
	}
	ann.expect("vm-1")
	check(t, file.Discard(t.Context(), bob.path(), true, bob.options()))
	if _, err := os.Stat(bob.path()); err == nil {
		t.Error("the state is still there")
	}
	s := ann.open()
	if s.Found() {
		t.Errorf("ann still has %+v", s.Get())
	}
	s.Close()

	// The next deployment at that place continues the serial numbers, and each machine can
	// read its versions and the last one of the former.
	w.machine("cid").deploy("vm-2")
	dan := w.machine("dan")
	vms := map[string]bool{}
	for _, v := range dan.readVersions(t) {
		vms[v.State.CurrentVMCID] = true
	}
	if !vms["vm-1"] || !vms["vm-2"] {
		t.Errorf("versions have %v", vms)
	}
	ann.expect("vm-2")
}
