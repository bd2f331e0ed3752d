package cruby

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"
)

// newStore returns a store with a file of several parts, machine code and a small file.
func newStore(t *testing.T, dir string) *store {
	t.Helper()
	s := openTest(t, dir)
	if s.verified {
		t.Fatal("an empty store is verified")
	}
	sub := filepath.Join(s.folder(), "wazero-x")
	if err := os.MkdirAll(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{"wazero-x/code": bytes.Repeat([]byte("code"), headSize), storedName: bytes.Repeat([]byte("memory"), partSize/3), hollowName: []byte("module")} {
		if err := os.WriteFile(filepath.Join(s.folder(), name), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.vouch(); err != nil {
		t.Fatal(err)
	}
	s.close()
	return s
}

func openTest(t *testing.T, dir string) *store {
	t.Helper()
	s, err := openStore(t.Context(), dir, "ruby-1")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// overwrite changes one byte.
func overwrite(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt([]byte("X"), at)
		err = errors.Join(err, f.Close())
	}
	return err
}

// TestDamage damages a store in every way; no damaged store may be used.
func TestDamage(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		damage func(folder string) error
		stays  bool
	}{
		"nothing":                       {func(folder string) error { return nil }, true},
		"one byte":                      {func(folder string) error { return overwrite(filepath.Join(folder, storedName), partSize+5) }, false},
		"the table of the machine code": {func(folder string) error { return overwrite(filepath.Join(folder, "wazero-x", "code"), 100) }, false},
		"the end of the machine code":   {func(folder string) error { return overwrite(filepath.Join(folder, "wazero-x", "code"), 4*headSize-1) }, false},
		// covered by wazero's checksum
		"the machine code": {func(folder string) error { return overwrite(filepath.Join(folder, "wazero-x", "code"), 2*headSize) }, true},
		"shorter":          {func(folder string) error { return os.Truncate(filepath.Join(folder, "wazero-x", "code"), headSize) }, false},
		"longer":           {func(folder string) error { return os.Truncate(filepath.Join(folder, hollowName), 7) }, false},
		"empty":            {func(folder string) error { return os.Truncate(filepath.Join(folder, hollowName), 0) }, false},
		"removed":          {func(folder string) error { return os.Remove(filepath.Join(folder, hollowName)) }, false},
		"renamed": {func(folder string) error {
			return os.Rename(filepath.Join(folder, "wazero-x"), filepath.Join(folder, "wazero-y"))
		}, false},
		"another file":     {func(folder string) error { return os.WriteFile(filepath.Join(folder, "x"), nil, 0o600) }, false},
		"no sums":          {func(folder string) error { return os.Remove(filepath.Join(folder, sumsName)) }, false},
		"half of the sums": {func(folder string) error { return os.Truncate(filepath.Join(folder, sumsName), 100) }, false},
		"a link": {func(folder string) error {
			name := filepath.Join(folder, hollowName)
			return errors.Join(os.Rename(name, name+"2"), os.Symlink(name+"2", name))
		}, false},
		"a folder": {func(folder string) error {
			name := filepath.Join(folder, hollowName)
			return errors.Join(os.Remove(name), os.Mkdir(name, 0o700))
		}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "cache")
			s := newStore(t, dir)
			if err := test.damage(s.folder()); err != nil {
				t.Skip(err)
			}
			if s = openTest(t, dir); s.verified != test.stays {
				t.Errorf("verified is %v", s.verified)
			}
			if _, err := os.Stat(s.folder()); (err == nil) != test.stays {
				t.Errorf("the folder: %v", err)
			}
		})
	}
}

// TestForeign opens a store that other users could write to.
func TestForeign(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("modes say nothing")
	}
	dir := filepath.Join(t.TempDir(), "cache")
	newStore(t, dir)
	if err := os.WriteFile(filepath.Join(dir, "other"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if s := openTest(t, dir); s.verified {
		t.Error("what others could write is used")
	}
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := os.Stat(filepath.Join(dir, "other")); err != nil {
		t.Error("a file that is not the store's was removed")
	}
	for name, made := range map[string]func(string) error{
		"a file": func(dir string) error { return os.WriteFile(dir, nil, 0o600) },
		"a link": func(dir string) error { return os.Symlink(t.TempDir(), dir) },
	} {
		dir := filepath.Join(t.TempDir(), "cache")
		if err := made(dir); err != nil {
			t.Fatal(err)
		}
		if s, err := openStore(t.Context(), dir, "ruby-1"); err == nil {
			s.close()
			t.Errorf("%s is taken for a folder", name)
		}
	}
}

// TestOldVersions removes stores that were not used for a long time.
func TestOldVersions(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	for name, age := range map[string]time.Duration{"ruby-old": 2 * unused, "ruby-new": unused / 2} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
		when := time.Now().Add(-age)
		if err := os.Chtimes(filepath.Join(dir, name), when, when); err != nil {
			t.Fatal(err)
		}
	}
	newStore(t, dir)
	if _, err := os.Stat(filepath.Join(dir, "ruby-old")); err == nil {
		t.Error("the old one is still there")
	}
	if _, err := os.Stat(filepath.Join(dir, "ruby-new")); err != nil {
		t.Error("the new one is gone")
	}
}

// TestWaiting has several readers that share a store, and a writer that waits
// for them.
func TestWaiting(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "cache")
	s := newStore(t, dir)
	one, two := openTest(t, dir), openTest(t, dir)
	if !one.verified || !two.verified {
		t.Error("two cannot read at once")
	}
	if err := os.Remove(filepath.Join(s.folder(), sumsName)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s, err := openStore(ctx, dir, "ruby-1"); err == nil {
		s.close()
		t.Error("a writer comes in beside readers")
	}
	one.close()
	two.close()
	if s := openTest(t, dir); s.verified {
		t.Error("a store without sums is verified")
	}
}

func FuzzSections(f *testing.F) {
	f.Add([]byte(header))
	f.Add([]byte(header + "\x0a\x06\x01\x04\x00\x41\x00\x0b"))
	f.Add([]byte(header + "\x00\x02\x01x\x05\x03\x01\x00\x01\x0a\x01\xff"))
	f.Fuzz(func(t *testing.T, wasm []byte) {
		list, err := Sections(wasm)
		if err != nil {
			return
		}
		again, err := Sections(Join(list))
		if err != nil || len(again) != len(list) {
			t.Fatal(err, len(again), len(list))
		}
		for i := range list {
			if again[i].ID != list[i].ID || !bytes.Equal(again[i].Body, list[i].Body) {
				t.Fatal("a section changed")
			}
		}
	})
}
