package volume

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

func need(t *testing.T) {
	t.Helper()
	if err := Can(); err != nil {
		t.Skipf("no disks with a limit here: %v", err)
	}
}

// in mounts the file system in a file, and runs a check in it.
func in(t *testing.T, name string, check func(dir string)) {
	t.Helper()
	root, err := Folder(name)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	check("/proc/self/fd/" + strconv.Itoa(int(root.Fd())))
}

func sizeOf(t *testing.T, dir string) (mib int) {
	t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		t.Fatal(err)
	}
	return int(s.Blocks) * int(s.Bsize) / mebibyte
}

// A volume is empty at first, its files cannot exceed its size, they stay when it is
// enlarged, and it leaves no loop device.
func TestVolume(t *testing.T) {
	t.Parallel()
	need(t)
	name := filepath.Join(t.TempDir(), "disk-1.img")
	if err := Make(t.Context(), name, 16, 7, 8); err != nil {
		t.Fatal(err)
	}
	in(t, name, func(dir string) {
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 0 {
			t.Errorf("entries %v, %v", entries, err)
		}
		var s unix.Stat_t
		if err := unix.Stat(dir+"/.", &s); err != nil || s.Uid != 7 || s.Gid != 8 {
			t.Errorf("owners %d, %d, %v", s.Uid, s.Gid, err)
		}
		if err := os.WriteFile(dir+"/kept", []byte("data"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(dir+"/large", make([]byte, 16*mebibyte), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("wrote more than the size: %v", err)
		}
		in(t, name, func(again string) { // the same file is not mounted as a second file system
			if text, err := os.ReadFile(again + "/kept"); err != nil || string(text) != "data" {
				t.Errorf("opened again: %q, %v", text, err)
			}
		})
		if err := os.Remove(dir + "/large"); err != nil {
			t.Fatal(err)
		}
	})
	if err := os.WriteFile(name+".new", []byte("of a killed call"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{48, 48} { // again after a kill
		if err := Grow(t.Context(), name, size, 7, 8); err != nil {
			t.Fatal(err)
		}
		in(t, name, func(dir string) {
			if mib := sizeOf(t, dir); mib < 36 || mib > size {
				t.Errorf("a disk of %d MiB has %d", size, mib)
			}
			if text, err := os.ReadFile(dir + "/kept"); err != nil || string(text) != "data" {
				t.Errorf("after growing: %q, %v", text, err)
			}
		})
	}
	copied := filepath.Join(filepath.Dir(name), "copy")
	if err := Copy(t.Context(), name, copied); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(copied, "kept")); err != nil || string(text) != "data" {
		t.Errorf("the copy: %q, %v", text, err)
	}
	if err := awaitUnused(t.Context(), name); err != nil {
		t.Error(err)
	}
}
