package watch

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// project is a folder with a release and a manifest beside it.
func project(t *testing.T) (dir string, paths []string) {
	t.Helper()
	dir = t.TempDir()
	write(t, filepath.Join(dir, "release/jobs/web/spec"), "name: web")
	write(t, filepath.Join(dir, "release/.git/index"), "1")
	write(t, filepath.Join(dir, "manifest.yml"), "name: web")
	return dir, []string{filepath.Join(dir, "release"), filepath.Join(dir, "manifest.yml"), filepath.Join(dir, "missing.yml")}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func skipped(name string) bool { return name == ".git" || strings.HasSuffix(name, "~") }

func TestChanged(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(t *testing.T, dir string)
		want   []string
	}{
		"a file is written": {func(t *testing.T, dir string) { write(t, dir+"/release/jobs/web/spec", "name: WEB!") }, []string{"release/jobs/web/spec"}},
		"a file is replaced, as editors do": {func(t *testing.T, dir string) {
			write(t, dir+"/new", "name: other")
			rename(t, dir+"/new", dir+"/manifest.yml")
		}, []string{"manifest.yml"}},
		"a folder is new":    {func(t *testing.T, dir string) { write(t, dir+"/release/jobs/db/templates/a", "") }, []string{"release/jobs/db/templates/a"}},
		"a file is removed":  {func(t *testing.T, dir string) { remove(t, dir+"/manifest.yml") }, []string{"manifest.yml"}},
		"a folder is gone":   {func(t *testing.T, dir string) { remove(t, dir+"/release") }, []string{"release/jobs/web/spec"}},
		"a file is there":    {func(t *testing.T, dir string) { write(t, dir+"/missing.yml", "") }, []string{"missing.yml"}},
		"a mode is another":  {func(t *testing.T, dir string) { must(t, os.Chmod(dir+"/manifest.yml", 0o600)) }, []string{"manifest.yml"}},
		"a link leads there": {func(t *testing.T, dir string) { must(t, os.Symlink(dir+"/elsewhere", dir+"/release/src")) }, []string{"release/src"}},
	} {
		for _, announced := range []bool{true, false} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dir, paths := project(t)
				w := New(skipped)
				defer w.Close()
				if !announced {
					w.Close()
					w.notes = nil
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				from := w.Look(paths)
				go c.change(t, dir)
				now, changed, err := w.Changed(ctx, paths, from)
				if err != nil {
					t.Fatal(err)
				}
				for i := range changed {
					changed[i], _ = filepath.Rel(dir, changed[i])
				}
				if !slices.Equal(changed, c.want) {
					t.Errorf("changed: %q, want %q", changed, c.want)
				}
				if again := now.differ(w.Look(paths)); len(again) > 0 {
					t.Errorf("%q are said to have changed again", again)
				}
			})
		}
	}
}

func rename(t *testing.T, from, to string) { must(t, os.Rename(from, to)) }
func remove(t *testing.T, path string)     { must(t, os.RemoveAll(path)) }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// A change is also seen in a folder that is created after the watch began, and in a
// folder that was removed and created again.
func TestFoldersThatAreNew(t *testing.T) {
	t.Parallel()
	dir, paths := project(t)
	w := New(skipped)
	defer w.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	files := w.Look(paths)
	next := func(want string, change func()) {
		t.Helper()
		go change()
		now, changed, err := w.Changed(ctx, paths, files)
		if err != nil || !slices.Contains(changed, filepath.Join(dir, want)) {
			t.Fatalf("changed: %q, %v; want %s", changed, err, want)
		}
		files = now
	}
	next("release/packages/a/spec", func() { write(t, dir+"/release/packages/a/spec", "") })
	next("release/packages/a/packaging", func() { write(t, dir+"/release/packages/a/packaging", "") })
	next("release/packages/a/spec", func() { remove(t, dir+"/release/packages") })
	next("release/packages/a/spec", func() { write(t, dir+"/release/packages/a/spec", "name: a") })
	next("release/packages/a/spec", func() { write(t, dir+"/release/packages/a/spec", "name: bb") })
}

func TestSkippedFilesAndLinksInCircles(t *testing.T) {
	t.Parallel()
	dir, paths := project(t)
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "main.c"), "")
	must(t, os.Symlink(elsewhere, dir+"/release/src"))
	must(t, os.Symlink(dir+"/release", elsewhere+"/back"))
	w := New(skipped)
	defer w.Close()
	files := w.Look(paths)
	if _, has := files[dir+"/release/src/main.c"]; !has || len(files) != 3 {
		t.Errorf("a look finds %v", files)
	}
	write(t, dir+"/release/.git/index", "22")
	write(t, dir+"/release/jobs/web/spec~", "")
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if _, changed, err := w.Changed(ctx, paths, files); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("changed: %q, %v", changed, err)
	}
	write(t, elsewhere+"/main.c", "int main() {}")
	_, changed, err := w.Changed(t.Context(), paths, files)
	if err != nil || !slices.Equal(changed, []string{dir + "/release/src/main.c"}) {
		t.Errorf("changed: %q, %v", changed, err)
	}
}
