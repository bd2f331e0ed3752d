package lockfile

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// However many processes lock, remove and create the file, only one of them
// holds the lock.
func TestRemoveIsSafe(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	var holders, got atomic.Int32
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for n := range 1000 {
				l, err := Try(path)
				if err != nil {
					t.Error(err)
					return
				}
				if l == nil {
					runtime.Gosched()
					continue
				}
				got.Add(1)
				if holders.Add(1) != 1 {
					t.Error("two have it locked")
				}
				runtime.Gosched()
				holders.Add(-1)
				if (i+n)%2 == 0 {
					l.Remove()
				} else {
					l.Close()
				}
			}
		})
	}
	wg.Wait()
	if got.Load() == 0 {
		t.Error("nobody ever had it")
	}
}

func TestTry(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "lock")
	first, err := Try(path)
	if err != nil || first == nil || !first.Made() {
		t.Fatalf("%+v, %v", first, err)
	}
	if err := first.Write([]byte("a longer holder")); err != nil {
		t.Fatal(err)
	}
	if second, err := Try(path); second != nil || err != nil {
		t.Errorf("%+v, %v", second, err)
	}
	first.Close()
	second, err := Try(path)
	if err != nil || second == nil || second.Made() {
		t.Fatalf("%+v, %v", second, err)
	}
	if err := second.Write([]byte("me")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "me" {
		t.Errorf("%q, %v", data, err)
	}
	// A file that replaced the locked one is not removed.
	if runtime.GOOS != "windows" {
		if err := os.Rename(path, path+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		second.Remove()
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	var none *Lock
	none.Close()
	none.Remove()
}

// Write changes the file that is locked, and no other file that now has its name. On
// Windows, only the handle with the lock can write to the locked part.
func TestWriteGoesToTheLockedFile(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("Windows does not rename an open file")
	}
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Try(path)
	if err != nil || l == nil {
		t.Fatalf("%+v, %v", l, err)
	}
	defer l.Close()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("of somebody else"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"a longer holder", "me"} {
		if err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if data, err := os.ReadFile(path + ".away"); err != nil || string(data) != text {
			t.Errorf("the locked file has %q, %v", data, err)
		}
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "of somebody else" {
		t.Errorf("the other file has %q, %v", data, err)
	}
}

// Another process can read the name of the holder while the lock is held.
func TestHolderIsReadable(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "lock")
	l, err := Try(path)
	if err != nil || l == nil {
		t.Fatalf("%+v, %v", l, err)
	}
	defer l.Close()
	if err := l.Write([]byte("me")); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(path); err != nil || string(data) != "me" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestTryRefusesWhatIsNoFile(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, "link")
	if err := os.WriteFile(target, []byte("precious"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Skip(err)
	}
	for path, want := range map[string]string{link: "a symbolic link", dir: "a folder"} {
		if _, err := Try(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", path, err)
		}
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "precious" {
		t.Errorf("%q, %v", data, err)
	}
}
