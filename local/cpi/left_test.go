//go:build !windows

package cpi

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// If parts of one VM cannot be removed, calls for other VMs succeed and report that.
func TestSweepFailsNoCall(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	disk := w.disk(t)
	left := w.file("vms", "vm-0123456789abcdef")
	write(t, filepath.Join(left, "vcap", "file"), nil, 0o600)
	write(t, w.file(imagesFolder), []byte("not a folder"), 0o600)
	if err := w.client().DeleteDisk(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
	if text := w.log.String(); !strings.Contains(text, "local CPI: ") || !strings.Contains(text, imagesFolder+": not a directory") {
		t.Errorf("the log says %s", text)
	}
}

// As root, a job of a VM that is a folder has mounted a folder of the machine there. The
// mount is removed with the VM, and the files in it stay.
func TestMountsOfAFolder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	vm := w.vm(t, w.stemcell(t))
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "file"), nil, 0o600)
	place := w.file("vms", vm, "vcap", "a job's\tfolder")
	write(t, filepath.Join(place, "below", "file"), nil, 0o600)
	write(t, w.file("vms", vm, "vcap", "one"), nil, 0o600)
	for _, args := range [][]string{{outside, place}, {outside, place}, {filepath.Join(outside, "file"), w.file("vms", vm, "vcap", "one")}} {
		if output, err := exec.Command("mount", append([]string{"--bind"}, args...)...).CombinedOutput(); err != nil {
			t.Skipf("nobody can mount here: %v: %s", err, output)
		}
	}
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile("/proc/self/mountinfo"); err != nil || strings.Contains(string(text), vm) {
		t.Errorf("mounts are left: %v", err)
	}
}

// A VM that makes a folder with the name of another VM's disk gets no data of that disk,
// and the disk gets none of the VM.
func TestFolderInPlaceOfADisk(t *testing.T) {
	t.Parallel()
	w := namespaces(t)
	ctx, c := t.Context(), w.client()
	stemcell := w.stemcell(t)
	hostile, victim := w.vm(t, stemcell), w.vm(t, stemcell)
	free, used, mine, swapped := w.disk(t), w.disk(t), w.disk(t), w.disk(t)
	for _, disk := range []string{free, used, mine, swapped} {
		write(t, w.file("disks", disk, "data", "is"), []byte(disk), 0o600)
	}
	if _, err := c.AttachDisk(ctx, victim, used); err != nil {
		t.Fatal(err)
	}
	for _, disk := range []string{free, used, mine} {
		write(t, w.file("attached", hostile, disk, "is"), []byte("not the disk"), 0o600)
	}
	if _, err := c.AttachDisk(ctx, hostile, mine); err != nil {
		t.Fatal(err)
	}
	is := func(name, disk string) {
		t.Helper()
		if text, err := os.ReadFile(name); err != nil || string(text) != disk {
			t.Errorf("%s: %q, %v", name, text, err)
		}
	}
	is(w.file("attached", hostile, mine, "is"), mine)
	// The folder of an attached disk is replaced by a link to the outside.
	if _, err := c.AttachDisk(ctx, hostile, swapped); err != nil {
		t.Fatal(err)
	}
	place := w.file("attached", hostile, swapped)
	if err := os.Rename(place, place+"-moved"); err != nil {
		t.Fatal(err)
	}
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, filepath.Join(outside, "file"), nil, 0o600)
	if err := os.Symlink(outside, place); err != nil {
		t.Fatal(err)
	}
	if _, err := c.SnapshotDisk(ctx, swapped, nil); err == nil || !strings.Contains(err.Error(), "a job has removed or replaced") {
		t.Errorf("got %v", err)
	}
	if err := c.DeleteVM(ctx, hostile); err != nil {
		t.Fatal(err)
	}
	is(w.file("disks", free, "data", "is"), free)
	is(w.file("disks", mine, "data", "is"), mine)
	is(w.file("attached", victim, used, "is"), used)
	is(w.file("disks", used, "data", "is"), used)
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
	if err := c.DeleteVM(ctx, victim); err != nil {
		t.Fatal(err)
	}
	is(w.file("disks", used, "data", "is"), used)
	for _, disk := range []string{free, used, mine, swapped} {
		if err := c.DeleteDisk(ctx, disk); err != nil {
			t.Error(err)
		}
	}
}

// An unusually large agent.json of a stemcell is refused before it is read.
func TestLargeAgentConfig(t *testing.T) {
	t.Parallel()
	image := t.TempDir()
	write(t, filepath.Join(image, agentProgram), nil, 0o700)
	config := filepath.Join(image, agentConfig)
	write(t, config, nil, 0o600)
	if err := os.Truncate(config, 200<<20); err != nil {
		t.Fatal(err)
	}
	err := checkImage(image)
	if err == nil || !strings.Contains(err.Error(), "cannot read the stemcell's /var/vcap/bosh/agent.json: it has 209715200 bytes, and more than 65536 are not read") {
		t.Errorf("got %v", err)
	}
}
