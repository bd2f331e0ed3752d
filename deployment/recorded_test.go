package deployment

import (
	"path/filepath"
	"testing"

	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// An instance is empty, so that a deploy may forget it, only if its state has no VM and no
// disk.
func TestRecordedIsEmpty(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*state.State)
		want   bool
	}{
		"nothing":             {func(*state.State) {}, true},
		"a VM":                {func(st *state.State) { st.CurrentVMCID = "vm-1" }, false},
		"the persistent disk": {func(st *state.State) { st.AddDisk("disk-1", 64, nil); st.CurrentDiskID = st.Disks[0].ID }, false},
		"a named disk":        {func(st *state.State) { st.AddDisk("disk-1", 64, nil); st.SetNamed("data", st.Disks[0].ID, "") }, false},
	} {
		path := filepath.Join(t.TempDir(), "state.json")
		f, err := file.Open(t.Context(), path, file.Options{})
		if err != nil {
			t.Fatal(err)
		}
		err = f.Update(func(st *state.State) error { c.change(st); return nil })
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		if got := Recorded(&record.Record{}, "")(&record.Instance{State: path}).Empty; got != c.want {
			t.Errorf("%s: empty is %v", name, got)
		}
	}
}
