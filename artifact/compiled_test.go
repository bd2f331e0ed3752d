package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/tartest"
)

func webKey() CompiledKey {
	return CompiledKey{Name: "web", Fingerprint: "f1", Dependencies: []string{"ruby/r1", "openssl/o1"}, Stemcell: "ubuntu-noble/1.2"}
}

func keep(t testing.TB, s *Store, key CompiledKey, data []byte) {
	t.Helper()
	kept, err := s.KeepCompiled(context.Background(), NewCompiled{Keys: []CompiledKey{key}, Digest: sha1Of(data), Fetch: bring(data), Place: "vm-4711-none"})
	if err != nil || !kept {
		t.Fatal(kept, err)
	}
}

func bring(data []byte) func(io.Writer) error {
	return func(w io.Writer) error {
		_, err := w.Write(data)
		return err
	}
}

func compiled(t testing.TB, s *Store, key CompiledKey) (Compiled, bool) {
	t.Helper()
	c, ok, err := s.Compiled(context.Background(), key)
	if err != nil {
		t.Fatal(err)
	}
	return c, ok
}

func TestCompiledIsFoundByAllThatItIsMadeOf(t *testing.T) {
	s, data := testStore(t), packageArchive(t, "compiled")
	if _, ok := compiled(t, s, webKey()); ok {
		t.Fatal("an empty cache has it")
	}
	keep(t, s, webKey(), data)
	same := webKey()
	same.Dependencies = []string{"openssl/o1", "ruby/r1", "openssl/o1"} // listed twice, in another order
	c, ok := compiled(t, s, same)
	if !ok || c.Digest != sha1Of(data) || c.Size != int64(len(data)) {
		t.Fatal(c, ok)
	}
	if got, err := os.ReadFile(c.Path); err != nil || !bytes.Equal(got, data) {
		t.Fatal("other contents", err)
	}
	for name, change := range map[string]func(*CompiledKey){
		"name":                        func(k *CompiledKey) { k.Name = "web2" },
		"fingerprint":                 func(k *CompiledKey) { k.Fingerprint = "f2" },
		"stemcell":                    func(k *CompiledKey) { k.Stemcell = "ubuntu-noble/1.3" },
		"fingerprint of a dependency": func(k *CompiledKey) { k.Dependencies = []string{"ruby/r2", "openssl/o1"} },
		"one dependency less":         func(k *CompiledKey) { k.Dependencies = k.Dependencies[:1] },
		"one dependency more":         func(k *CompiledKey) { k.Dependencies = append(k.Dependencies, "gcc/g1") },
		"owner":                       func(k *CompiledKey) { k.Owner = "deployment 1" },
		"source":                      func(k *CompiledKey) { k.Sources = []string{"web/f1/sha256:ab"} },
	} {
		other := webKey()
		change(&other)
		if _, ok := compiled(t, s, other); ok {
			t.Errorf("found although it has another %s", name)
		}
	}
}

// Compiled packages that jobs could have changed are found only by their owners; several
// owners can share one archive.
func TestCompiledHasOwners(t *testing.T) {
	s, data := testStore(t), packageArchive(t, "compiled")
	one, group, other := webKey(), webKey(), webKey()
	one.Owner, group.Owner, other.Owner = "deployment 1", "group pages", "deployment 2"
	one.Sources = []string{"web/f1/sha1"} // a release that was packed again: its digests differ
	if _, err := s.KeepCompiled(context.Background(), NewCompiled{Keys: []CompiledKey{one, group}, After: []string{"x"}, Fetch: bring(data)}); err != nil {
		t.Fatal(err)
	}
	one.Sources = nil
	for _, key := range []CompiledKey{one, group} {
		if c, ok := compiled(t, s, key); !ok || !c.Owned || len(c.After) > 0 {
			t.Errorf("%s: %v %+v", key.Owner, ok, c)
		}
	}
	for _, key := range []CompiledKey{other, webKey()} {
		if _, ok := compiled(t, s, key); ok {
			t.Errorf("%q finds what belongs to others", key.Owner)
		}
	}
}

