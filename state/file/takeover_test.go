package file

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/state"
)

// takenOver copies a file of testdata/takeover and replaces its placeholder by dir.
func takenOver(t *testing.T, from, to, dir string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, bytes.ReplaceAll(data, []byte("{DIR}"), []byte(dir)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Each state file, backup, mirror and rescue file of an earlier version is read.
func TestEarlierVersions(t *testing.T) {
	labs, err := filepath.Glob("../../testdata/takeover/*/*/state/page.json")
	if err != nil || len(labs) < 12 {
		t.Fatalf("state files %v, %v", labs, err)
	}
	rescued := 0
	for _, source := range labs {
		lab := filepath.Dir(filepath.Dir(source))
		t.Run(filepath.Base(lab), func(t *testing.T) {
			dir := t.TempDir()
			home, path := filepath.Join(dir, "home", ".bosh"), filepath.Join(dir, "state", "page.json")
			for _, pattern := range []string{"state/page.json", "state/page.json.backups/*", "home/.bosh/*/*.json"} {
				files, err := filepath.Glob(filepath.Join(lab, pattern))
				if err != nil {
					t.Fatal(err)
				}
				for _, file := range files {
					rel, err := filepath.Rel(lab, file)
					if err != nil {
						t.Fatal(err)
					}
					takenOver(t, file, filepath.Join(dir, rel), dir)
				}
			}
			list, err := Versions(path)
			if err != nil || len(list) == 0 {
				t.Errorf("backups %v, %v", list, err)
			}
			for _, v := range list {
				if v.Err != nil || v.State.Own.Serial != v.Serial {
					t.Errorf("backup %d is read with serial number %d: %v", v.Serial, v.State.Own.Serial, v.Err)
				}
			}
			before, found, err := Read(path, "")
			if err != nil || !found {
				t.Fatalf("found %t, %v", found, err)
			}

			// After create-env has saved the file, the other keys come from the mirror.
			asCreateEnv(t, path, nil)
			s := with(t, path, home)
			defer s.Close()
			after := s.Get()
			notes := strings.Join(s.Notes(), "\n")
			if !strings.Contains(notes, "was taken from "+filepath.Join(home, before.InstallationID, "state.json")) {
				t.Errorf("notes: %s", notes)
			}
			if strings.Contains(notes, "could not record that create_disk made disk-") {
				rescued++
				before = rescuedState(t, before, after)
			}
			if a, b := text(t, before), text(t, after); a != b {
				t.Errorf("the file has %s\nwith the mirror it is %s", a, b)
			}
			if before.CurrentVMCID != "" {
				if vm, ok := Remembered(home, path, before.Own.AgentID); !ok || vm.VM != before.CurrentVMCID {
					t.Errorf("remembered %+v, %t", vm, ok)
				}
			}
		})
	}
	if rescued != 1 {
		t.Errorf("%d rescue files were read", rescued)
	}
}

// rescuedState returns before with the rescued disk, which is in after.
func rescuedState(t *testing.T, before, after state.State) state.State {
	t.Helper()
	if len(before.Disks) != 0 || len(before.Own.Intents) != 1 || len(after.Disks) != 1 || after.Disks[0].Size != 64 {
		t.Errorf("rescued %+v", after)
	}
	before.Disks, before.Own.Intents, before.Own.Serial = after.Disks, nil, after.Own.Serial
	return before
}

func text(t *testing.T, st state.State) string {
	t.Helper()
	data, err := json.Marshal(st)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
