package scratch

import (
	"os"
	"sync"
	"testing"
)

// Commands that begin at the same time do not remove the folders of each other.
func TestFoldersAtTheSameTime(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			for range 50 {
				f, err := New(dir, "plan")
				if err != nil {
					t.Error(err)
					return
				}
				if _, err := os.Stat(f.Path); err != nil {
					t.Error(err)
				}
				if err := f.Remove(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
}
