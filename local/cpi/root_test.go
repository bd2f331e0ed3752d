//go:build !windows

package cpi

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Calls at the same time share one root, which is created and removed between them.
func TestConcurrentCalls(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	cfg := filepath.Join(w.jobs, "cpi.json")
	write(t, cfg, []byte(`{"root":"`+w.root+`"}`), 0o600)
	k := &killer{world: w, cfg: cfg}
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 10 {
				disk := strings.Trim(string(k.must(t, "create_disk", 1, map[string]any{}, nil)), `"`)
				if found := string(k.must(t, "has_disk", disk)); found != "true" {
					t.Errorf("has_disk %s: %s", disk, found)
				}
				k.must(t, "delete_disk", disk)
			}
		})
	}
	all.Wait()
	k.nothingLeft(t)
}

// While one call has the lock of the root, another one waits, and stops when its context
// ends.
func TestLock(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "a", "b")
	first, err := openRoot(t.Context(), dir, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if second, err := openRoot(ctx, dir, os.Args[0]); err == nil || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, %v", second, err)
	}
	if _, _, err := first.create(disks()); err != nil {
		t.Fatal(err)
	}
	first.close()
	second, err := openRoot(t.Context(), dir, os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := second.sweep(t.Context()); err != nil {
		t.Error(err)
	}
	second.close()
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("left: %v", err)
	}
}

// Files that do not belong to the CPI are kept, and so is the root.
func TestForeignFiles(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	write(t, w.file("notes"), []byte("x"), 0o600)
	write(t, w.file("disks", "mine", "file"), []byte("x"), 0o600)
	disk := w.disk(t)
	if err := w.client().DeleteDisk(t.Context(), disk); err != nil {
		t.Error(err)
	}
	for _, path := range []string{w.file("notes"), w.file("disks", "mine", "file")} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(w.file("vms")); !os.IsNotExist(err) {
		t.Errorf("vms: %v", err)
	}
}

// A damaged record is an error that names the file, and nothing is deleted.
func TestDamagedRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	disk := w.disk(t)
	record := w.file("disks", disk, "disk.json")
	write(t, record, []byte(`{"cid":`), 0o600)
	if err := w.client().DeleteDisk(t.Context(), disk); err == nil || !strings.Contains(err.Error(), record) {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(w.file("disks", disk, "data")); err != nil {
		t.Error(err)
	}
}

func TestRootCannotBeMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2, nil)
	write(t, w.root, []byte("a file"), 0o600)
	if _, err := w.client().CreateDisk(t.Context(), 1, nil, ""); err == nil || !strings.Contains(err.Error(), "cannot make the CPI's folder") {
		t.Errorf("got %v", err)
	}
}
