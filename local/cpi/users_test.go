//go:build !windows

package cpi

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/agent"
	"bootstrap/local/namespace"
)

// isMine reports whether this process may read a file that only its owner may read.
func (w *world) isMine(t *testing.T, file string) bool {
	t.Helper()
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrPermission) {
		return false
	}
	if err != nil || string(text) != "data" {
		t.Errorf("%s: %q, %v", file, text, err)
	}
	return true
}

// A disk moves between VMs with one user and with several: its files belong to vcap if
// the VM has that user, and otherwise to the person. Snapshots, VMs and disks with files
// of other users are removed.
func TestManyUsers(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	if err := ManyUsers(); err != nil {
		t.Skipf("VMs have one user here: %v", err)
	}
	c := w.client()
	stemcell, disk := w.stemcell(t), w.disk(t)
	file := w.file("disks", disk, "data", "secret")
	write(t, file, []byte("data"), 0o600)
	var users namespace.Users
	for _, many := range []bool{true, false, true} {
		kind := map[bool]string{true: manyUsers, false: oneUser}[many]
		vm := w.vmWith(t, stemcell, map[string]any{"machine": agent.MachineNamespace, "users": kind})
		if _, err := c.AttachDisk(t.Context(), vm, disk); err != nil {
			t.Fatal(err)
		}
		if mine := w.isMine(t, file); mine == many {
			t.Errorf("%s: the person can read a file of the VM's vcap: %v", kind, mine)
		}
		if err := readJSON(w.file(usersFile), &users); err != nil {
			t.Fatal(err)
		}
		snapshot, err := c.SnapshotDisk(t.Context(), disk, nil)
		if err != nil {
			t.Fatal(err)
		}
		if mine := w.isMine(t, w.file("snapshots", snapshot, "data", "secret")); mine == many {
			t.Errorf("%s: the person can read the snapshot of a file of the VM's vcap: %v", kind, mine)
		}
		if _, err := c.Call(t.Context(), "delete_snapshot", snapshot); err != nil {
			t.Fatal(err)
		}
		if err := c.RebootVM(t.Context(), vm); err != nil {
			t.Fatal(err)
		}
		if many { // as a job does
			for _, dir := range []string{w.file("vms", vm, vcapDir), w.file(attachedFolder, vm)} {
				write(t, filepath.Join(dir, "folder", "file"), nil, 0o600)
				if err := users.Give(t.Context(), os.Args[0], dir, namespace.VcapID); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.DeleteVM(t.Context(), vm); err != nil {
			t.Fatal(err)
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
