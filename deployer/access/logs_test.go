package access

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"bootstrap/internal/scratch"
)

// Archives that were fetched in the same second get different names.
func TestNameLogs(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	target := filepath.Join(dir, "page-20260102-030405.tgz")
	fetched := func(content string) *os.File {
		f, err := os.CreateTemp(dir, "logs-*.tgz~")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString(content); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { scratch.Discard(f) })
		return f
	}
	for _, c := range [][2]string{{"first", ".tgz"}, {"second", "-2.tgz"}, {"third", "-3.tgz"}} {
		got, err := nameLogs(fetched(c[0]), target, true)
		if want := filepath.Join(dir, "page-20260102-030405"+c[1]); err != nil || got != want {
			t.Errorf("%s: %s, %v", c[0], got, err)
		}
	}
	var exists *fileExistsError
	if _, err := nameLogs(fetched("fourth"), target, false); !errors.As(err, &exists) {
		t.Errorf("error %v", err)
	}
	if data, err := os.ReadFile(target); err != nil || string(data) != "first" {
		t.Errorf("%q, %v", data, err)
	}
}
