package namespace

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"bootstrap/internal/removal"
)

// If HOME is below a system folder that the VM sees, it is hidden.
func TestHomeBelowASystemFolder(t *testing.T) {
	if err := Try(t.Context(), os.Args[0]); err != nil {
		t.Skipf("no namespaces here: %v", err)
	}
	home, err := os.MkdirTemp("/opt", "home-of-a-test-")
	if err != nil {
		t.Skipf("no folder can be made here: %v", err)
	}
	t.Cleanup(func() {
		if err := removal.Tree(home); err != nil {
			t.Error(err)
		}
	})
	t.Setenv("HOME", home)
	if err := os.Chmod(home, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(home, "secret"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(home, ".bosh", "local", "vms", "vm-1")
	select {
	case <-startIn(t, dir, "echo files=$(ls -A "+home+" | wc -l)"):
	case <-time.After(time.Minute):
		t.Fatal("the VM does not end")
	}
	text, err := os.ReadFile(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, string(text), map[string]string{"files": "0"})
}
