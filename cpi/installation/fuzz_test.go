package installation

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// FuzzRecord damages the record of a compiled package: only the complete record
// for its own folder is accepted.
func FuzzRecord(f *testing.F) {
	made := func(t testing.TB) (file, dir, text string) {
		base := t.TempDir()
		file, dir = filepath.Join(base, "record"), filepath.Join(base, "package")
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("a"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := record(file, dir); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return file, dir, string(data)
	}
	_, _, text := made(f)
	f.Add("", 0, 0)
	f.Add(text, 0, 1<<20)
	f.Add("end 0\n", len(text)-6, 6)
	f.Fuzz(func(t *testing.T, put string, at, cut int) {
		file, dir, text := made(t)
		at = min(max(at, 0), len(text))
		cut = min(max(cut, 0), len(text)-at)
		damaged := text[:at] + put + text[at+cut:]
		if err := os.WriteFile(file, []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
		same := strings.TrimSuffix(strings.ReplaceAll(damaged, "\r\n", "\n"), "\n") == strings.TrimSuffix(text, "\n")
		if got := intact(file, dir); got != same {
			t.Fatalf("%q counts as whole: %v; it was %q", damaged, got, text)
		}
	})
}
