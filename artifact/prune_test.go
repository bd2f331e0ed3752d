package artifact

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/artifact/cache"
	"bootstrap/artifact/tartest"
)

// filledStore returns a store with a downloaded release, a release from a file that
// shares a job with it, two compiled packages, and an interrupted download.
func filledStore(t *testing.T) *Store {
	t.Helper()
	s := testStore(t)
	data := releaseArchive(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(data) }))
	defer server.Close()
	src := Source{Kind: KindRelease, Name: "web", URL: server.URL + "/web.tgz", Digest: sha256Of(data)}
	if _, err := s.Release(context.Background(), fetch(t, s, src), nil); err != nil {
		t.Fatal(err)
	}
	job, source, compiled := jobArchive(t), packageArchive(t, "other source"), packageArchive(t, "compiled")
	text := strings.Replace(releaseMFText(job, source, compiled), "version: 1.10", "version: 1.11", 1)
	other := tartest.Write(t, tartest.Tgz(t, tartest.File("jobs/web.tgz", string(job)), tartest.File("packages/web.tgz", string(source)),
		tartest.File("compiled_packages/base.tgz", string(compiled)), tartest.File("release.MF", text)), t.TempDir(), "other.tgz")
	if _, err := s.Release(context.Background(), fetch(t, s, Source{Kind: KindRelease, Name: "web", URL: other}), nil); err != nil {
		t.Fatal(err)
	}
	keep(t, s, webKey(), packageArchive(t, "compiled web"))
	key := webKey()
	key.Name = "ruby"
	keep(t, s, key, packageArchive(t, "compiled ruby"))
	tartest.Write(t, []byte("half"), s.dir.Downloads(), "sha256-"+strings.Repeat("ab", 32)+".part")
	tartest.Write(t, []byte("theirs"), s.dir.Downloads(), "0123-4567")
	return s
}

func cacheEntries(t *testing.T, s *Store) map[string]Entry {
	t.Helper()
	list, err := s.Entries()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Entry{}
	for _, e := range list {
		found[fmt.Sprintf("%s %s", e.Kind, e.Name)] = e
	}
	if len(found) != len(list) {
		t.Errorf("some are listed twice: %v", list)
	}
	return found
}

const (
	downloaded = "download release web/1.10"
	first      = "release web/1.10"
	second     = "release web/1.11"
	web        = "compiled package web/f1 (ubuntu-noble/1.2)"
	ruby       = "compiled package ruby/f1 (ubuntu-noble/1.2)"
)

func unfinished() string { return "download unfinished sha256-" + strings.Repeat("ab", 32) }

func sortedNames(found map[string]Entry) []string {
	var list []string
	for name := range found {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}

func mustHave(t *testing.T, s *Store, want ...string) map[string]Entry {
	t.Helper()
	got := cacheEntries(t, s)
	slices.Sort(want)
	if !slices.Equal(sortedNames(got), want) {
		t.Fatalf("got  %q\nwant %q", sortedNames(got), want)
	}
	return got
}

func TestEntries(t *testing.T) {
	mustHave(t, testStore(t))
	s := filledStore(t)
	for name, e := range mustHave(t, s, downloaded, unfinished(), first, second, web, ruby) {
		if e.Size == 0 || time.Since(e.LastUse) > time.Hour {
			t.Errorf("%s: %d bytes, last used %v", name, e.Size, e.LastUse)
		}
	}
}

// backdate sets the last use of entries to ten days ago.
func backdate(t *testing.T, s *Store, names ...string) {
	t.Helper()
	old := time.Now().Add(-240 * time.Hour)
	all := cacheEntries(t, s)
	for _, name := range names {
		e := all[name]
		for _, f := range append([]string{e.head}, e.files...) {
			if f != "" && strings.HasSuffix(f, ".json") {
				if err := os.Chtimes(f, old, old); err != nil && !errors.Is(err, os.ErrNotExist) {
					t.Fatal(err)
				}
			}
		}
	}
}

func prune(t *testing.T, s *Store, before time.Time) {
	t.Helper()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	done, err := s.Alone()
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	if _, err := s.Prune(before); err != nil {
		t.Fatal(err)
	}
}

// An entry that is used again counts as new; files that other entries share are kept for
// them.
func TestPruneTakesWhatWasNotUsed(t *testing.T) {
	s := filledStore(t)
	backdate(t, s, downloaded, first, second, web, ruby)
	if _, ok := compiled(t, s, webKey()); !ok {
		t.Fatal("not found")
	}
	other := cacheEntries(t, s)[second].head
	cache.Touch(other)
	prune(t, s, time.Now().Add(-24*time.Hour))
	mustHave(t, s, second, web, unfinished())
	if _, ok := s.loadIndex(context.Background(), strings.TrimSuffix(filepath.Base(other), "-"+indexFormat+".json")); !ok {
		t.Error("the release that stays has lost files")
	}
	if _, ok := compiled(t, s, webKey()); !ok {
		t.Error("the compiled package that stays is not found")
	}
}

func TestReleaseThatIsUsedAgainIsNotOld(t *testing.T) {
	s, data := testStore(t), releaseArchive(t)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.Write(data) }))
	defer server.Close()
	src := Source{Kind: KindRelease, Name: "web", URL: server.URL + "/web.tgz", Digest: sha256Of(data)}
	for range 2 {
		if _, err := s.Release(context.Background(), fetch(t, s, src), nil); err != nil {
			t.Fatal(err)
		}
		for name, e := range mustHave(t, s, downloaded, first) {
			if time.Since(e.LastUse) > time.Hour {
				t.Errorf("%s was last used %v", name, e.LastUse)
			}
		}
		backdate(t, s, downloaded, first)
	}
}

