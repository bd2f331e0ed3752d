//go:build unix

package regular

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Something that is not a regular file, or that is larger than the limit, is refused at
// once: no process writes to the pipe, and the large file is sparse.
func TestRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		make func(path string) error
		want string // the content, or a part of the error
	}{
		"file":  {func(path string) error { return os.WriteFile(path, []byte("content"), 0o600) }, "content"},
		"empty": {func(path string) error { return os.WriteFile(path, nil, 0o600) }, ""},
		"pipe":  {func(path string) error { return syscall.Mkfifo(path, 0o600) }, "pipe: it is not a regular file"},
		"link":  {func(path string) error { return os.Symlink(os.DevNull, path) }, "link: it is not a regular file"},
		"large": {func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Truncate(path, 1<<40))
		}, "large: it is larger than 64 MiB"},
		"none": {func(string) error { return nil }, "none: no such file or directory"},
	} {
		path := filepath.Join(dir, name)
		if err := c.make(path); err != nil {
			t.Fatal(err)
		}
		data, err := Read(path)
		if got := string(data); err == nil && got != c.want || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %q, %v; not %q", name, got, err, c.want)
		}
	}
}

// A pipe that no process reads is an error at once; one with a reader, and a file, are
// written to.
func TestAppend(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pipe, file := filepath.Join(dir, "pipe"), filepath.Join(dir, "file")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if f, err := Append(pipe); err == nil || !strings.Contains(err.Error(), "no process reads this pipe") {
		t.Errorf("without a reader: %v, %v", f, err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	for _, name := range []string{pipe, file, file} {
		f, err := Append(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteString("x"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		f.Close()
	}
	if text, err := os.ReadFile(file); string(text) != "xx" {
		t.Errorf("%q, %v", text, err)
	}
}
