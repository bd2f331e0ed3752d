package fleet

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"bootstrap/manifest/document"
)

// FuzzRead looks for fleet files that make Read panic or hang, or for which it returns
// neither a fleet nor an error. Members may have the manifests a.yml and
// x/manifest.yml.
func FuzzRead(f *testing.F) {
	files, err := filepath.Glob("testdata/mistakes/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, name := range files {
		archive, err := txtar.ParseFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(archive.Files[0].Data)
	}
	f.Add([]byte("members:\n- {glob: '*/*.yml', vars: {a: \"\\x7f\\ufeff\", b: [1.5, {c: ~}]}, labels: {a: b}}\n- {manifest: a.yml, table: [{name: r}], state: '{name}.json'}\nupdate: {canaries: {count: 50%, label: a=b}, waves: [1, 10%], bake: 1m}\n"))
	dir := unpacked(f, "-- a.yml --\n-- x/manifest.yml --\n")
	path := filepath.Join(dir, "fleet.yml")
	elsewhere := regexp.MustCompile(`\.\.|~|[^A-Za-z0-9*]/`)
	f.Fuzz(func(t *testing.T, data []byte) {
		if elsewhere.Match(data) {
			t.Skip("a pattern may match files of this machine")
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		fleet, err := Read(t.Context(), path, document.Options{}, Outside{})
		if err != nil {
			checkProblems(t, err)
			return
		}
		names, states := map[string]bool{}, map[string]bool{}
		for _, m := range fleet.Members {
			key, err := newFiles(dir).stateOf(m)
			if err != nil || refuseName(m.Name) != "" || names[strings.ToLower(m.Name)] || states[key] || !filepath.IsAbs(m.Manifest) || m.Pos.Line < 1 ||
				m.Blocked != nil && strings.TrimSpace(m.Blocked.Why) == "" {
				t.Fatalf("accepted: %+v (%v)", m, err)
			}
			names[strings.ToLower(m.Name)], states[key] = true, true
			if m.Vars == nil {
				continue
			}
			if _, err := document.Evaluate(t.Context(), "-", document.Options{Stdin: strings.NewReader(string(m.Vars))}); err != nil {
				t.Fatalf("variables that are not YAML: %s: %v", m.Vars, err)
			}
		}
		u := fleet.Update
		if len(fleet.Members) == 0 || refuseName(fleet.Name) != "" || u.MaxInFlight.n < 1 || u.MaxFailures < 0 || u.RetryBusy.Rounds < 0 || u.RetryBusy.Wait < 0 ||
			u.BakeCanaries < 0 || u.BakeWaves < 0 || u.Timeout < 0 {
			t.Fatalf("accepted: %+v", fleet)
		}
		if u.Canaries.Of == "" {
			return
		}
		if s, err := ParseSelector(u.Canaries.Of); err != nil || s.Label == "" || s.Check(fleet.Members) != nil {
			t.Fatalf("accepted: %+v", fleet)
		}
	})
}

// checkProblems checks the form of an error of Read.
func checkProblems(t *testing.T, err error) {
	t.Helper()
	problems, ok := err.(*document.Problems)
	if !ok {
		if _, ok := err.(*document.FileError); !ok {
			t.Fatalf("unexpected kind of error: %T: %v", err, err)
		}
		return
	}
	for _, p := range *problems {
		if p.Message == "" || strings.ContainsAny(p.String(), "\r\n") || len(p.Message) > 1500 || strings.Contains(p.Message, "%!") {
			t.Fatalf("bad problem: %q", p)
		}
	}
}
