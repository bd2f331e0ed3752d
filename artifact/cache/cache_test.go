package cache

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/gofrs/flock"

	"bootstrap/artifact/tartest"
	"bootstrap/internal/removal"
)

// While another run empties the temporary folder, Work does not create it: MkdirAll fails
// if a folder is removed at the same time.
func TestWorkWaitsForTheLock(t *testing.T) {
	t.Parallel()
	d := Dir(t.TempDir())
	if err := os.MkdirAll(d.Path(), 0o700); err != nil {
		t.Fatal(err)
	}
	other := flock.New(d.Path("tmp.lock"))
	if err := other.Lock(); err != nil {
		t.Fatal(err)
	}
	defer other.Unlock()
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, err := d.Work(ctx); err == nil {
		t.Error("the lock of another run was ignored")
	}
	if _, err := os.Lstat(d.Path("tmp")); err == nil {
		t.Error("the temporary folder was made without the lock")
	}
}

// Runs in parallel create and remove the temporary folder of one cache
// repeatedly.
func TestWorkSideBySide(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var wg sync.WaitGroup
	for range 24 {
		wg.Go(func() {
			for range 20 {
				// A second Store stands for another process.
				work, done, err := Dir(dir).Work(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				if err := os.WriteFile(filepath.Join(work, "file"), nil, 0o600); err != nil {
					t.Errorf("the folder was removed while a run used it: %v", err)
				}
				done()
			}
		})
	}
	wg.Wait()
}

// If several runs find a damaged folder of a job, one of them replaces it, and no other
// one removes the new folder.
func TestPlaceFolderSideBySide(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	d := Dir(base)
	path := d.JobPath("job")
	fill := func(dir, text string) string {
		for i := range 12 {
			tartest.Write(t, []byte(text), dir, fmt.Sprint(i))
		}
		return dir
	}
	tree, _, err := TreeDigest(fill(filepath.Join(base, "good"), "good"))
	if err != nil {
		t.Fatal(err)
	}
	for round := range 30 {
		removal.Tree(path)
		fill(path, "damaged")
		var wg sync.WaitGroup
		start := make(chan struct{})
		for n := range 8 {
			mine := fill(filepath.Join(base, fmt.Sprintf("%d-%d", round, n)), "good")
			wg.Go(func() {
				<-start
				if err := d.PlaceFolder(context.Background(), mine, path, tree); err != nil {
					t.Error(err)
				}
				for i := range 12 {
					if got, err := os.ReadFile(filepath.Join(path, fmt.Sprint(i))); err != nil || string(got) != "good" {
						t.Errorf("a run that placed the folder reads %q: %v", got, err)
						return
					}
				}
			})
		}
		close(start)
		wg.Wait()
	}
}
