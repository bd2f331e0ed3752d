//go:build unix

package installation

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bootstrap/internal/removal"
)

func listed(t *testing.T, p plan) map[string]Cached {
	t.Helper()
	list, err := List(p.Cache, filepath.Dir(p.Dir))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]Cached{}
	for _, c := range list {
		found[c.Name] = c
	}
	return found
}

func TestListTellsWhoNeedsAPackage(t *testing.T) {
	t.Parallel()
	p := newPlan(t, chain()...)
	if got := listed(t, p); len(got) > 0 {
		t.Fatalf("before anything was installed: %v", got)
	}
	mustInstall(t, p)
	other := p
	other.Dir = filepath.Join(filepath.Dir(p.Dir), "other")
	mustInstall(t, other)
	got := listed(t, p)
	for _, name := range []string{"main", "lib", "base"} {
		c := got[name]
		slices.Sort(c.UsedBy)
		if !slices.Equal(c.UsedBy, []string{"id", "other"}) || c.Size == 0 {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if len(got) != 3 {
		t.Errorf("%v", got)
	}
	for _, dir := range []string{p.Dir, other.Dir} {
		if err := removal.Tree(dir); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range listed(t, p) {
		if len(c.UsedBy) > 0 {
			t.Errorf("%s is used by %v", name, c.UsedBy)
		}
		if err := c.Remove(); err != nil {
			t.Error(err)
		}
	}
	left, err := os.ReadDir(p.Cache)
	if err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
	mustInstall(t, p)
}

// If the home can also be reached by another path, its installed CPIs are still found.
func TestListKnowsAHomeByAnotherPath(t *testing.T) {
	t.Parallel()
	p := newPlan(t, chain()...)
	mustInstall(t, p)
	alias := filepath.Join(t.TempDir(), "home")
	if err := os.Symlink(filepath.Dir(p.Dir), alias); err != nil {
		t.Fatal(err)
	}
	list, err := List(filepath.Join(alias, "cache"), alias)
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	for _, c := range list {
		if fmt.Sprint(c.UsedBy) != "[id]" {
			t.Errorf("%+v", c)
		}
	}
}

func TestInstallDatesWhatItUses(t *testing.T) {
	t.Parallel()
	p := newPlan(t, chain()...)
	mustInstall(t, p)
	old := time.Now().Add(-240 * time.Hour)
	for _, c := range listed(t, p) {
		if err := os.Chtimes(c.Dir, old, old); err != nil {
			t.Fatal(err)
		}
	}
	_, s := mustInstall(t, p)
	if !slices.Contains(s.list, "Compiling package 'main/fp-main' skipped: "+alreadyCompiled) {
		t.Errorf("compiled again: %q", s.list)
	}
	for name, c := range listed(t, p) {
		if time.Since(c.LastUse) > 24*time.Hour {
			t.Errorf("%s was last used %v", name, c.LastUse)
		}
	}
}
