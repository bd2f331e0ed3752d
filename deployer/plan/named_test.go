package plan

import (
	"slices"
	"testing"

	"bootstrap/manifest"
	"bootstrap/state"
)

// A plan names the orphans that may take the place of a new disk: those with its name, or
// without a name for the persistent disk.
func TestOrphansInPlaceOfNewDisks(t *testing.T) {
	t.Parallel()
	disk := manifest.DiskPool{Size: 64}
	for name, c := range map[string]struct {
		disk  *manifest.DiskPool
		named []manifest.NamedDisk
		want  []string
	}{
		"no disk":             {},
		"the persistent disk": {disk: &disk, want: []string{"disk-7"}},
		"named disks":         {named: []manifest.NamedDisk{{Name: "data", Pool: disk}, {Name: "wal", Pool: disk}}, want: []string{"disk-8"}},
	} {
		w, st := same(), deployed()
		w.Disk, w.Named = c.disk, c.named
		st.CurrentDiskID, st.Disks = "", nil
		st.Own.Orphans = []state.Orphan{{CID: "disk-7"}, {CID: "disk-8", Name: "data"}, {CID: "disk-9", Name: "logs"}}
		f := well()
		f.Mounted = nil
		d, err := decide(w, st, f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, r := range d.Warnings {
			if r.Cause == OrphanStays {
				got = append(got, r.Subject)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the plan names %q, want %q", name, got, c.want)
		}
	}
}
