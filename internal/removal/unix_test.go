//go:build unix

package removal

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// nest makes folders that are nested deeper than the length of a path allows.
func nest(t *testing.T, dir string, depth int) {
	t.Helper()
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	at, err := unix.Open(dir, unix.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range depth {
		name := fmt.Sprintf("folder-%d", i%10)
		if err := unix.Mkdirat(at, name, 0o700); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(at, name, unix.O_RDONLY|unix.O_NOFOLLOW, 0)
		if err != nil {
			t.Fatal(err)
		}
		for j := range max(0, i%100-97) { // besides the way down
			if err := unix.Mkdirat(at, fmt.Sprintf("beside-%d", j), 0o700); err != nil {
				t.Fatal(err)
			}
		}
		_ = unix.Close(at)
		at = next
	}
	_ = unix.Close(at)
}

func gone(t *testing.T, dir string) {
	t.Helper()
	if err := Tree(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// Folders can be nested deeper than a process may have files open.
func TestDeepTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "top")
	nest(t, dir, 3000)
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	before := limit
	limit.Cur = min(limit.Cur, 1024)
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_NOFILE, &before) })
	gone(t, dir)
}

// Modes, kinds and names of files do not matter, and links are not followed.
func TestStrangeTree(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, outside := filepath.Join(base, "top"), filepath.Join(base, "outside")
	for _, name := range []string{filepath.Join(dir, "a", "b"), outside} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{filepath.Join(outside, "file"), filepath.Join(dir, "a", "b", " \n*?\xff"), filepath.Join(dir, "a", strings.Repeat("n", 255))} {
		if err := os.WriteFile(name, nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 3000 {
		if err := os.WriteFile(filepath.Join(dir, "a", fmt.Sprint(i)), nil, 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, target := range map[string]string{"link": outside, "a/up": "..", "a/self": "self", "a/gone": "/missing"} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mkfifo(filepath.Join(dir, "a", "pipe"), 0); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b", "a", ""} {
		if err := os.Chmod(filepath.Join(dir, name), 0); err != nil {
			t.Fatal(err)
		}
	}
	gone(t, dir)
	link := filepath.Join(base, "link-at-the-top")
	if err := os.Symlink(outside, link); err != nil {
		t.Fatal(err)
	}
	gone(t, link)
	if _, err := os.Stat(filepath.Join(outside, "file")); err != nil {
		t.Error(err)
	}
}

// Files that nobody may change are removed by root.
func TestImmutableTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "top")
	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o700); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "sub", "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if said, err := exec.Command("chattr", "+i", file, filepath.Dir(file)).CombinedOutput(); err != nil {
		t.Skipf("nobody can do that here: %v: %s", err, said)
	}
	gone(t, dir)
}

// What is mounted in a folder is not touched.
func TestMountInTree(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("nothing is mounted here")
	}
	base := t.TempDir()
	dir, outside := filepath.Join(base, "top"), filepath.Join(base, "outside")
	for _, name := range []string{filepath.Join(dir, "sub", "mounted"), outside} {
		if err := os.MkdirAll(name, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	file, mounted := filepath.Join(outside, "file"), filepath.Join(dir, "sub", "mounted")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// It is the same file system, so that only the mount itself can be detected.
	if said, err := exec.Command("mount", "--bind", outside, mounted).CombinedOutput(); err != nil {
		t.Skipf("nobody can do that here: %v: %s", err, said)
	}
	err := Tree(dir)
	if said, failed := exec.Command("umount", mounted).CombinedOutput(); failed != nil {
		t.Fatalf("%v: %s", failed, said)
	}
	if err == nil || !strings.Contains(err.Error(), "top/sub/mounted: something is mounted there") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	gone(t, dir)
}
