package state

import (
	"strings"
	"testing"
)

// kept returns a state as create-env saves it, and the part that create-env removes.
func kept() (st State, own Own, cids CIDs) {
	st = sound()
	own, cids = st.Own, st.Current()
	own.AgentID, own.Salt, own.Serial = "agent", "salt", 7
	st.Own = Own{Format: Format, ManifestSHA1: "of the file"}
	return st, own, cids
}

func TestRestoreOwn(t *testing.T) {
	st, own, cids := kept()
	if same, err := st.RestoreOwn(own, cids); !same || err != nil || st.Own.AgentID != "agent" || len(st.Own.Orphans) != 1 || st.Own.ManifestSHA1 != "of the file" {
		t.Errorf("the same VM: %t, %v, %+v", same, err, st.Own)
	}

	st, own, cids = kept()
	st.CurrentVMCID = "vm-0" // own records it as the old VM
	if same, err := st.RestoreOwn(own, cids); same || err != nil || st.Own.AgentID != "" || st.Own.Swap != nil || len(st.Own.Orphans) != 1 || st.Own.Salt != "salt" || st.Own.Serial != 7 {
		t.Errorf("another VM: %t, %v, %+v", same, err, st.Own)
	}

	st, own, cids = kept()
	own.Intents = []Intent{{}}
	if _, err := st.RestoreOwn(own, cids); err == nil || len(st.Own.Intents) != 0 {
		t.Errorf("damaged: %v, %+v", err, st.Own)
	}

	// Defects in other parts of the state do not prevent restoring own.
	st, own, cids = kept()
	st.Releases[0].Name = ""
	if _, err := st.RestoreOwn(own, cids); err != nil || st.Own.AgentID != "agent" {
		t.Errorf("beside another defect: %v, %+v", err, st.Own)
	}
}

func TestRecover(t *testing.T) {
	st := sound()
	st.Own.Leftovers = nil
	made := Intent{ID: "i", Method: "create_disk", Size: 64}
	for _, want := range []string{"create_disk made disk-5", ""} { // the state contains it the second time
		if note := st.Recover(made, "disk-5"); !strings.Contains(note, want) || (note == "") != (want == "") {
			t.Errorf("note %q, want %q", note, want)
		}
		if len(st.Disks) != 2 || st.Disks[1].Size != 64 || len(st.Own.Intents)+len(st.Own.Leftovers) != 0 {
			t.Errorf("recovered %+v", st)
		}
	}
	if note := st.Recover(Intent{ID: "v", Method: "create_vm"}, "vm-9"); !strings.Contains(note, "it is a leftover") || len(st.Own.Leftovers) != 1 || st.Own.Leftovers[0].CID != "vm-9" {
		t.Errorf("a VM beside the current one: %q, %+v", note, st.Own.Leftovers)
	}
}
