//go:build linux || darwin

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/agent"
)

// disk creates the folder of a disk and adds it to the VM's settings, as the CPI
// would.
func (m *testVM) disk(cid string) string {
	m.t.Helper()
	folder := filepath.Join(m.dir, "disks", cid)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		m.t.Fatal(err)
	}
	m.attach(cid, folder)
	return folder
}

func (m *testVM) attach(cid string, value any) {
	m.t.Helper()
	file := filepath.Join(m.dir, "settings.json")
	data, err := os.ReadFile(file)
	if err != nil {
		m.t.Fatal(err)
	}
	var s agent.Settings
	if err := json.Unmarshal(data, &s); err != nil {
		m.t.Fatal(err)
	}
	s.Disks.Persistent[cid] = value
	m.writeJSON(file, s)
}

func TestDisks(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	if got := m.try("mount_disk", "disk-1"); got != "Reading persistent disk settings: Persistent disk with volume id 'disk-1' could not be found" {
		t.Errorf("mount_disk of an unknown disk: %q", got)
	}
	if got := m.try("unmount_disk", "disk-1"); got != "Getting persistent disk settings: Persistent disk with volume id 'disk-1' could not be found" {
		t.Errorf("unmount_disk of an unknown disk: %q", got)
	}
	want := "Migrating persistent disk: Remounting persistent disk as readonly: Error finding device for mount point " + m.vcap("store") + ": <nil cause>"
	if got := m.try("migrate_disk"); got != want {
		t.Errorf("migrate_disk without a disk: %q", got)
	}
	if err := os.WriteFile(m.vcap("store", "below"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}

	folder := m.disk("disk-1")
	shown := "{ID:disk-1 DeviceID: VolumeID:" + folder + " Lun: HostDeviceID: Path:" + folder +
		" ISCSISettings:{InitiatorName: Username: Target: Password:} FileSystemType: MountOptions:[] Partitioner:}"
	for range 2 {
		if got := m.must("mount_disk", "disk-1"); got != "{}" {
			t.Errorf("mount_disk: %s", got)
		}
	}
	if got := m.must("list_disk"); got != `["disk-1"]` {
		t.Errorf("list_disk: %s", got)
	}
	if got := m.read("bosh", "managed_disk_settings.json"); got != "disk-1" {
		t.Errorf("managed_disk_settings.json: %q", got)
	}
	if err := os.WriteFile(m.vcap("store", "data"), []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(filepath.Join(folder, "data")); string(got) != "kept" {
		t.Errorf("the disk has %q, %v", got, err)
	}
	if exists(m.vcap("store", "below")) {
		t.Error("what was below the mount point is seen")
	}
	if got := m.must("unmount_disk", "disk-1"); got != `{"message":"Unmounted partition of `+shown+`"}` {
		t.Errorf("unmount_disk: %s", got)
	}
	if got := m.must("unmount_disk", "disk-1"); got != `{"message":"Partition of `+shown+` is not mounted"}` {
		t.Errorf("unmount_disk again: %s", got)
	}
	if got := m.read("store", "below") + m.read("store", "data"); got != "before" {
		t.Errorf("after unmount_disk store has %q", got)
	}
	if got := m.must("list_disk"); got != "[]" {
		t.Errorf("list_disk: %s", got)
	}
}

func TestDiskHints(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	folder := m.disk("attached")
	for cid, hint := range map[string]any{
		"text": folder, "map": map[string]any{"path": folder}, "volume": map[string]any{"volume_id": folder},
	} {
		m.must("add_persistent_disk", cid, hint)
		m.must("mount_disk", cid)
		if got := m.must("list_disk"); !strings.Contains(got, `"`+cid+`"`) {
			t.Errorf("list_disk with hint %v: %s", hint, got)
		}
		m.must("unmount_disk", cid)
	}
	var hints map[string]diskSettings
	if err := json.Unmarshal([]byte(m.read("bosh", "persistent_disk_hints.json")), &hints); err != nil || len(hints) != 3 || hints["text"].Path != folder {
		t.Errorf("persistent_disk_hints.json: %+v, %v", hints, err)
	}
	for _, cid := range []string{"text", "unknown"} {
		m.must("remove_persistent_disk", cid)
	}
	if got := m.try("mount_disk", "text"); !strings.Contains(got, "could not be found") {
		t.Errorf("mount_disk of a removed disk: %q", got)
	}
	for hint, want := range map[any]string{
		nil: "path is missing", 5: "path is missing", "relative": "no absolute path",
		filepath.Join(m.dir, "gone"): "no such file", filepath.Join(m.dir, "boot.json"): "is no folder",
	} {
		m.must("add_persistent_disk", "bad", hint)
		if got := m.try("mount_disk", "bad"); !strings.HasPrefix(got, "Mounting persistent disk: ") || !strings.Contains(got, want) {
			t.Errorf("mount_disk with hint %v: %q", hint, got)
		}
		m.must("unmount_disk", "bad")
		m.must("list_disk")
	}
	m.must("add_dynamic_disk", "dyn", folder)
	if got, _ := os.Readlink(m.vcap("data", "dynamic_disks", "dyn")); got != folder {
		t.Errorf("the dynamic disk is %q", got)
	}
	if got := m.must("remove_dynamic_disk", "dyn"); got != "{}" || exists(m.vcap("data", "dynamic_disks", "dyn")) {
		t.Errorf("remove_dynamic_disk: %s", got)
	}
}

// fill writes files of every kind that a copy may get wrong.
func fill(t *testing.T, dir string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	p := func(name string) string { return filepath.Join(dir, name) }
	must(os.MkdirAll(p("deep/er/est"), 0o750))
	must(os.WriteFile(p("deep/er/text"), []byte("text"), 0o640))
	must(os.WriteFile(p("unreadable"), []byte("secret"), 0o600))
	must(os.Link(p("deep/er/text"), p("hard")))
	must(os.Symlink("deep/er/text", p("soft")))
	must(os.Symlink("/nowhere/at/all", p("dangling")))
	must(syscall.Mkfifo(p("pipe"), 0o620))
	must(os.WriteFile(p("empty"), nil, 0o444))
	f, err := os.Create(p("sparse"))
	must(err)
	_, err = f.WriteAt([]byte("far"), 256<<20)
	must(err)
	must(f.Truncate(300 << 20))
	must(f.Close())
	must(os.Chmod(p("unreadable"), 0))
	must(os.Chtimes(p("deep/er/text"), time.Time{}, time.Unix(1e9, 0)))
	must(os.Mkdir(p("readonly"), 0o700))
	must(os.WriteFile(p("readonly/x"), []byte("x"), 0o600))
	must(os.Chmod(p("readonly"), 0o550))
	must(os.Chtimes(p("readonly"), time.Time{}, time.Unix(1e9, 0)))
	t.Cleanup(func() { _ = os.Chmod(p("readonly"), 0o700) })
}

func checkCopy(t *testing.T, from, to string) {
	t.Helper()
	if a, b := tree(t, from), tree(t, to); a != b {
		t.Errorf("the copy differs:\n%s\n%s", a, b)
	}
	stat := func(name string) *syscall.Stat_t {
		info, err := os.Lstat(filepath.Join(to, name))
		if err != nil {
			t.Fatal(err)
		}
		return info.Sys().(*syscall.Stat_t)
	}
	if stat("hard").Ino != stat("deep/er/text").Ino {
		t.Error("a hard link became a file of its own")
	}
	if got := stat("sparse").Blocks * 512; got > 1<<20 {
		t.Errorf("the hole was filled: %d bytes", got)
	}
	for _, name := range []string{"deep/er/text", "readonly"} {
		info, err := os.Stat(filepath.Join(to, name))
		if err != nil || info.ModTime().Unix() != 1e9 {
			t.Errorf("%s has time %v, %v", name, info, err)
		}
	}
	if err := compareTrees(context.Background(), from, to); err != nil {
		t.Error(err)
	}
}

func TestMigrateDisk(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	old, fresh := m.disk("old"), m.disk("new")
	third := m.disk("third")
	m.must("mount_disk", "old")
	fill(t, old)
	m.must("mount_disk", "new")
	if got := m.must("list_disk"); got != `["new","old"]` {
		t.Errorf("list_disk: %s", got)
	}
	if got := m.try("mount_disk", "third"); !strings.Contains(got, "is already mounted to") {
		t.Errorf("a third disk: %q (%s)", got, third)
	}
	if got := m.must("migrate_disk"); got != "{}" {
		t.Errorf("migrate_disk: %s", got)
	}
	t.Cleanup(func() { _ = os.Chmod(filepath.Join(fresh, "readonly"), 0o700) })
	checkCopy(t, old, fresh)
	if got := m.must("list_disk"); got != `["new"]` {
		t.Errorf("list_disk after migrate_disk: %s", got)
	}
	if got, _ := os.Readlink(m.vcap("store")); got != fresh {
		t.Errorf("store is %s", got)
	}
	m.must("unmount_disk", "new")
}

// TestMigrateToAUsedDisk: data that is already on the new disk is kept.
func TestMigrateToAUsedDisk(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	old, used := m.disk("old"), m.disk("used")
	for name, text := range map[string]string{filepath.Join(old, "a"): "old", filepath.Join(used, "a"): "used", filepath.Join(used, "b"): "used"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.must("mount_disk", "old")
	m.must("mount_disk", "used")
	m.must("migrate_disk")
	if got := m.read("store", "a") + m.read("store", "b"); got != "oldused" {
		t.Errorf("the disk has %q", got)
	}
}

// TestKilledInMigrate kills the agent while it copies; the old disk stays mounted, and
// the next migration is complete.
func TestKilledInMigrate(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	old, fresh := m.disk("old"), m.disk("new")
	for i := range 400 {
		if err := os.WriteFile(filepath.Join(old, strconv.Itoa(i)), make([]byte, 100_000), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	m.exec()
	m.await()
	m.must("mount_disk", "old")
	m.must("mount_disk", "new")
	m.begin("migrate_disk", 0)
	m.eventually("the migration has begun", func() bool {
		entries, _ := os.ReadDir(fresh)
		return len(entries) > 20
	})
	m.endAgent(syscall.SIGKILL)
	if entries, _ := os.ReadDir(fresh); len(entries) == 400 {
		t.Log("the migration was too fast to be cut")
	}
	if err := os.Remove(filepath.Join(old, "0")); err != nil {
		t.Fatal(err)
	}
	m.exec()
	m.await()
	if got, _ := os.Readlink(m.vcap("store")); got != old && got != fresh {
		t.Fatalf("store is %q", got)
	} else if got == old {
		m.must("migrate_disk")
		if exists(filepath.Join(fresh, "0")) {
			t.Error("what the cut migration copied came back")
		}
	}
	if got := m.must("list_disk"); got != `["new"]` {
		t.Errorf("list_disk: %s", got)
	}
}

func TestRepairStore(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(m *testVM, disk string) error
		want   string // result of list_disk
	}{
		"between hiding and linking": {func(m *testVM, _ string) error {
			return os.Rename(m.vcap("store"), m.vcap(hiddenStore))
		}, `[]`},
		"nothing at all": {func(m *testVM, _ string) error { return os.Remove(m.vcap("store")) }, `[]`},
		"disk mounted":   {func(m *testVM, _ string) error { m.must("mount_disk", "d"); return nil }, `["d"]`},
		"disk gone": {func(m *testVM, disk string) error {
			m.must("mount_disk", "d")
			return os.Rename(disk, disk+"-gone")
		}, `[]`},
		"disk detached": {func(m *testVM, _ string) error {
			m.must("mount_disk", "d")
			m.attach("d", "/nowhere")
			return nil
		}, `[]`},
		"migration not finished": {func(m *testVM, disk string) error {
			m.must("mount_disk", "d")
			return os.Symlink(disk, m.vcap(migrationTarget))
		}, `["d"]`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := startMachine(t)
			disk := m.disk("d")
			if err := c.change(m, disk); err != nil {
				t.Fatal(err)
			}
			m.halt()
			m.run()
			m.await()
			if got := m.must("list_disk"); got != c.want {
				t.Errorf("list_disk: %s, want %s", got, c.want)
			}
			if info, err := os.Stat(m.vcap("store")); err != nil || !info.IsDir() {
				t.Errorf("store is %v, %v", info, err)
			}
			if exists(m.vcap(migrationTarget)) {
				t.Error("the migration target is left")
			}
			if err := os.MkdirAll(disk, 0o700); err != nil {
				t.Fatal(err)
			}
			m.attach("d", disk)
			m.must("mount_disk", "d")
		})
	}
}

// TestCopyStaysOnTheDisk: links on a used disk are replaced, not followed.
func TestCopyStaysOnTheDisk(t *testing.T) {
	t.Parallel()
	from, to, outside := t.TempDir(), t.TempDir(), t.TempDir()
	for _, err := range []error{
		os.MkdirAll(filepath.Join(from, "dir"), 0o700), os.WriteFile(filepath.Join(from, "dir", "f"), nil, 0o600),
		os.WriteFile(filepath.Join(from, "file"), []byte("new"), 0o600), os.Mkdir(filepath.Join(from, "other"), 0o700),
		os.Symlink(outside, filepath.Join(to, "dir")), os.WriteFile(filepath.Join(outside, "file"), []byte("old"), 0o600),
		os.Symlink(filepath.Join(outside, "file"), filepath.Join(to, "file")), os.WriteFile(filepath.Join(to, "other"), nil, 0o600),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := copyTree(t.Context(), from, to); err != nil {
		t.Fatal(err)
	}
	if err := compareTrees(t.Context(), from, to); err != nil {
		t.Error(err)
	}
	if got := tree(t, outside); strings.Count(got, "\n") != 2 {
		t.Errorf("outside the disk there is now\n%s", got)
	}
	if got, _ := os.ReadFile(filepath.Join(outside, "file")); string(got) != "old" {
		t.Errorf("a file outside the disk is %q", got)
	}
}

func TestCopyEndsWithItsContext(t *testing.T) {
	t.Parallel()
	from, to := t.TempDir(), t.TempDir()
	fill(t, from)
	ctx, cancel := context.WithCancelCause(context.Background())
	why := errors.New("enough")
	cancel(why)
	if err := copyTree(ctx, from, to); !errors.Is(err, why) {
		t.Errorf("copyTree: %v", err)
	}
}

func TestCompareFindsDifferences(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(dir string) error{
		"contents": func(dir string) error { return os.WriteFile(filepath.Join(dir, "deep/er/text"), []byte("tex!"), 0o640) },
		"missing":  func(dir string) error { return os.Remove(filepath.Join(dir, "empty")) },
		"mode":     func(dir string) error { return os.Chmod(filepath.Join(dir, "empty"), 0o600) },
		"size":     func(dir string) error { return os.Truncate(filepath.Join(dir, "sparse"), 3) },
		"far":      func(dir string) error { return writeAt(filepath.Join(dir, "sparse"), 256<<20) },
		"link": func(dir string) error {
			name := filepath.Join(dir, "soft")
			return errors.Join(os.Remove(name), os.Symlink("other", name))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := t.TempDir(), t.TempDir()
			fill(t, from)
			if err := copyTree(context.Background(), from, to); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = os.Chmod(filepath.Join(to, "readonly"), 0o700) })
			checkCopy(t, from, to)
			if err := spoil(to); err != nil {
				t.Fatal(err)
			}
			if err := compareTrees(context.Background(), from, to); err == nil {
				t.Error("no difference was found")
			}
		})
	}
}

func writeAt(name string, at int64) error {
	f, err := os.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteAt([]byte("FAR"), at)
	return errors.Join(err, f.Close())
}

// If the size of a disk is known, its use is that of its data. More data than that is
// reported, because the disk itself has no limit.
func TestDiskOverItsSize(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.disk("disk-1")
	m.writeJSON(filepath.Join(m.dir, agent.BootSizesFile), agent.BootSizes{Ephemeral: 100, Persistent: map[string]int{"disk-1": 2, "disk-2": 1}})
	m.must("mount_disk", "disk-1")
	if err := os.WriteFile(m.vcap("data", "file"), make([]byte, 4<<10), 0o600); err != nil { // folders take no space in memory
		t.Fatal(err)
	}
	fill := func(mib int) (vitals struct {
		Disk map[string]diskVitals
	}, notes []string) {
		t.Helper()
		if err := os.WriteFile(m.vcap("store", "data"), make([]byte, mib<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(m.vcap("store", "data"), m.vcap("store", "again")); err != nil && !errors.Is(err, os.ErrExist) {
			t.Fatal(err)
		}
		var state struct {
			Vitals struct{ Disk map[string]diskVitals }
			VM     agent.VM
		}
		if err := json.Unmarshal([]byte(m.must("get_state", "full")), &state); err != nil {
			t.Fatal(err)
		}
		vitals.Disk = state.Vitals.Disk
		return vitals, state.VM.Notes
	}
	vitals, notes := fill(1)
	if got := vitals.Disk["persistent"].Percent; got != "51" && got != "50" || len(notes) > 0 {
		t.Errorf("half full: %s%%, %v", got, notes)
	}
	if got := vitals.Disk["ephemeral"].Percent; got != "1" {
		t.Errorf("ephemeral: %s%%", got)
	}
	m.writeJSON(filepath.Join(m.dir, agent.BootSizesFile), agent.BootSizes{Persistent: map[string]int{"disk-1": 2}, NotHeld: []string{"install something"}})
	vitals, notes = fill(3)
	if got := vitals.Disk["persistent"].Percent; got != "151" && got != "150" {
		t.Errorf("over its size: %s%%", got)
	}
	if len(notes) != 2 || notes[0] != "install something" || !strings.HasPrefix(notes[1], "the persistent disk has 3 MiB of data and a size of 2 MiB; ") {
		t.Errorf("over its size: %q", notes)
	}
}
