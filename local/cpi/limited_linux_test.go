package cpi

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/agent"
	"bootstrap/local/namespace"
)

// needLimitedDisks skips a test if the size of disks cannot be limited here.
func needLimitedDisks(t *testing.T) {
	t.Helper()
	if err := DisksNotHeld(agent.MachineNamespace); err != nil {
		t.Skipf("no disks with a limit here: %v", err.Cause)
	}
}

// rootOf returns the path on this machine of a path in the VM.
func (w *world) rootOf(t *testing.T, vm, path string) string {
	t.Helper()
	return filepath.Join("/proc", fmt.Sprint(w.first(t, vm)), "root", path)
}

func wants(t *testing.T, file, want string) {
	t.Helper()
	if text, err := os.ReadFile(file); err != nil || string(text) != want {
		t.Errorf("%s has %q, %v", file, text, err)
	}
}

// A disk of a VM of namespaces is a file system of the disk's size. It is mounted only in
// the VM, and again after a restart. It keeps its data when it is resized, copied or
// attached to another VM, and leaves no loop device.
func TestLimitedDisk(t *testing.T) {
	t.Parallel()
	for _, worldOf := range []func(*testing.T) *world{namespaces, containers} {
		w := worldOf(t)
		needLimitedDisks(t)
		t.Run(w.machine, func(t *testing.T) { t.Parallel(); testLimitedDisk(t, w) })
	}
}

func testLimitedDisk(t *testing.T, w *world) {
	ctx, c := t.Context(), w.client()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	stemcell := ""
	if w.machine == agent.MachineContainer {
		stemcell = w.realStemcell(t, image(t, rootFS(t)))
	} else {
		stemcell = w.stemcell(t)
	}
	vm := w.vm(t, stemcell)
	disk, err := c.CreateDisk(ctx, 16, nil, vm)
	must(err)
	place := namespace.GuestDisk(disk)
	for range 2 { // again after a kill
		if hint, err := c.AttachDisk(ctx, vm, disk); err != nil || hint != any(place) {
			t.Fatalf("hint %v, %v", hint, err)
		}
	}
	kept := func(vm string) string { t.Helper(); return w.rootOf(t, vm, place+"/kept") }
	must(os.WriteFile(kept(vm), []byte("data"), 0o600))
	if err := os.WriteFile(w.rootOf(t, vm, place+"/large"), make([]byte, 16<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("wrote more than the size: %v", err)
	}
	if sizes := get(t, w.file("vms", vm, agent.BootSizesFile)); sizes["persistent"] != nil {
		t.Errorf("the agent is told to count: %v", sizes)
	}
	snapshot, err := c.SnapshotDisk(ctx, disk, nil)
	must(err)
	wants(t, w.file("snapshots", snapshot, "data", "kept"), "data")
	_, err = c.Call(ctx, "delete_snapshot", snapshot)
	must(err)

	must(c.RebootVM(ctx, vm))
	wants(t, kept(vm), "data")
	must(syscall.Kill(w.first(t, vm), syscall.SIGKILL))
	w.noLoops(t)
	must(c.RebootVM(ctx, vm))
	wants(t, kept(vm), "data")

	must(c.DetachDisk(ctx, vm, disk))
	w.noLoops(t)
	if _, err := os.Stat(w.rootOf(t, vm, place)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after it was detached: %v", err)
	}
	must(c.ResizeDisk(ctx, disk, 48))
	_, err = c.AttachDisk(ctx, vm, disk)
	must(err)
	wants(t, kept(vm), "data")
	must(os.WriteFile(w.rootOf(t, vm, place+"/large"), make([]byte, 20<<20), 0o600))
	must(c.DeleteVM(ctx, vm))
	w.noLoops(t)

	// A VM that is a folder has the same files in a folder.
	if w.machine == agent.MachineNamespace {
		other := w.vmWith(t, stemcell, folder())
		_, err = c.AttachDisk(ctx, other, disk)
		must(err)
		wants(t, w.file("disks", disk, "data", "kept"), "data")
		if _, err := os.Stat(w.file("disks", disk, imageFile)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the image: %v", err)
		}
		must(c.DeleteVM(ctx, other))
	}
	must(c.DeleteDisk(ctx, disk))
	must(c.DeleteStemcell(ctx, stemcell))
	w.nothingLeft(t)
}

// The data of a disk survive calls that are killed while they mount, unmount, resize or
// copy it.
func TestKilledWithDisk(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	needLimitedDisks(t)
	k := &killer{world: w, took: map[string]time.Duration{}, cfg: filepath.Join(w.jobs, "killed.json")}
	write(t, k.cfg, []byte(`{"root":"`+k.root+`","agent":{"mbus":"https://u:p@0.0.0.0:6868"}}`), 0o600)
	stemcell := w.stemcell(t)
	vm := w.vm(t, stemcell)
	size := 8
	var disk string
	if err := json.Unmarshal(k.must(t, "create_disk", size, map[string]any{}, vm), &disk); err != nil {
		t.Fatal(err)
	}
	k.must(t, "attach_disk", vm, disk)
	kept := namespace.GuestDisk(disk) + "/kept"
	write(t, w.rootOf(t, vm, kept), []byte("data"), 0o600)
	rounds := 24
	if text := os.Getenv("BOOTSTRAP_KILLS"); text != "" {
		if _, err := fmt.Sscan(text, &rounds); err != nil {
			t.Fatal(err)
		}
	}
	for round := range rounds {
		switch round % 4 {
		case 0:
			k.killed(t, "detach_disk", vm, disk)
		case 1:
			k.must(t, "detach_disk", vm, disk)
			if k.killed(t, "resize_disk", disk, size+4) {
				size += 4
			}
		case 2:
			k.killed(t, "reboot_vm", vm)
			k.must(t, "reboot_vm", vm)
			k.killed(t, "snapshot_disk", disk, map[string]any{})
		case 3:
			k.must(t, "detach_disk", vm, disk)
			k.killed(t, "attach_disk", vm, disk)
		}
		k.must(t, "attach_disk", vm, disk)
		wants(t, w.rootOf(t, vm, kept), "data")
		if loops := loopsOf(w.root); len(loops) != 1 {
			t.Errorf("round %d: loop devices %v", round, loops)
		}
		if t.Failed() {
			return
		}
	}
	k.must(t, "detach_disk", vm, disk)
	k.must(t, "resize_disk", disk, size+4) // a killed call may have begun this
	k.must(t, "delete_vm", vm)
	k.must(t, "delete_disk", disk)
	k.must(t, "delete_stemcell", stemcell)
	for _, snapshot := range k.check(t, "the end")["snapshots"] {
		k.must(t, "delete_snapshot", snapshot)
	}
	w.nothingLeft(t)
}
