package versions

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// words are the resources of a snapshot of these tests: its words.
func words(snapshot []byte) ([]string, error) { return strings.Fields(string(snapshot)), nil }

func keep(t *testing.T, a Archive, serial int, text string, rules Rules) {
	t.Helper()
	v := Version{Serial: serial, Written: time.Unix(int64(serial), 0).UTC(), By: "anna@here", Command: "deploy"}
	docs := Documents{Snapshot: []byte(text), Manifest: fmt.Appendf(nil, "name: %d\n", serial)}
	if err := Keep(t.Context(), a, v, docs, rules); err != nil {
		t.Fatal(err)
	}
}

func list(t *testing.T, a Archive) (l List, serials []int) {
	t.Helper()
	l, err := a.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range l.Versions {
		serials = append(serials, v.Serial)
	}
	return l, serials
}

func files(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", e.Name(), info, err)
		}
	}
	return names
}

// A folder keeps the newest versions with all their documents, and those that are the only
// record of something.
func TestKeep(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := Folder{Dir: filepath.Join(dir, "backups")}
	rules := Rules{Present: []string{"a"}, Gone: []string{"gone"}, Records: words}
	for serial := range Kept + 5 {
		text := "a gone"
		if serial == 2 {
			text = "a lost"
		}
		if serial == 1 { // also in a later version
			text = "lost"
		}
		keep(t, f, serial, text, rules)
	}
	l, got := list(t, f)
	if len(got) != Kept+1 || got[0] != Kept+4 || got[Kept] != 2 || !slices.Equal(l.Gone, []string{"gone"}) {
		t.Errorf("%v, gone %v", got, l.Gone)
	}
	if v := l.Versions[0]; v.By != "anna@here" || v.Command != "deploy" || !v.Written.Equal(time.Unix(int64(v.Serial), 0)) || !slices.Equal(v.Attached, []string{Manifest}) {
		t.Errorf("%+v", v)
	}
	if names := files(t, f.Dir); len(names) != 2*(Kept+1)+2 {
		t.Errorf("%v", names)
	}
	if err := Clear(t.Context(), f, []int{2}); err != nil {
		t.Fatal(err)
	}
	if names := files(t, f.Dir); !slices.Equal(names, []string{"2.json", "2.manifest.yml", "gone.json", "writers.json"}) {
		t.Errorf("%v", names)
	}
}

// Versions move with their documents, their writers and what is gone.
func TestCopy(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	from, to := Folder{Dir: filepath.Join(dir, "a")}, Folder{Dir: filepath.Join(dir, "b")}
	for serial := range 3 {
		keep(t, from, serial, "a", Rules{Gone: []string{"x", "y"}})
	}
	keep(t, to, 1, "other", Rules{})
	leave := func(v Version, _ []byte) bool { return v.Serial == 0 }
	if err := Copy(t.Context(), from, to, Rules{Present: []string{"y"}, Leave: leave}); err != nil {
		t.Fatal(err)
	}
	l, got := list(t, to)
	if !slices.Equal(got, []int{2, 1}) || !slices.Equal(l.Gone, []string{"x"}) || l.Versions[0].By != "anna@here" {
		t.Errorf("%+v", l)
	}
	docs, err := ReadAll(t.Context(), to, l.Versions[0])
	if err != nil || string(docs[Manifest]) != "name: 2\n" {
		t.Errorf("%q, %v", docs, err)
	}
	if data, err := to.Read(t.Context(), 1, Snapshot); err != nil || string(data) != "other" {
		t.Errorf("%s, %v", data, err)
	}
	copies := Folder{Dir: filepath.Join(dir, "c")}
	same := func(there, here Version) bool { return there.By == here.By }
	keep(t, copies, 1, "stale", Rules{})
	if err := SetOnly(t.Context(), from, map[int][]string{1: {"a"}}); err != nil {
		t.Fatal(err)
	}
	if err := Pull(t.Context(), from, copies, same); err != nil {
		t.Fatal(err)
	}
	if l, got := list(t, copies); !slices.Equal(got, []int{2, 1, 0}) || len(l.Versions[0].Attached) > 0 {
		t.Errorf("%+v", l)
	}
}

// The snapshots of a folder may describe themselves.
func TestDescribed(t *testing.T) {
	t.Parallel()
	describe := func(data []byte, v Version) ([]byte, error) {
		return json.Marshal(map[string]any{"written": v.Written, "by": v.By, "command": v.Command, "only_here": v.Only})
	}
	f := Folder{Dir: t.TempDir(), Describe: describe}
	for serial := range 2 {
		keep(t, f, serial, "{}", Rules{})
	}
	if err := SetOnly(t.Context(), f, map[int][]string{1: {"VM vm-1"}}); err != nil {
		t.Fatal(err)
	}
	l, _ := list(t, f)
	if v := l.Versions[0]; v.By != "anna@here" || !slices.Equal(v.Only, []string{"VM vm-1"}) || v.Written.Unix() != 1 {
		t.Errorf("%+v", v)
	}
	if names := files(t, f.Dir); !slices.Equal(names, []string{"0.json", "0.manifest.yml", "1.json", "1.manifest.yml"}) {
		t.Errorf("%v", names)
	}
}
