package team_test

import (
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"bootstrap/state/team"
	"bootstrap/state/team/teamtest"
)

// Names of all documents that a run can leave in a store, but for locks, the key and the
// vars store.
var left = []string{
	"state.json", "kept.json.age", "links.json.age", "compilation.json", "history.json", "history/00000001.json",
	"deployment/deployment.json", "deployment/history.json", "deployment/history/00000001.json", "deployment/history/00000001.manifest.yml",
	"deployment/web-6ba7b810/state.json", "deployment/web-6ba7b810/kept.json.age", "deployment/web-6ba7b810/history.json", "deployment/web-6ba7b810/history/00000001.json",
	"deployment/old-6ba7b810/state.json", "deployment/old-6ba7b810/kept.json.age",
	"deployment/compilation-0/state.json", "deployment/compilation-1/state.json", "deployment/compilation-1/kept.json.age",
}

// contents are those of documents that name others.
var contents = map[string]string{
	"compilation.json":                       `{"vms":2}`,
	"history.json":                           `{"versions":[{"serial":1}]}`,
	"deployment/history.json":                `{"versions":[{"serial":1,"only_here":["VM vm-1"],"attached":["manifest.yml","/../../x"]}]}`,
	"deployment/web-6ba7b810/history.json":   `{"versions":[{"serial":1}]}`,
	"deployment/deployment.json":             `{"serial":1,"instances":[{"state":"../state.json"},{"state":"web-6ba7b810/state.json"}],"former_instances":[{"state":"old-6ba7b810/state.json"}]}`,
	"deployment/history/00000001.json":       `{"record":{}}`,
	"kept.json.age":                          "sealed",
	"links.json.age":                         "sealed",
	"deployment/web-6ba7b810/kept.json.age":  "sealed",
	"deployment/old-6ba7b810/kept.json.age":  "sealed",
	"deployment/compilation-1/kept.json.age": "sealed",
}

func contentOf(name string) []byte {
	if text := contents[name]; text != "" {
		return []byte(text)
	}
	return []byte(stateText)
}

// After somebody has left the team, all documents are signed with the new key, also those
// that a killed compilation has left, and those for machines are encrypted again.
func TestNewKeyForAllDocuments(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	anna := newPerson(t, "anna")
	a := anna.open(server.URL+"/prod", "")
	lock(t, a.Store)
	if _, err := a.Save(t.Context(), []byte(stateText), ""); err != nil { // makes the key
		t.Fatal(err)
	}
	text, _, err := a.KeyText(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	old, err := team.ParseKey(text)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range left {
		put(t, a, name, team.Sign(old, name, 1<<41, "anna@here", contentOf(name)))
	}
	var rekeyed []string
	again := func(name string, sealed []byte) ([]byte, error) {
		rekeyed = append(rekeyed, name)
		return append(sealed, " again"...), nil
	}
	err = errors.Join(a.NewKey(t.Context()), a.Rekey(t.Context(), again), a.SignAgain(t.Context()), a.KeyRenewed(t.Context()))
	if err != nil {
		t.Fatal(err)
	}
	text, _, _ = a.KeyText(t.Context())
	now, err := team.ParseKey(text)
	if err != nil || now == old {
		t.Fatal(err, now == old)
	}
	for _, name := range left {
		if err := team.Check(now, name, raw(t, a, name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if want := []string{"kept.json.age", "links.json.age", "deployment/compilation-1/kept.json.age", "deployment/web-6ba7b810/kept.json.age", "deployment/old-6ba7b810/kept.json.age"}; !sameItems(rekeyed, want) {
		t.Errorf("these were encrypted again: %q", rekeyed)
	}
	one, err := anna.open(server.URL+"/prod", "").Instance(team.WorkerState(0))
	if err != nil {
		t.Fatal(err)
	}
	if count, err := one.Workers(t.Context()); err != nil || count != 2 {
		t.Error(count, err)
	}
	if d, err := one.Load(t.Context()); err != nil || d.Version == "" {
		t.Error(d.Version, err)
	}
}

// A person is shown all documents that nobody has signed, and signs them: also those that a
// killed compilation has left.
func TestTrustAllDocuments(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	anna := newPerson(t, "anna")
	a := anna.open(server.URL+"/prod", "")
	for _, name := range left {
		put(t, a, name, contentOf(name))
	}
	found, err := a.Examine(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, d := range found.Documents {
		shown = append(shown, d.Name)
	}
	if !sameItems(shown, left) {
		t.Errorf("shown: %q", shown)
	}
	if err := a.Trust(t.Context(), found); err == nil {
		t.Error("documents were signed and removed without the lock")
	}
	lock(t, a.Store)
	if err := a.Trust(t.Context(), found); err != nil {
		t.Fatal(err)
	}
	if found, err = anna.open(server.URL+"/prod", "").Examine(t.Context()); err != nil || found.Doubtful() {
		t.Errorf("%+v, %v", found, err)
	}
}

// All parts have a lock of their own, whether the store or only this machine's copy has
// them.
func TestParts(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(&teamtest.Web{})
	t.Cleanup(server.Close)
	anna := newPerson(t, "anna")
	a := anna.open(server.URL+"/prod", "")
	expect := func(want ...string) {
		t.Helper()
		parts, err := a.Parts(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, p := range parts {
			got = append(got, p.StatePath())
		}
		var paths []string
		for _, name := range want {
			paths = append(paths, filepath.Join(filepath.Dir(a.StatePath()), filepath.FromSlash(name)))
		}
		if !slices.Equal(got[:2], paths[:2]) || !sameItems(got, paths) {
			t.Errorf("got %q, want %q", got, paths)
		}
	}
	expect("state.json", "deployment/deployment.json")
	put(t, a, "compilation.json", team.Sign(team.NewKey(), "compilation.json", 1, "eve@there", []byte(`{"vms":3}`)))
	expect("state.json", "deployment/deployment.json") // nobody of the team wrote that
	for _, name := range []string{"deployment.json", "compilation-0/state.json"} {
		path := filepath.Join(a.RecordFolder(), filepath.FromSlash(name))
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, contentOf("deployment/"+name), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	copied := []string{"state.json", "deployment/deployment.json", "deployment/compilation-0/state.json", "deployment/old-6ba7b810/state.json", "deployment/web-6ba7b810/state.json"}
	expect(copied...)
	lock(t, a.Store)
	if err := errors.Join(a.RemoveWorkers(t.Context()), a.SaveWorkers(t.Context(), 2)); err != nil {
		t.Fatal(err)
	}
	expect(append(copied, "deployment/compilation-1/state.json")...)
}

func sameItems(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}
