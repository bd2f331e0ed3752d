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

// needNamespaces skips a test where this machine has none, and says why.
func needNamespaces(t testing.TB) {
	t.Helper()
	if err := tryNamespaces(); err != nil {
		t.Skipf("no VM of namespaces here: %v", err)
	}
}

var tryNamespaces = sync.OnceValue(func() error { return namespace.Try(context.Background(), os.Args[0]) })

// namespaces is a world whose VMs are made of namespaces.
func namespaces(t *testing.T) *world {
	t.Helper()
	needNamespaces(t)
	w := newWorld(t, 2, nil)
	w.machine = agent.MachineNamespace
	return w
}

// first returns the first process of a VM, which is the only one that has its
// mark.
func (w *world) first(t *testing.T, vm string) int {
	t.Helper()
	var found []int
	until(t, "the first process of "+vm, func() bool {
		found = processesBelow(w.file("vms", vm))
		return len(found) == 1
	})
	return found[0]
}

// A VM of namespaces records what it is made of, ends with its first process,
// comes back with reboot_vm and leaves nothing.
func TestNamespaceVM(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	stemcell := w.stemcell(t)
	vm := w.vm(t, stemcell)
	if record := get(t, w.file("vms", vm, "vm.json")); record["machine"] != agent.MachineNamespace {
		t.Errorf("the record says %v", record["machine"])
	}
	init := w.first(t, vm)
	// The CPI must not believe what the VM can write.
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

// The data of a disk move to where its VM sees them and back, also when the VM
// is deleted or its folder is removed by hand.
func TestNamespaceDisk(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	c := w.client()
	stemcell, disk := w.stemcell(t), w.disk(t)
	file := w.file("disks", disk, "data", "kept")
	write(t, file, []byte("data"), 0o644) // which may be given to other users
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

// A kind that does not exist is refused.
func TestMachineProperty(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	_, err := w.client().CreateVM(t.Context(), cpi.VMRequest{AgentID: "a", StemcellCID: "sc", Networks: dynamic(), CloudProperties: map[string]any{"machine": "cloud"}})
	if err == nil || !strings.Contains(err.Error(), "cannot use 'machine: cloud' in the VM's cloud_properties: it must be namespace, container or folder") {
		t.Errorf("got %v", err)
	}
}