func TestCompiledIsForItsOwnerOnly(t *testing.T) {
	s := testStore(t)
	keep(t, s, webKey(), packageArchive(t, "compiled"))
	err := filepath.Walk(s.dir.Path("packages"), func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v", path, info.Mode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamagedCompiledIsDropped(t *testing.T) {
	data := packageArchive(t, "compiled")
	for name, damage := range map[string]func(archive, index string) error{
		"another archive": func(archive, _ string) error { return os.WriteFile(archive, []byte("x"), 0o600) },
		"cut archive":     func(archive, _ string) error { return os.Truncate(archive, 10) },
		"no archive":      func(archive, _ string) error { return os.Remove(archive) },
		"a folder": func(archive, _ string) error {
			return errors.Join(os.Remove(archive), os.MkdirAll(filepath.Join(archive, "x"), 0o700))
		},
		"another index": func(_, index string) error { return os.WriteFile(index, []byte("{}"), 0o600) },
		"cut index":     func(_, index string) error { return os.Truncate(index, 70) },
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t)
			keep(t, s, webKey(), data)
			c, _ := compiled(t, s, webKey())
			index := s.compiledIndexPath(webKey().hash())
			if err := damage(c.Path, index); err != nil {
				t.Fatal(err)
			}
			if _, ok := compiled(t, s, webKey()); ok {
				t.Fatal("found")
			}
			if _, err := os.Lstat(index); err == nil {
				t.Error("its index is still there")
			}
			if _, err := os.Lstat(c.Path); err == nil && !strings.Contains(name, "index") {
				t.Error("the damaged archive is still there")
			}
			keep(t, s, webKey(), data)
			if _, ok := compiled(t, s, webKey()); !ok {
				t.Error("not found after it was kept again")
			}
		})
	}
}

