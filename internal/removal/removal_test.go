package removal

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

func TestTree(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "top")
	closed := filepath.Join(dir, "mod", "closed")
	if err := os.MkdirAll(closed, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(closed, "file"), nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{closed, filepath.Dir(closed)} {
		if err := os.Chmod(folder, 0o500); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // a missing folder is not an error
		if err := Tree(dir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}
