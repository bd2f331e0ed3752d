package atomicfile

import (
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
)

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "agent.json")
	if err := os.WriteFile(path, []byte("what another tool made"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil || string(data) != "new" {
		t.Errorf("got %q, %v", data, err)
	}
	if info, err := os.Stat(path); err != nil || runtime.GOOS != "windows" && info.Mode() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	// If the file cannot be replaced, it stays unchanged, and no temporary file
	// is left.
	folder := filepath.Join(dir, "folder")
	if err := os.MkdirAll(filepath.Join(folder, "in use"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Write(folder, []byte("new")); err == nil {
		t.Error("a folder was replaced")
	}
	if err := Write(filepath.Join(dir, "none", "file"), nil); err == nil {
		t.Error("a file was written in a folder that is not there")
	}
	if got := names(t, dir); !slices.Equal(got, []string{"agent.json", "folder"}) {
		t.Errorf("there is %v", got)
	}
}

func TestRemoveStale(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"agent.json", ".agent.json123", ".agent.json.swp", ".agent.json12x", ".agent.json", ".other.json7"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	RemoveStale(filepath.Join(dir, "agent.json"))
	if got := names(t, dir); !slices.Equal(got, []string{".agent.json", ".agent.json.swp", ".agent.json12x", ".other.json7", "agent.json"}) {
		t.Errorf("there is %v", got)
	}
	RemoveStale(filepath.Join(dir, "none", "file"))
}

// The temporary file is beside the file, also if its path has no folder: the folder for
// temporary files may be on another file system, or be missing.
func TestWriteBesideIt(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, name := range []string{"TMPDIR", "TMP"} {
		t.Setenv(name, filepath.Join(dir, "missing"))
	}
	if err := Write("plan.json", []byte("new")); err != nil {
		t.Error(err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"plan.json"}) {
		t.Errorf("there is %v", got)
	}
}
