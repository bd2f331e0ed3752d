package fleet

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/manifest/document"
)

// found is a FindEnvironment for files called bootstrap.yml beside the manifests.
func found(manifest, named string) (Environment, error) {
	if named != "" {
		return Environment{Path: named}, nil
	}
	dir := filepath.Dir(manifest)
	switch filepath.Base(dir) {
	case "wrong":
		return Environment{}, errors.New("wrong/bootstrap.yml:1:1: unknown key")
	case "team":
		return Environment{Path: dir + "/bootstrap.yml", State: "https://team:secret@host/state"}, nil
	}
	return Environment{Path: dir + "/bootstrap.yml", State: filepath.Join(dir, "lab.json")}, nil
}

// A member gets the file beside its manifest, another one, or none; rows have states of
// their own.
func TestEnvironmentOfMembers(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, `
-- fleet.yml --
members:
- manifest: a/m.yml
- {name: own, manifest: a/m.yml, state: own.json}
- {name: other, manifest: b/m.yml, bootstrap_yml: staging.yml}
- {name: none, manifest: c/m.yml, bootstrap_yml: ""}
- manifest: a/m.yml
  table:
  - {name: row}
  - {name: row-2, bootstrap_yml: staging.yml}
-- staging.yml --
-- a/m.yml --
-- b/m.yml --
-- c/m.yml --
`)
	f, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{Environment: found})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range f.Members {
		got = append(got, shown(t, dir, []string{m.Name, m.Environment.Path, m.State}))
	}
	want := `["m","a/bootstrap.yml","a/lab.json"]
["own","a/bootstrap.yml","own.json"]
["other","staging.yml",""]
["none","",""]
["row","a/bootstrap.yml","a/row-state.json"]
["row-2","staging.yml","a/row-2-state.json"]`
	if text := strings.Join(got, "\n"); text != want {
		t.Errorf("got\n%s\nwant\n%s", text, want)
	}
}

// A wrong file is reported once, and a state that would hide an existing one is refused.
func TestWrongEnvironments(t *testing.T) {
	t.Parallel()
	dir := unpacked(t, `
-- fleet.yml --
members:
- {name: a, manifest: wrong/m.yml, state: a.json}
- {name: b, manifest: wrong/m.yml, state: b.json}
- {name: c, manifest: old/m.yml}
- {name: d, manifest: team/m.yml}
- {name: e, manifest: f/m.yml, bootstrap_yml: absent.yml}
-- wrong/m.yml --
-- old/m.yml --
-- old/m-state.json --
{}
-- team/m.yml --
-- f/m.yml --
`)
	_, err := Read(t.Context(), filepath.Join(dir, "fleet.yml"), document.Options{}, Outside{Environment: found})
	if err == nil {
		t.Fatal("no error")
	}
	got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
	for _, want := range []string{
		"fleet.yml:2:3: members[0]: wrong/bootstrap.yml:1:1: unknown key",
		"fleet.yml:4:3: members[2]: the member c has the state old/m-state.json, but old/bootstrap.yml names old/lab.json, which does not exist",
		"fleet.yml:5:3: members[3]: team/bootstrap.yml names a state with a password",
		"absent.yml does not exist",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant %s", got, want)
		}
	}
	if strings.Count(got, "unknown key") != 1 || strings.Contains(got, "secret") {
		t.Errorf("got\n%s", got)
	}
}
