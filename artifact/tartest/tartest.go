// Package tartest creates archives for tests.
package tartest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Entry is one file, folder or link of a tar.
type Entry struct {
	Name string
	Body string
	Kind byte // of archive/tar; 0: a file
	link string
	Mode int64
}

// Dir is a folder.
func Dir(name string) Entry { return Entry{Name: name, Kind: tar.TypeDir, Mode: 0o755} }

// Symlink returns a symbolic link.
func Symlink(name, to string) Entry { return Entry{Name: name, Kind: tar.TypeSymlink, link: to} }

// Hardlink returns a link to an earlier entry.
func Hardlink(name, to string) Entry { return Entry{Name: name, Kind: tar.TypeLink, link: to} }

// File is a regular file.
func File(name, body string) Entry { return Entry{Name: name, Body: body, Mode: 0o644} }

// Special is an entry of another kind, for example a device.
func Special(name string, k byte) Entry { return Entry{Name: name, Kind: k, Mode: 0o644} }

// Tar returns a tar of the entries.
func Tar(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	var buf bytes.Buffer
	size := 1024 // the end
	for _, e := range entries {
		size += len(e.Body) + 2048 // plus the header and the padding of the last block
	}
	buf.Grow(size)
	w := tar.NewWriter(&buf)
	for _, e := range entries {
		h := &tar.Header{Name: e.Name, Typeflag: e.Kind, Linkname: e.link, Mode: e.Mode, Size: int64(len(e.Body)), ModTime: time.Unix(1_000_000_000, 0)}
		if e.Kind == 0 {
			h.Typeflag = tar.TypeReg
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		io.WriteString(w, e.Body)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return buf.Bytes()
}

// Tgz returns a tar of the entries, compressed with gzip.
func Tgz(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	return Gzip(Tar(t, entries...))
}

// Gzip compresses data.
func Gzip(data []byte) []byte { return gzipped(data, gzip.DefaultCompression) }

// Large returns a tar of entries that are large, in the format of gzip, but not
// compressed: with the race detector, compressing takes seconds.
func Large(t testing.TB, entries ...Entry) []byte {
	t.Helper()
	return gzipped(Tar(t, entries...), gzip.NoCompression)
}

func gzipped(data []byte, level int) []byte {
	var buf bytes.Buffer
	if level == gzip.NoCompression {
		buf.Grow(len(data) + len(data)/1000 + 1024)
	}
	w, err := gzip.NewWriterLevel(&buf, level)
	if err != nil {
		panic(err) // there is no such level
	}
	w.Write(data)
	w.Close()
	return buf.Bytes()
}

// Write writes a file, with the folders above it, and returns its path.
func Write(t testing.TB, data []byte, path ...string) string {
	t.Helper()
	name := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

// MustFail checks that an error contains all the words.
func MustFail(t testing.TB, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error; want one with %q", words)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Fatalf("error %q does not say %q", err, w)
		}
	}
}

// Body returns n bytes that do not compress well.
func Body(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i * i >> 7)
	}
	return b
}

// List reads a tar.gz and returns the names of its entries in their order, and the
// contents by name.
func List(t testing.TB, path string) (names []string, contents map[string][]byte) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	gz, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	contents = map[string][]byte{}
	for r := tar.NewReader(gz); ; {
		h, err := r.Next()
		if err == io.EOF {
			return names, contents
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
		if contents[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}