// A cache that was restored from a backup has other inodes, but the same contents.
func TestCompiledThatWasCopiedIsReadAndTrusted(t *testing.T) {
	s, data := testStore(t), packageArchive(t, "compiled")
	keep(t, s, webKey(), data)
	c, _ := compiled(t, s, webKey())
	if err := errors.Join(os.Remove(c.Path), os.WriteFile(c.Path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, ok := compiled(t, s, webKey()); !ok {
		t.Fatal("not found")
	}
}

func TestKeepCompiledKeepsNothingHalf(t *testing.T) {
	data := packageArchive(t, "compiled")
	broken := errors.New("the line broke")
	for name, c := range map[string]struct {
		new  NewCompiled
		says string
	}{
		"broken fetch": {NewCompiled{Digest: sha1Of(data), Fetch: func(w io.Writer) error {
			w.Write(data[:len(data)/2])
			return broken
		}}, "the line broke"},
		"another digest": {NewCompiled{Digest: sha1Of([]byte("other")), Fetch: bring(data)}, "its digest is"},
		"no digest":      {NewCompiled{Digest: "md5:00", Fetch: bring(data)}, "no digest of a supported kind"},
		"no archive":     {NewCompiled{Digest: sha1Of(nil), Fetch: bring(nil)}, "the file is empty"},
		"cut archive":    {NewCompiled{Fetch: bring(data[:len(data)-4])}, "unexpected EOF"},
	} {
		t.Run(name, func(t *testing.T) {
			s := testStore(t)
			c.new.Keys = []CompiledKey{webKey()}
			_, err := s.KeepCompiled(context.Background(), c.new)
			tartest.MustFail(t, err, "cannot keep the compiled package web/f1", c.says)
			if _, ok := compiled(t, s, webKey()); ok {
				t.Error("it was kept")
			}
			left, _ := filepath.Glob(filepath.Join(s.dir.Path("tmp"), "*"))
			if len(left) > 0 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

func TestKeepCompiledTakesAnyDigest(t *testing.T) {
	s, data := testStore(t), packageArchive(t, "compiled")
	for i, digest := range []string{"", sha1Of(data), sha256Of(data), sha1Of(data) + ";" + sha256Of(data)} {
		key := webKey()
		key.Fingerprint = fmt.Sprint(i)
		if _, err := s.KeepCompiled(context.Background(), NewCompiled{Keys: []CompiledKey{key}, Digest: digest, Fetch: bring(data)}); err != nil {
			t.Errorf("%q: %v", digest, err)
		}
		want := digest
		if want == "" {
			want = sha1Of(data) // the oldest agents know only SHA-1
		}
		if c, ok := compiled(t, s, key); !ok || c.Digest != want {
			t.Errorf("%q: found %v with digest %q", digest, ok, c.Digest)
		}
	}
}

// A package that contains the path of its VM's folder works only there.
func TestPackageBoundToItsVMIsNotKept(t *testing.T) {
	const place = "vm-0123456789abcdef"
	across := bytes.Repeat([]byte("x"), archive.BufferSize-700)
	for name, data := range map[string][]byte{
		"in a file":        tartest.Tgz(t, tartest.File("bin/web", "#!/vms/"+place+"/vcap/packages/ruby/bin/ruby\n")),
		"in a link":        tartest.Tgz(t, tartest.Symlink("ruby", "/vms/"+place+"/vcap/packages/ruby")),
		"in a name":        tartest.Tgz(t, tartest.File(place, "")),
		"in a plain tar":   tartest.Tar(t, tartest.File("prefix", place)),
		"across two reads": tartest.Tgz(t, tartest.File("a", string(across)), tartest.File("b", string(bytes.Repeat([]byte(place), 100)))),
	} {
		s := testStore(t)
		kept, err := s.KeepCompiled(context.Background(), NewCompiled{Keys: []CompiledKey{webKey()}, Fetch: bring(data), Place: place})
		if err != nil || kept {
			t.Errorf("%s: kept %v, %v", name, kept, err)
		}
	}
	s := testStore(t)
	short, data := "web", tartest.Tgz(t, tartest.File("web", ""))
	if kept, err := s.KeepCompiled(context.Background(), NewCompiled{Keys: []CompiledKey{webKey()}, Fetch: bring(data), Place: short}); err != nil || !kept {
		t.Errorf("a CID that may be met by chance: kept %v, %v", kept, err)
	}
}

func TestKeepCompiledSideBySide(t *testing.T) {
	dir := testStore(t).dir
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			s := Open(Config{Dir: string(dir)})
			defer s.Close()
			// Two compilations make two different archives with the same files.
			data := packageArchive(t, fmt.Sprint(i%3))
			keep(t, s, webKey(), data)
			if c, ok := compiled(t, s, webKey()); ok {
				got, err := os.ReadFile(c.Path)
				if err != nil || sha1Of(got) != c.Digest {
					t.Errorf("%s has another digest: %v", c.Path, err)
				}
			} else {
				t.Error("not found")
			}
		})
	}
	group.Wait()
}

func TestCompiledEndsWithItsContext(t *testing.T) {
	s, data := testStore(t), packageArchive(t, "compiled")
	keep(t, s, webKey(), data)
	c, _ := compiled(t, s, webKey())
	if err := errors.Join(os.Remove(c.Path), os.WriteFile(c.Path, data, 0o600)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, ok, err := s.Compiled(ctx, webKey()); ok || !errors.Is(err, context.Canceled) {
		t.Fatal(ok, err)
	}
	if _, ok := compiled(t, s, webKey()); !ok {
		t.Fatal("dropped though it was not read")
	}
}

func BenchmarkCompiled(b *testing.B) {
	s, data := testStore(b), packageArchive(b, "compiled")
	keep(b, s, webKey(), data)
	for b.Loop() {
		if _, ok := compiled(b, s, webKey()); !ok {
			b.Fatal("not found")
		}
	}
}

// A package that somebody compiled is found by others with whom it is shared, and stays if
// one of them no longer needs it.
func TestShareCompiled(t *testing.T) {
	s, data := testStore(t), packageArchive(t, "compiled")
	keep(t, s, webKey(), data)
	c, _ := compiled(t, s, webKey())
	mine := webKey()
	mine.Owner = "deployment 1"
	if err := s.ShareCompiled(t.Context(), c, mine); err != nil {
		t.Fatal(err)
	}
	got, ok := compiled(t, s, mine)
	if !ok || !got.Owned || got.Path != c.Path || got.Digest != c.Digest || got.Size != c.Size {
		t.Errorf("%+v, %t, want %+v", got, ok, c)
	}
	other := mine
	other.Owner = "deployment 2"
	if _, ok := compiled(t, s, other); ok {
		t.Error("found by another deployment")
	}
}
