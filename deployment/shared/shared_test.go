package shared

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bootstrap/deployment/links"
)

// entry returns what a deployment with a source that exists shares.
func entry(t *testing.T, name string) Entry {
	t.Helper()
	return Entry{Deployment: name, Source: t.TempDir(), Written: time.Now(), Secrets: []string{"s3cret"}, Providers: []links.Provider{{
		End:        links.End{Deployment: name, Group: "db", Job: "db", Name: "conn", As: "main", Type: "sql"},
		Properties: map[string]any{"port": 5432, "big": 12345678901234567, "password": "s3cret"},
		Networks:   []string{"default"}, Default: "default",
		Instances: []links.Instance{{ID: "a", Zone: "z1", Bootstrap: true, Addresses: map[string]string{"default": "10.0.0.1"}}},
	}}}
}

func in(t *testing.T) Links { return In(t.TempDir(), os.Getenv) }

func refused(t *testing.T, l Links, name, why string) {
	t.Helper()
	if _, err := l.Find(name); err == nil || !strings.Contains(err.Error(), why) {
		t.Errorf("%v, want %q", err, why)
	}
}

func TestSaveAndFind(t *testing.T) {
	l, e := in(t), entry(t, "data")
	refused(t, l, "data", `the deployment "data" shares no links on this machine`)
	if err := l.Save(e, nil); err != nil {
		t.Fatal(err)
	}
	got, err := l.Find("data")
	if err != nil {
		t.Fatal(err)
	}
	want, _ := json.Marshal(e.Providers)
	if have, _ := json.Marshal(got.Providers); string(have) != string(want) {
		t.Errorf("have %s\nwant %s", have, want)
	}
	refused(t, l, "other", "links are shared by data")

	// The same content is not written again.
	before, err := os.ReadFile(l.path(e.Source))
	if err != nil {
		t.Fatal(err)
	}
	e.Written = e.Written.Add(time.Hour)
	if err := l.Save(e, nil); err != nil {
		t.Fatal(err)
	}
	if after, _ := os.ReadFile(l.path(e.Source)); string(after) != string(before) {
		t.Error("it was written again")
	}

	if err := l.Remove(e.Source, "another"); err != nil || l.Has(e.Source) {
		t.Error(err)
	}
}

// A deployment that has grown replaces what it shared before; one whose state is gone does
// not exist; two of one name are ambiguous.
func TestSources(t *testing.T) {
	l, one, two := in(t), entry(t, "data"), entry(t, "data")
	for _, e := range []Entry{one, two} {
		if err := l.Save(e, nil); err != nil {
			t.Fatal(err)
		}
	}
	refused(t, l, "data", "several deployments on this machine are called")
	if err := l.Save(two, []string{one.Source}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Find("data"); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(two.Source); err != nil {
		t.Fatal(err)
	}
	refused(t, l, "data", "shares no links")
}

// Files that others may write to are not believed.
func TestStrangers(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows has no modes")
	}
	l, e := in(t), entry(t, "data")
	if err := l.Save(e, nil); err != nil {
		t.Fatal(err)
	}
	path := l.path(e.Source)
	for _, c := range []struct {
		path        string
		loose, tidy os.FileMode
	}{{path, 0o660, 0o600}, {path, 0o604, 0o600}, {l.dir, 0o770, 0o700}} {
		if err := os.Chmod(c.path, c.loose); err != nil {
			t.Fatal(err)
		}
		refused(t, l, "data", "other users may read or write it")
		if err := os.Chmod(c.path, c.tidy); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Rename(path, filepath.Join(l.dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", path); err != nil {
		t.Fatal(err)
	}
	refused(t, l, "data", "other users may read or write it") // the mode of a link
	for _, text := range []string{"", "{", `{"format": 7}`} {
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused(t, l, "data", "cannot read the links that deployments share")
	}
}
