package store

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/internal/sealed"
)

// person returns the keys and the recipient of a new person.
func person(t *testing.T) (*sealed.Keys, string) {
	t.Helper()
	file, recipient, err := sealed.NewIdentity()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "identity.txt")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return &sealed.Keys{Identities: []string{path}}, recipient
}

const text = "admin_password: s3cr3t-of-the-test\n"

// nowhere fails if a file of the folder contains the secret.
func nowhere(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if data, _ := os.ReadFile(filepath.Join(dir, e.Name())); bytes.Contains(data, []byte("s3cr3t")) {
			t.Errorf("%s contains the secret", e.Name())
		}
	}
}

func read(t *testing.T, path string, keys *sealed.Keys) *File {
	t.Helper()
	f := At(path, "creds.yml.age", keys, nil)
	if _, err := f.Read(t.Context()); err != nil {
		t.Fatal(err)
	}
	return f
}

func TestEncryptedStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "creds.yml.age")
	anna, recipient := person(t)
	bert, other := person(t)

	f := read(t, path, anna)
	if f.Exists() || !f.Sealed {
		t.Error("a new file with this name is encrypted")
	}
	if err := f.Writable(); err == nil || !strings.Contains(err.Error(), "bootstrap secrets init --vars-store creds.yml.age") {
		t.Error(err)
	}
	if err := f.Write(t.Context(), []byte(text)); err == nil {
		t.Error("written for nobody")
	}
	anna.Recipients = []string{recipient}
	if err := f.Lock(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 { // The second Replace keeps a copy of the first content.
		if err := errors.Join(f.Writable(), f.Write(t.Context(), []byte(text))); err != nil {
			t.Fatal(err)
		}
	}
	f.Close()
	nowhere(t, dir)
	if _, err := os.Stat(path + ".previous"); err != nil {
		t.Error(err)
	}

	// The file is encrypted for its own recipients, not for those of the person who
	// writes it.
	anna.Recipients = []string{other}
	f = read(t, path, anna)
	if !slices.Equal(f.To, []string{recipient}) || !f.Unchanged() {
		t.Errorf("%q", f.To)
	}
	if err := f.Write(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if _, err := At(path, "creds.yml.age", bert, nil).Read(t.Context()); err == nil || !strings.Contains(err.Error(), "not encrypted to any of these identities") {
		t.Error(err)
	}
	if _, err := At(path, "creds.yml.age", nil, nil).Read(t.Context()); err == nil {
		t.Error("read without keys")
	}

	f.To = append(f.To, other)
	if err := f.Write(t.Context(), []byte(text)); err != nil {
		t.Fatal(err)
	}
	if got, err := At(path, "creds.yml.age", bert, nil).Read(t.Context()); err != nil || string(got) != text {
		t.Errorf("%q, %v", got, err)
	}
	if read(t, path, anna); !f.Unchanged() {
		t.Error("nobody has changed it")
	}
	if err := os.WriteFile(path, []byte("other"), 0o600); err != nil || f.Unchanged() {
		t.Error("it has changed", err)
	}
}

// An encrypted store may have any name; a plain one must not have the name of an
// encrypted store.
func TestContentDecides(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	anna, recipient := person(t)
	data, err := anna.Seal(t.Context(), "f", []byte(text), []string{recipient})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{"creds.yml": data, "plain.yml": []byte(text), "plain.yml.age": []byte(text), "empty.age": {}, "cut.age": data[:20]} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		f := At(path, name, anna, nil)
		got, err := f.Read(t.Context())
		if strings.HasSuffix(name, Suffix) {
			if err == nil || !strings.Contains(err.Error(), "is not encrypted, although") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err != nil || string(got) != text || f.Sealed != (name == "creds.yml") {
			t.Errorf("%s: %q, %v, %v", name, got, f.Sealed, err)
		}
	}
}

// If another place keeps the store, it always gets the content encrypted, and no local
// file is written.
func TestKeptElsewhere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	anna, recipient := person(t)
	anna.Recipients = []string{recipient}
	var sent []byte
	refused := errors.New("refused")
	for _, want := range []error{nil, refused} {
		f := At(filepath.Join(dir, "creds.yml"), "creds.yml", anna, func(_ context.Context, data []byte) error {
			sent = data
			return want
		})
		if _, err := f.Read(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Lock(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := f.Write(t.Context(), []byte(text)); !errors.Is(err, want) {
			t.Fatal(err)
		}
		f.Close()
		if !sealed.IsSealed(sent) {
			t.Errorf("sent %q", sent)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "creds.yml")); !errors.Is(err, os.ErrNotExist) {
		t.Error("a file was written", err)
	}
}
