//go:build unix

package instance

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/kept"
	"bootstrap/manifest"
	"bootstrap/state"
)

// The lower of the API versions of CPI and stemcell counts; each comes from its best
// source.
func TestAPIVersions(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		asked     int // the CPI's answer; 0: it was not asked
		known     int // recorded on this machine
		stemcell  int // version of the manifest's stemcell
		effective int
	}{
		"unknown":                   {stemcell: 3},
		"recorded":                  {known: 2, stemcell: 3, effective: 2},
		"an old stemcell":           {known: 2, effective: 1},
		"reported":                  {asked: 1, known: 2, stemcell: 3, effective: 1},
		"the stemcell is the lower": {asked: 3, stemcell: 2, effective: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(NewEnv(Config{}), Options{})
			d.CPI.api, d.Known.API = c.asked, c.known
			d.CPI.Use(&Artifacts{Stemcell: &artifact.Stemcell{APIVersion: c.stemcell}})
			if got := d.CPI.EffectiveAPI(); got != c.effective {
				t.Errorf("got %d, want %d", got, c.effective)
			}
		})
	}
	w := newWorld(t, Options{}, nil)
	got := []int{w.CPI.stemcellAPI()}
	w.Known.StemcellAPI = 2
	got = append(got, w.CPI.stemcellAPI())
	w.record(t, func(st *state.State) {
		st.CurrentStemcellID, st.Stemcells = "s", []state.Stemcell{{ID: "s", Name: "os", Version: "1", CID: "sc-1", APIVersion: 3}}
	})
	got = append(got, w.CPI.stemcellAPI())
	w.fetched(nil, &artifact.Stemcell{APIVersion: 4})
	if got = append(got, w.CPI.stemcellAPI()); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("of nothing, this machine, the state and the manifest: %d", got)
	}
}

// The CPI gets only the variables that are listed, and the protocol's last.
func TestCPIEnvironment(t *testing.T) {
	t.Parallel()
	env := map[string]string{
		"PATH": "/bin", "HOME": "/root", "SECRET": "s", "https_proxy": "http://proxy:1", "AWS_PROFILE": "p", "BOSH_JOBS_DIR": "/wrong",
	}
	var hidden []string
	d := New(NewEnv(Config{
		Getenv: func(n string) string { return env[n] }, PassEnv: []string{"AWS_PROFILE", "BOSH_JOBS_DIR"}, Self: "/bootstrap",
		Secret: func(values ...string) { hidden = append(hidden, values...) },
	}), Options{})
	d.CPI.Build = &installation.Installation{PackagesDir: "/packages", JobsDir: "/jobs"}
	got := strings.Join(d.CPI.Env(), " ")
	want := "PATH=/bin HOME=/root https_proxy=http://proxy:1 AWS_PROFILE=p BOSH_JOBS_DIR=/wrong BOOTSTRAP_EXECUTABLE=/bootstrap BOSH_PACKAGES_DIR=/packages BOSH_JOBS_DIR=/jobs"
	if got != want {
		t.Errorf("the environment is %q, want %q", got, want)
	}
}

// Checks the record for commands that do not read the manifest.
func TestRemember(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		build  bool // the CPI was installed in this run
		api    int  // the CPI's answer
		known  kept.Deployment
		want   kept.Deployment
		listed []string // recorded secrets
	}{
		"a first run": {
			build: true, api: 2, want: kept.Deployment{API: 2, CPI: "CPI", Jobs: "jobs", Packages: "packages"}, listed: []string{"new"},
		},
		"a later run": {
			known: kept.Deployment{API: 1, CPI: "old", Jobs: "old jobs", Packages: "old packages", Database: "a.db", Secrets: []string{"older", "new"}},
			want:  kept.Deployment{API: 1, CPI: "old", Jobs: "old jobs", Packages: "old packages", Database: "a.db"}, listed: []string{"new", "older"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, Options{}, nil)
			w.Known, w.CPI.api, w.CPI.Build = c.known, c.api, nil
			if c.build {
				w.CPI.Build = &installation.Installation{Path: "CPI", JobsDir: "jobs", PackagesDir: "packages"}
			}
			w.in.Manifest.Path, w.in.Manifest.Secrets = "/m.yml", []string{"new"}
			w.fetched(nil, &artifact.Stemcell{APIVersion: 2})
			if err := w.CPI.Remember(t.Context()); err != nil {
				t.Fatal(err)
			}
			got, _ := w.Folder().Deployment()
			if got.Name != "d" || got.Manifest != "/m.yml" || got.StemcellAPI != 2 || got.API != c.want.API || got.CPI != c.want.CPI || got.Jobs != c.want.Jobs || got.Packages != c.want.Packages || got.Database != c.want.Database {
				t.Errorf("recorded %+v, want %+v", got, c.want)
			}
			if !slices.Equal(got.Secrets, c.listed) || !slices.Equal(w.Known.Secrets, c.listed) {
				t.Errorf("recorded secrets %q, want %q", got.Secrets, c.listed)
			}
		})
	}
}

// A missing CPI is installed from the manifest, so the command must name it.
func TestPrepare(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{}, nil)
	if err := w.CPI.Prepare(t.Context()); err != nil {
		t.Errorf("an installed CPI: %v", err)
	}
	w.CPI.Build, w.read = nil, nil
	refused(t, w.CPI.Prepare(t.Context()), "name the manifest, so that it can be installed again")
	w.From.Manifest = filepath.Join(w.dir, "missing.yml")
	refused(t, w.CPI.Prepare(t.Context()), "missing.yml")
	if got := w.asked(); len(got) > 0 {
		t.Errorf("asked %q", got)
	}
}

// The record that this CPI could not attach a second disk does not count for another
// version of the CPI.
func TestSecondDisk(t *testing.T) {
	t.Parallel()
	w := newWorld(t, Options{}, nil)
	w.in.Manifest.CPI.Templates = []manifest.JobRef{{Name: "cpi", Release: "cpi"}}
	use := func(version string) {
		w.fetched(map[string]*artifact.Release{"cpi": {Name: "cpi", Version: version}}, nil)
	}
	use("1")
	w.CPI.KeepSecondDisk(kept.SecondDisk{CPI: []string{"cpi/1"}, Lost: "vm-1"})
	if !w.CPI.LostToSecondDisk("vm-1") || w.CPI.LostToSecondDisk("vm-2") || w.CPI.LostToSecondDisk("") {
		t.Error("vm-1 is the one that was lost")
	}
	use("2")
	if w.CPI.LostToSecondDisk("vm-1") {
		t.Error("another version of the CPI has lost nothing")
	}
	use("1")
	w.Scratch = w.dir
	if w.CPI.foundAgain("vm-1"); !w.CPI.LostToSecondDisk("vm-1") {
		t.Error("a plan has changed what is recorded")
	}
	w.Scratch = ""
	if w.CPI.foundAgain("vm-1"); w.CPI.LostToSecondDisk("vm-1") {
		t.Error("vm-1 answers, and counts as lost")
	}
}
