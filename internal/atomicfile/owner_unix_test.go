//go:build unix

package atomicfile

import (
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

func TestKept(t *testing.T) {
	t.Parallel()
	for mode, want := range map[fs.FileMode]fs.FileMode{
		0o600: 0o600, 0o640: 0o640, 0o660: 0o660, 0o400: 0o400,
		0o644: 0o600, 0o664: 0o660, 0o666: 0o660, 0o604: 0o600,
		0o777: 0o770, 0o755: 0o700,
	} {
		if got := Kept(mode); got != want {
			t.Errorf("%o becomes %o, want %o", mode, got, want)
		}
		if Kept(mode)&^mode != 0 {
			t.Errorf("%o is widened to %o", mode, Kept(mode))
		}
	}
}

func TestWriteKeepsTheMode(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "file")
	for _, mode := range []fs.FileMode{0o660, 0o640, 0o600, 0o664} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		if err := Write(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != Kept(mode) {
			t.Errorf("%o became %v, %v", mode, info.Mode(), err)
		}
	}
}

func TestWriteInPlace(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip(err)
	}
	read := make(chan string)
	go func() {
		data, _ := os.ReadFile(pipe)
		read <- string(data)
	}()
	if err := Write(pipe, []byte("through")); err != nil {
		t.Fatal(err)
	}
	if got := <-read; got != "through" {
		t.Errorf("read %q", got)
	}
	if err := Write("/dev/null", []byte("x")); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat("/dev/null"); err != nil || info.Mode()&fs.ModeDevice == 0 {
		t.Fatalf("%v, %v", info.Mode(), err)
	}
	socket := filepath.Join(dir, "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Skip(err)
	}
	defer syscall.Close(fd)
	if err := syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}); err != nil {
		t.Skip(err)
	}
	if err := Write(socket, nil); err == nil {
		t.Error("a socket was written to")
	}
	if info, err := os.Stat(socket); err != nil || info.Mode()&fs.ModeSocket == 0 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// Files of another user that root writes keep their owner.
func TestOwners(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root may give files away")
	}
	const uid, gid = 4242, 4243
	dir := t.TempDir()
	kept, made, folder, group := filepath.Join(dir, "kept"), filepath.Join(dir, "new"), filepath.Join(dir, "a", "b"), filepath.Join(dir, "group")
	for _, path := range []string{kept, group} {
		if err := os.WriteFile(path, nil, 0o660); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o660); err != nil {
			t.Fatal(err)
		}
	}
	for path, owner := range map[string]int{kept: uid, group: 0, dir: uid} {
		if err := os.Chown(path, owner, gid); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{kept, made, group} {
		if err := Write(path, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	lock := filepath.Join(dir, "lock")
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	Match(lock, kept)
	Match(folder, kept)
	for path, want := range map[string]struct {
		uid  int
		mode fs.FileMode
	}{
		kept: {uid, 0o660}, made: {uid, 0o600}, group: {0, 0o660},
		filepath.Dir(folder): {uid, 0o700}, folder: {uid, 0o770}, lock: {uid, 0o660},
	} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if s := info.Sys().(*syscall.Stat_t); int(s.Uid) != want.uid || s.Gid != gid || info.Mode().Perm() != want.mode {
			t.Errorf("%s: owner %d, group %d, mode %v", path, s.Uid, s.Gid, info.Mode())
		}
	}
	// A link to one of root's files, made by the owner of the folder, is not followed.
	precious, hard := filepath.Join(t.TempDir(), "precious"), filepath.Join(dir, "hard")
	if err := os.WriteFile(precious, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(precious, hard); err != nil {
		t.Skip(err)
	}
	if err := os.Symlink(precious, filepath.Join(dir, "soft")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{hard, filepath.Join(dir, "soft")} {
		GiveToFolderOwner(path)
		Match(path, kept)
	}
	if info, err := os.Stat(precious); err != nil || info.Sys().(*syscall.Stat_t).Uid != 0 || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// On many machines, the fastest file system is at /dev/shm: files there are replaced like
// all others.
func TestReplacesInSharedMemory(t *testing.T) {
	t.Parallel()
	dir, err := os.MkdirTemp("/dev/shm", "bootstrap-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	file := filepath.Join(dir, "file")
	for _, text := range []string{"a longer first text", "second"} {
		if err := Write(file, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "second" {
		t.Errorf("%q, %v", got, err)
	}
}
