//go:build unix

package deployer

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/state"
)

// The snapshot is reported, and its CID is recorded.
func TestSnapshotIsRecorded(t *testing.T) {
	t.Parallel()
	r := snapshotRun(t, `grep -q '"method": "snapshot_disk"' state.json && echo '{"result":"snap-1"}'`)
	if err := r.disks.snapshot(t.Context(), plan.Step{Name: "disk-1"}); err != nil {
		t.Fatal(err)
	}
	if st := r.t.State.Get(); len(st.Own.Snapshots) != 1 || st.Own.Snapshots[0].CID != "snap-1" || st.Own.Snapshots[0].Taken.IsZero() || len(st.Own.Intents) > 0 {
		t.Errorf("snapshots %v, intents %v", st.Own.Snapshots, st.Own.Intents)
	}
	r = snapshotRun(t, dies)
	if err := r.disks.snapshot(t.Context(), plan.Step{Name: "disk-1"}); err == nil || len(r.t.State.Get().Own.Intents) != 1 {
		t.Errorf("error %v, intents %v", err, r.t.State.Get().Own.Intents)
	}
	r = snapshotRun(t, refuses(cpi.TypeNotImplemented))
	if err := r.disks.snapshot(t.Context(), plan.Step{Name: "disk-1"}); err != nil || len(r.t.State.Get().Own.Intents) != 0 {
		t.Errorf("error %v, intents %v", err, r.t.State.Get().Own.Intents)
	}
}

func snapshotRun(t *testing.T, reply string) scripted {
	r := scriptedRun(t, map[string]string{"snapshot_disk": reply})
	r.reads(emptyManifest())
	return r
}

// If the CPI refuses to attach a disk twice, a disk that an interrupted run has attached
// is detached first.
func TestAttachAgain(t *testing.T) {
	t.Parallel()
	attach := fmt.Sprintf("if [ -e attached ]; then %s; else touch attached; echo '{\"result\":null}'; fi", refuses(cpi.TypeCloudError))
	for name, c := range map[string]struct {
		disks string // the answer of get_disks
		calls string
		err   string
	}{
		"attached":     {`["disk-1"]`, "attach_disk get_disks detach_disk attach_disk", ""},
		"not attached": {`["disk-0"]`, "attach_disk get_disks", "no way"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, map[string]string{
				"attach_disk": attach, "detach_disk": "rm attached; " + good,
				"get_disks": fmt.Sprintf(`echo '{"result":%s}'`, c.disks), "set_disk_metadata": good,
			})
			r.reads(emptyManifest())
			r.t.Env.AgentTimeout = time.Minute
			mbus, ca := agentAt(t, "agent-1")
			var err error
			if r.agent, err = r.t.Agents.New(mbus, ca); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(r.t.Dir, "attached"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			_, err = r.client.AttachDisk(t.Context(), "vm-1", "disk-1")
			_ = os.Remove(filepath.Join(r.t.Dir, "calls"))
			_, err = r.disks.attachAgain(t.Context(), r.t.Out.Root, plan.Step{}, state.Disk{CID: "disk-1"}, err)
			if (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
				t.Errorf("error %v, want %q", err, c.err)
			}
			if calls := "attach_disk " + r.calls(); calls != c.calls {
				t.Errorf("calls %q, want %q", calls, c.calls)
			}
		})
	}
}
