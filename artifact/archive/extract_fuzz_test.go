package archive

import (
	"archive/tar"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/artifact/tartest"
)

// FuzzExtract checks that nothing is written outside of the folder, and that no
// link in it leads outside.
func FuzzExtract(f *testing.F) {
	for _, entries := range [][]tartest.Entry{
		{tartest.Dir("./"), tartest.File("./a/b", "x"), tartest.Symlink("l", "a"), tartest.Hardlink("h", "a/b")},
		{tartest.Symlink("l", ".."), tartest.File("l/x", "x")},
		{tartest.Dir("x/"), tartest.Symlink("x/d", ".."), tartest.Symlink("e", "x/d/.."), tartest.File("e/x", "x")},
		{tartest.File("../x", "x"), tartest.Special("n", tar.TypeChar)},
		{tartest.File("f", "x"), tartest.Hardlink("g", "f"), tartest.File("g/x", "")},
		{tartest.Dir("d/"), tartest.Symlink("d/l", "../.."), tartest.Hardlink("h", "d/l")},
	} {
		f.Add(tartest.Tar(f, entries...))
		f.Add(tartest.Tgz(f, entries...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		archive := tartest.Write(t, data, base, "a")
		tartest.Write(t, []byte("untouched"), base, "x")
		to := filepath.Join(base, "in", "to")
		err := Extract(context.Background(), archive, to, Limits{Size: 1 << 20, Entries: 200})
		for _, d := range []string{base, filepath.Join(base, "in")} {
			found, _ := os.ReadDir(d)
			for _, e := range found {
				if n := e.Name(); n != "a" && n != "x" && n != "in" && n != "to" {
					t.Fatalf("%s was made in %s", n, d)
				}
			}
		}
		if x, _ := os.ReadFile(filepath.Join(base, "x")); string(x) != "untouched" {
			t.Fatalf("x was changed to %q", x)
		}
		if err != nil {
			return
		}
		filepath.WalkDir(to, func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				t.Fatal(err)
			}
			switch {
			case d.Type()&fs.ModeSymlink != 0:
				if real, err := filepath.EvalSymlinks(p); err == nil && real != to && !strings.HasPrefix(real, to+"/") {
					t.Fatalf("%s leads to %s", p, real)
				}
			case !d.IsDir() && !d.Type().IsRegular():
				t.Fatalf("%s is %v", p, d.Type())
			}
			return nil
		})
	})
}
