package deployment

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/versions"
)

// oneOf returns the place of a single state, after these runs have changed it.
func oneOf(t *testing.T, changes ...func(*state.State)) Place {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page-state.json")
	for _, change := range changes {
		s, err := file.Open(t.Context(), path, file.Options{})
		if err == nil {
			err = s.Update(func(st *state.State) error { change(st); return nil })
		}
		if err != nil {
			t.Fatal(err)
		}
		s.Attach(versions.Manifest, []byte("name: page\n"))
		s.Close()
	}
	return Place{Name: path, Path: path, One: true}
}

func readState(t *testing.T, at Place) state.State {
	t.Helper()
	st, _, err := file.Read(at.Path, "")
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func hasNote(done *Restored, text string) bool {
	return slices.ContainsFunc(done.Notes, func(note string) bool { return strings.Contains(note, text) })
}

// A single state is restored as the states of several instances are.
func TestRestoreOne(t *testing.T) {
	t.Parallel()
	at := oneOf(t,
		func(s *state.State) { s.CurrentVMCID = "vm-1" },
		func(s *state.State) { s.Own.Intents = []state.Intent{{ID: "i", Method: "create_disk"}} },
		func(s *state.State) { s.Own.Intents = nil; s.Disks = []state.Disk{{ID: "d", CID: "disk-1"}} })
	_, err := Restore(t.Context(), at, 2, false)
	if owns, ok := errors.AsType[*file.OwnsError](err); !ok || !slices.Equal(owns.Owned, []string{"disk disk-1"}) {
		t.Fatalf("error %v", err)
	}
	_, err = Restore(t.Context(), at, 9, false)
	if unknown, ok := errors.AsType[*UnknownVersionError](err); !ok || unknown.Serial != 9 {
		t.Errorf("error %v", err)
	}
	done, err := Restore(t.Context(), at, 2, true)
	if err != nil {
		t.Fatal(err)
	}
	st := readState(t, at)
	if st.Own.Serial != 4 || len(st.Disks) != 0 || st.CurrentVMCID != "vm-1" || len(st.Own.Intents) != 1 || len(st.Own.Leftovers) != 0 || !hasNote(done, "In version 2, create_disk had not ended") {
		t.Errorf("restored %+v, %v", st, done.Notes)
	}
	// A damaged file is replaced, and kept under another name.
	if err := os.WriteFile(at.Path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if done, err = Restore(t.Context(), at, 3, false); err != nil {
		t.Fatal(err)
	}
	if st := readState(t, at); st.Own.Serial != 5 || st.Disks[0].CID != "disk-1" || len(done.Notes) != 1 {
		t.Errorf("restored %+v, %v", st, done.Notes)
	}
	if data, err := os.ReadFile(at.Path + ".damaged"); err != nil || string(data) != "{" {
		t.Errorf("damaged file: %s, %v", data, err)
	}
	// The restored version has the documents of the earlier one.
	list, err := at.Versions(t.Context())
	if err != nil || !list[0].Present || !slices.Equal(list[0].Attached, []string{versions.Manifest}) {
		t.Errorf("%+v, %v", list[0], err)
	}
}
