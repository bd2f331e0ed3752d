package scratch

import (
	"io"
	"os"
	"runtime"
	"testing"
)

func TestUnnamed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("open files have names there")
	}
	for name, create := range map[string]func() (*os.File, error){"created": Unnamed, "unlinked": unlinked} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("TMPDIR", dir)
			f, err := create()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := f.WriteString("secret"); err != nil {
				t.Fatal(err)
			}
			if list, err := os.ReadDir(dir); err != nil || len(list) > 0 {
				t.Errorf("%v %v", list, err)
			}
			if info, err := f.Stat(); err != nil || info.Mode() != 0o600 || info.Size() != 6 {
				t.Errorf("%v %v", info, err)
			}
			if text, err := io.ReadAll(io.NewSectionReader(f, 0, 100)); err != nil || string(text) != "secret" {
				t.Errorf("%q %v", text, err)
			}
			Discard(f)
			if _, err := os.Stat(dir); err != nil {
				t.Errorf("the folder is gone, too: %v", err)
			}
		})
	}
}

func TestUnnamedWithoutFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir()+"/missing")
	if f, err := Unnamed(); err == nil {
		t.Errorf("created %s", f.Name())
	}
}
