//go:build !windows

package cpi

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/internal/process"
	"bootstrap/local/namespace"
)

// needNamespaces skips a test, with a reason, if this machine has no namespaces.
func needNamespaces(t testing.TB) {
	t.Helper()
	if err := tryNamespaces(); err != nil {
		t.Skipf("no VM of namespaces here: %v", err)
	}
}

var tryNamespaces = sync.OnceValue(func() error { return namespace.Try(context.Background(), os.Args[0]) })

// namespaces returns a world whose VMs use namespaces.
func namespaces(t *testing.T) *world {
	t.Helper()
	needNamespaces(t)
	w := newWorld(t, 2, nil)
	w.machine = agent.MachineNamespace
	return w
}

// first returns the id of a VM's first process, the only one with the VM's mark.
func (w *world) first(t *testing.T, vm string) int {
	t.Helper()
	var found []int
	until(t, "the first process of "+vm, func() bool {
		found = processesBelow(w.file("vms", vm))
		return len(found) == 1
	})
	return found[0]
}

// A VM of namespaces records its kind, ends with its first process, is started again by
// reboot_vm, and leaves nothing after delete_vm.
func TestNamespaceVM(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	stemcell := w.stemcell(t)
	vm := w.vm(t, stemcell)
	if record := get(t, w.file("vms", vm, "vm.json")); record["machine"] != agent.MachineNamespace {
		t.Errorf("the record says %v", record["machine"])
	}
	init := w.first(t, vm)
	// The VM can write this file, so the CPI must not trust it.
	write(t, w.file("vms", vm, lockFile), []byte(`{"pid": 1, "ready": true}`), 0o600)
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if process.Lives(init) {
		t.Error("the first process survived the reboot")
	}
	if err := syscall.Kill(w.first(t, vm), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the end of the VM", func() bool { return len(processesBelow(w.root)) == 0 })
	if err := w.client().RebootVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	w.first(t, vm)
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// The data of a disk moves into the VM and back, even if the VM is deleted or its folder
// is removed by hand.
func TestNamespaceDisk(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	c := w.client()
	stemcell, disk := w.stemcell(t), w.disk(t)
	file := w.file("disks", disk, "data", "kept")
	write(t, file, []byte("data"), 0o644) // its owner may change
	for name, end := range map[string]func(vm string) error{
		"detached": func(vm string) error { return c.DetachDisk(t.Context(), vm, disk) },
		"deleted":  func(vm string) error { return c.DeleteVM(t.Context(), vm) },
		"folder removed": func(vm string) error {
			if err := os.RemoveAll(w.file("vms", vm)); err != nil {
				return err
			}
			_, err := c.HasVM(t.Context(), vm)
			return err
		},
	} {
		vm := w.vm(t, stemcell)
		place, err := c.AttachDisk(t.Context(), vm, disk)
		if err != nil {
			t.Fatal(err)
		}
		if place != namespace.GuestDisk(disk) {
			t.Errorf("%s: the disk is at %v", name, place)
		}
		if sizes := get(t, w.file("vms", vm, agent.BootSizesFile)); fmt.Sprint(sizes["persistent"]) != "map["+disk+":512]" {
			t.Errorf("%s: the agent is told the sizes %v", name, sizes)
		}
		for _, path := range []string{file, w.file(attachedFolder, vm, disk, "kept")} {
			if text, err := os.ReadFile(path); err != nil || string(text) != "data" {
				t.Errorf("%s: attached, %s has %q, %v", name, path, text, err)
			}
		}
		if err := end(vm); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if info, err := os.Lstat(filepath.Dir(file)); err != nil || !info.IsDir() {
			t.Errorf("%s: the data did not come back: %v", name, err)
		}
		if text, err := os.ReadFile(file); err != nil || string(text) != "data" {
			t.Errorf("%s: %s has %q, %v", name, file, text, err)
		}
		if name == "detached" {
			if err := c.DeleteVM(t.Context(), vm); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := c.DeleteDisk(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	if err := c.DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}

// An unknown kind is refused.
func TestMachineProperty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: "sc", Networks: dynamic(), CloudProperties: map[string]any{"machine": "cloud"}})
	if err == nil || !strings.Contains(err.Error(), "cannot use 'machine: cloud' in the VM's cloud_properties: it must be namespace, container or folder") {
		t.Errorf("got %v", err)
	}
}
