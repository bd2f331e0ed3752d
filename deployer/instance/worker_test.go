package instance

import (
	"os"
	"path/filepath"
	"testing"

	"bootstrap/deployment/record"
	"bootstrap/internal/lockfile"
)

// The folder of the states of VMs that compile is removed when only an unused lock is in it,
// which a run that was killed at its end has left.
func TestForgetWorkers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		files []string
		held  bool
		stays bool
	}{
		{name: "nothing"},
		{name: "a lock", files: []string{record.StemcellLock}},
		{name: "a used lock", files: []string{record.StemcellLock}, held: true, stays: true},
		{name: "a state", files: []string{"compilation-0.json", record.StemcellLock}, stays: true},
		{name: "a record", files: []string{record.FileName, record.StemcellLock}, stays: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			o := Options{Manifest: filepath.Join(dir, "m.yml")}
			folder := o.RecordFolder()
			if err := os.MkdirAll(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range c.files {
				if err := os.WriteFile(filepath.Join(folder, name), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if c.held {
				lock, err := lockfile.Try(filepath.Join(folder, record.StemcellLock))
				if err != nil || lock == nil {
					t.Fatal(err)
				}
				defer lock.Close()
			}
			o.ForgetWorkers()
			left, err := os.ReadDir(folder)
			if stays := err == nil; stays != c.stays || stays && len(left) != len(c.files) {
				t.Errorf("left %v, %v", left, err)
			}
		})
	}
}