func TestPruneAll(t *testing.T) {
	s := filledStore(t)
	prune(t, s, time.Now().Add(time.Hour))
	mustHave(t, s)
	for _, folder := range []string{"archives", "jobs", "packages", "releases"} {
		if left, _ := os.ReadDir(s.dir.Path(folder)); len(left) > 0 {
			t.Errorf("%s has %v", folder, left)
		}
	}
	left, _ := filepath.Glob(filepath.Join(s.dir.Downloads(), "*"))
	if len(left) != 1 || filepath.Base(left[0]) != "0123-4567" {
		t.Errorf("downloads has %v, want only the file of another program", left)
	}
	keep(t, s, webKey(), packageArchive(t, "compiled web"))
	mustHave(t, s, web)
}

func TestPruneTakesWhatIsLeftOver(t *testing.T) {
	s := filledStore(t)
	tartest.Write(t, []byte("x"), s.dir.Path("archives"), "f00.tgz")
	tartest.Write(t, []byte("x"), s.dir.Path("jobs", "f00"), "job.MF")
	tartest.Write(t, []byte("{}"), s.dir.Path("packages"), "f00.json")
	want := []string{downloaded, unfinished(), first, second, web, ruby}
	mustHave(t, s, append(want, "leftover files without an entry")...)
	prune(t, s, time.Time{}.Add(time.Hour))
	mustHave(t, s, want...)
}

// Nothing is removed while a run uses the cache, in this or another process.
func TestNothingIsPrunedWhileItIsUsed(t *testing.T) {
	s := testStore(t)
	keep(t, s, webKey(), packageArchive(t, "compiled"))
	var busy *BusyError
	if _, err := Open(Config{Dir: string(s.dir)}).Alone(); !errors.As(err, &busy) {
		t.Fatal(err)
	}
	second := Open(Config{Dir: string(s.dir)})
	if _, ok := compiled(t, second, webKey()); !ok {
		t.Fatal("two runs disturb each other")
	}
	s.Close()
	if _, err := Open(Config{Dir: string(s.dir)}).Alone(); !errors.As(err, &busy) {
		t.Fatal(err)
	}
	second.Close()
	done, err := s.Alone()
	if err != nil {
		t.Fatal(err)
	}
	waited := make(chan error, 1)
	go func() {
		third := Open(Config{Dir: string(s.dir)})
		_, _, err := third.Compiled(context.Background(), webKey())
		waited <- errors.Join(err, third.Close())
	}()
	select {
	case err := <-waited:
		t.Errorf("a run did not wait for the prune: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	done()
	if err := <-waited; err != nil {
		t.Error(err)
	}
}
