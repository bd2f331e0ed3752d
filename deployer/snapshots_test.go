package deployer

import (
	"testing"

	"bootstrap/state"
)

// The disk of a snapshot has its own size, never that of another disk.
func TestSizeOfSource(t *testing.T) {
	t.Parallel()
	st := state.State{CurrentDiskID: "d", Disks: []state.Disk{{ID: "d", CID: "disk-1", Size: 64}}}
	st.Own.Orphans = []state.Orphan{{CID: "disk-2", Size: 128}}
	for name, c := range map[string]struct {
		snapshot state.Snapshot
		want     int // 0: unknown
	}{
		"recorded with it": {state.Snapshot{CID: "s", Disk: "disk-9", Size: 256}, 256},
		"current":          {state.Snapshot{CID: "s", Disk: "disk-1"}, 64},
		"orphan":           {state.Snapshot{CID: "s", Disk: "disk-2"}, 128},
		"deleted":          {state.Snapshot{CID: "s", Disk: "disk-9"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			size, _, err := sizeOfSource(st, c.snapshot)
			if size != c.want || (err == nil) != (c.want > 0) {
				t.Errorf("%d, %v", size, err)
			}
		})
	}
}
