package instance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// A stemcell must match its entry in the manifest, if that has more than a URL.
func TestCheckStemcell(t *testing.T) {
	t.Parallel()
	got := &artifact.Stemcell{Name: "bosh-warden", OS: "ubuntu-jammy", Version: "1.5"}
	for name, c := range map[string]struct {
		ref     manifest.StemcellRef
		refused string
	}{
		"nothing is said":  {},
		"all is right":     {ref: manifest.StemcellRef{Name: "bosh-warden", OS: "ubuntu-jammy", Version: "1.5"}},
		"latest":           {ref: manifest.StemcellRef{Version: "latest"}},
		"latest of a line": {ref: manifest.StemcellRef{Version: "1.latest"}},
		"another name":     {ref: manifest.StemcellRef{Name: "other"}, refused: `its name is "other" in stemcells, but "bosh-warden"`},
		"another os":       {ref: manifest.StemcellRef{OS: "ubuntu-noble"}, refused: `its os is "ubuntu-noble"`},
		"another version":  {ref: manifest.StemcellRef{Version: "1.6"}, refused: "correct the version or the url"},
		"latest as a name": {ref: manifest.StemcellRef{Name: "latest"}, refused: `its name is "latest"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			refused(t, checkStemcell(c.ref, got), c.refused)
		})
	}
}

// Releases must have the jobs and packages, and packages are compiled after their
// dependencies.
func TestCheckJobs(t *testing.T) {
	t.Parallel()
	source := func(name string, needs ...string) *artifact.Package {
		return &artifact.Package{Name: name, Fingerprint: name, Dependencies: needs}
	}
	compiled := source("go")
	compiled.Stemcell = "ubuntu-jammy/1.4"
	other := source("openssl")
	other.Fingerprint = "other"
	for name, c := range map[string]struct {
		jobs     []manifest.JobRef
		releases map[string]*artifact.Release
		provided string // a job that the stemcell provides
		order    []string
		refused  string
	}{
		"no jobs": {},
		"dependencies first": {
			jobs:     []manifest.JobRef{{Name: "web", Release: "r"}},
			releases: release("r", []*artifact.Job{{Name: "web", Packages: []string{"page"}}}, source("page", "go", "openssl"), source("go"), source("openssl", "go")),
			order:    []string{"go", "openssl", "page"},
		},
		"a job that is not there": {
			jobs: []manifest.JobRef{{Name: "wbe", Release: "r"}}, releases: release("r", []*artifact.Job{{Name: "web"}}), refused: "wbe",
		},
		"a package that is not there": {
			jobs:     []manifest.JobRef{{Name: "web", Release: "r"}},
			releases: release("r", []*artifact.Job{{Name: "web", Packages: []string{"page"}}}),
			refused:  "release r has no package page, which job web needs",
		},
		"a circle": {
			jobs:     []manifest.JobRef{{Name: "web", Release: "r"}},
			releases: release("r", []*artifact.Job{{Name: "web", Packages: []string{"a"}}}, source("a", "b"), source("b", "a")),
			refused:  "depend on each other in a circle: a -> b -> a",
		},
		"compiled for another stemcell": {
			jobs:     []manifest.JobRef{{Name: "web", Release: "r"}},
			releases: release("r", []*artifact.Job{{Name: "web", Packages: []string{"go"}}}, compiled),
			refused:  "was compiled for stemcell ubuntu-jammy/1.4",
		},
		"a job that the stemcell provides": {
			jobs:     []manifest.JobRef{{Name: "bpm", Release: "r"}},
			releases: release("r", []*artifact.Job{{Name: "bpm", Packages: []string{"missing"}}}),
			provided: "bpm",
		},
		"two of one name": {
			jobs: []manifest.JobRef{{Name: "web", Release: "r"}, {Name: "db", Release: "s"}},
			releases: map[string]*artifact.Release{
				"r": release("r", []*artifact.Job{{Name: "web", Packages: []string{"openssl"}}}, source("openssl"))["r"],
				"s": release("s", []*artifact.Job{{Name: "db", Packages: []string{"openssl"}}}, other)["s"],
			},
			refused: "releases r and s contain different packages named openssl",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(NewEnv(Config{}), Options{})
			a := &Artifacts{
				Inputs:   reads(d, &manifest.Manifest{Group: manifest.InstanceGroup{Name: "web", Jobs: c.jobs}}),
				Releases: c.releases, Stemcell: &artifact.Stemcell{Name: "s", OS: "ubuntu-jammy", Version: "1.5"},
			}
			if c.provided != "" {
				a.Stemcell.ProvidedJobs = []string{c.provided}
			}
			if refused(t, a.checkJobs(), c.refused); c.refused != "" {
				return
			}
			order, err := a.PackageOrder()
			if err != nil {
				t.Fatal(err)
			}
			var names []string
			for _, l := range order {
				names = append(names, l.Package.Name)
			}
			if !slices.Equal(names, c.order) {
				t.Errorf("the order is %q, want %q", names, c.order)
			}
		})
	}
}

func release(name string, jobs []*artifact.Job, packages ...*artifact.Package) map[string]*artifact.Release {
	return map[string]*artifact.Release{name: {Name: name, Jobs: jobs, Packages: packages}}
}

// refused checks that the error contains the text; if that is empty, that there is no
// error.
func refused(t *testing.T, err error, text string) {
	t.Helper()
	if text == "" && err != nil || text != "" && (err == nil || !strings.Contains(err.Error(), text)) {
		t.Errorf("error %v, want %q", err, text)
	}
}

// One run reports everything that cannot be fetched, with its place in the manifest, and
// in the order of the manifest.
func TestFetchReportsAll(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	env := NewEnv(Config{Home: dir, Getenv: func(string) string { return "" }, Report: func(report.Event) {}, Secret: func(...string) {}})
	t.Cleanup(env.Close)
	if err := env.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	in := reads(New(env, Options{}), &manifest.Manifest{})
	var want []string
	for i := range 20 {
		name := fmt.Sprintf("r%d", i)
		in.Manifest.Releases = append(in.Manifest.Releases, manifest.Release{
			Name: name, URL: "file://" + dir + "/" + name + ".tgz", Pos: document.Position{File: "m.yml", Line: 3 + i, Column: 1},
		})
		want = append(want, fmt.Sprintf("m.yml:%d:1", 3+i), name+".tgz")
	}
	in.Manifest.ResourcePool.Stemcell = manifest.StemcellRef{URL: "embedded:none", Pos: document.Position{File: "m.yml", Line: 40, Column: 1}}
	want = append(want, "m.yml:40:1", "embedded:none")
	a, err := in.Fetch(t.Context(), in.Manifest.Releases, nil, true)
	if err == nil {
		t.Fatal("fetched what does not exist")
	}
	text := err.Error()
	for _, w := range want {
		_, after, found := strings.Cut(text, w)
		if !found {
			t.Fatalf("no %q at its place in:\n%v", w, err)
		}
		text = after
	}
	if len(a.Releases) != 0 || a.Stemcell != nil {
		t.Errorf("fetched %v, %v", a.Releases, a.Stemcell)
	}
}
