package scratch

import (
	"errors"
	"testing"

	"golang.org/x/sys/unix"
)

// A process that is killed while it creates a file leaves no name behind, because the
// file has no name at any moment.
func TestNeverNamed(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	if f, err := createUnnamed(dir); err != nil {
		t.Skipf("this file system has no files without a name: %v", err)
	} else {
		Discard(f)
	}
	watch, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_DELETE); err != nil {
		t.Fatal(err)
	}
	f, err := Unnamed()
	if err != nil {
		t.Fatal(err)
	}
	Discard(f)
	if n, err := unix.Read(watch, make([]byte, 4096)); !errors.Is(err, unix.EAGAIN) {
		t.Errorf("a name was created or removed: %d bytes of events, %v", n, err)
	}
}
