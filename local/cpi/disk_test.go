//go:build !windows

package cpi

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"bootstrap/cpi"
)

func TestDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	ctx, c := t.Context(), w.client()
	stemcell := w.stemcell(t)
	vm, other, disk := w.vm(t, stemcell), w.vm(t, stemcell), w.disk(t)
	data := w.file("disks", disk, "data")
	persistent := func(vm string) any {
		return get(t, w.file("vms", vm, settingsFile))["disks"].(map[string]any)["persistent"]
	}
	if hint, err := c.AttachDisk(ctx, vm, disk); hint != any(data) || err != nil {
		t.Errorf("hint %v, %v", hint, err)
	}
	if want := any(map[string]any{disk: data}); !reflect.DeepEqual(persistent(vm), want) {
		t.Errorf("settings %v", persistent(vm))
	}
	if _, err := c.AttachDisk(ctx, other, disk); err == nil || !strings.Contains(err.Error(), "it is attached to VM '"+vm) {
		t.Errorf("attached twice: %v", err)
	}
	if err := c.ResizeDisk(ctx, disk, 1024); err == nil || !strings.Contains(err.Error(), "attached") {
		t.Errorf("resized while attached: %v", err)
	}
	write(t, filepath.Join(data, "kept"), []byte("x"), 0o600)
	if err := c.DeleteVM(ctx, vm); err != nil {
		t.Fatal(err)
	}
	if _, err := c.AttachDisk(ctx, other, disk); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(data, "kept")); err != nil {
		t.Error(err)
	}
	if err := c.DetachDisk(ctx, other, disk); err != nil {
		t.Fatal(err)
	}
	if want := any(map[string]any{}); !reflect.DeepEqual(persistent(other), want) {
		t.Errorf("settings %v", persistent(other))
	}
	for size, ok := range map[int]bool{1024: true, 0: false, -5: false} {
		if err := c.ResizeDisk(ctx, disk, size); (err == nil) != ok {
			t.Errorf("size %d: %v", size, err)
		}
	}
	if _, err := c.UpdateDisk(ctx, disk, 512, nil); !cpi.NotSupported(err) {
		t.Errorf("shrunk: %v", err)
	}
	if _, err := c.UpdateDisk(ctx, disk, 2048, map[string]any{"type": "ssd"}); err == nil || !strings.Contains(err.Error(), "'type'") {
		t.Errorf("updated: %v", err)
	}
	if cid, err := c.UpdateDisk(ctx, disk, 2048, nil); cid != disk || err != nil {
		t.Errorf("updated: %s, %v", cid, err)
	}
	if err := c.SetDiskMetadata(ctx, disk, map[string]string{"a": "1", "b": "2"}); err != nil {
		t.Error(err)
	}
	if err := c.SetDiskMetadata(ctx, disk, map[string]string{"b": "3"}); err != nil {
		t.Error(err)
	}
	record := get(t, w.file("disks", disk, "disk.json"))
	if want := any(map[string]any{"a": "1", "b": "3"}); record["size"] != 2048.0 || !reflect.DeepEqual(record["metadata"], want) {
		t.Errorf("record %v", record)
	}
	if err := c.DeleteDisk(ctx, disk); err != nil {
		t.Error(err)
	}
	w.deleteAll(t, other, stemcell)
}

func TestCreateDiskRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	for _, size := range []int{0, -1} {
		if _, err := w.client().CreateDisk(t.Context(), size, nil, ""); err == nil {
			t.Errorf("made a disk of %d MiB", size)
		}
	}
	if _, err := w.client().CreateDisk(t.Context(), 1, map[string]any{"type": "x"}, ""); err == nil || !strings.Contains(err.Error(), "'type' in the disk's cloud_properties: this CPI knows none") {
		t.Errorf("got %v", err)
	}
	w.nothingLeft(t)
}

func TestSnapshot(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	ctx, c := t.Context(), w.client()
	disk := w.disk(t)
	data := w.file("disks", disk, "data")
	write(t, filepath.Join(data, "folder", "program"), []byte("x"), 0o750)
	if err := os.Symlink("folder/program", filepath.Join(data, "link")); err != nil {
		t.Fatal(err)
	}
	snapshot, err := c.SnapshotDisk(ctx, disk, nil)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(data, "folder", "program"), []byte("changed"), 0o750)
	copied := w.file("snapshots", snapshot, "data")
	if target, err := os.Readlink(filepath.Join(copied, "link")); target != "folder/program" || err != nil {
		t.Errorf("link to %s, %v", target, err)
	}
	text, err := os.ReadFile(filepath.Join(copied, "folder", "program"))
	info, _ := os.Stat(filepath.Join(copied, "folder", "program"))
	if string(text) != "x" || err != nil || info.Mode().Perm() != 0o750 {
		t.Errorf("%q, %v, %v", text, err, info)
	}
	if err := c.DeleteDisk(ctx, disk); err != nil { // a snapshot stays after its disk is deleted
		t.Error(err)
	}
	if _, err := c.Call(ctx, "delete_snapshot", snapshot); err != nil {
		t.Error(err)
	}
	if _, err := c.Call(ctx, "delete_snapshot", snapshot); err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("deleted twice: %v", err)
	}
	w.nothingLeft(t)
}

func TestStemcellRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	image := filepath.Join(t.TempDir(), "image")
	write(t, image, nil, 0o600)
	for name, tt := range map[string]struct {
		image string
		props map[string]any
		text  string
	}{
		"no image":       {image + "x", nil, "cannot read the stemcell's image"},
		"folder":         {filepath.Dir(image), nil, "is not a file"},
		"other cloud":    {image, map[string]any{"infrastructure": "warden"}, "for the infrastructure 'warden'"},
		"other property": {image, map[string]any{"ami": "x"}, "'ami' in the stemcell's cloud_properties"},
	} {
		if _, err := w.client().CreateStemcell(t.Context(), tt.image, tt.props, nil); err == nil || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v", name, err)
		}
	}
	w.nothingLeft(t)
}
