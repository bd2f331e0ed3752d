//go:build unix

package installation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"bootstrap/internal/removal"

	"bootstrap/artifact"
	"bootstrap/artifact/archive"
	"bootstrap/artifact/packaging"
	"bootstrap/internal/digest"
	"bootstrap/templates"

	"go.uber.org/goleak"
)

// childEnv names a file with a plan: the test binary then installs that plan and
// exits.
const childEnv = "CPI_BUILD_TEST_PLAN"

type plan struct {
	Dir, Cache string
	Release    *artifact.Release
}

func TestMain(m *testing.M) {
	if file := os.Getenv(childEnv); file != "" {
		var p plan
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err == nil {
			_, err = Install(context.Background(), p.config(nil))
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// config installs all jobs of the release.
func (p plan) config(engine *templates.Engine) Config {
	if engine == nil {
		engine = templates.Start(context.Background(), templates.Config{})
	}
	cfg := Config{Dir: p.Dir, Cache: p.Cache, Deployment: "dep", Engine: engine, Properties: map[string]any{"user": "s3cret"}}
	for _, job := range p.Release.Jobs {
		cfg.Jobs = append(cfg.Jobs, Job{Job: job, Release: p.Release})
	}
	return cfg
}

// pack is a package to create: its files, or only the text of its packaging script.
type pack struct {
	name, script string
	deps         []string
	files        map[string]string
	stemcell     string
}

// newPlan creates a release with one CPI job that needs all packages on which no
// other package depends.
func newPlan(t testing.TB, packs ...pack) plan {
	t.Helper()
	dir := t.TempDir()
	p := plan{Dir: filepath.Join(dir, "home", "id"), Cache: filepath.Join(dir, "home", "cache"), Release: &artifact.Release{Name: "cpi-release", Version: "7"}}
	job := &artifact.Job{Release: "cpi-release", Name: "the_cpi", Dir: filepath.Join(dir, "job"),
		Templates:  []artifact.Template{{Source: "cpi.erb", Destination: "bin/cpi"}, {Source: "cpi.json", Destination: "config/cpi.json"}},
		Properties: []artifact.Property{{Name: "user"}},
	}
	put(t, filepath.Join(job.Dir, "monit"), "")
	put(t, filepath.Join(job.Dir, "templates", "cpi.erb"), "#!/bin/bash\nexec \"$BOSH_PACKAGES_DIR/main/bin/run\"\n")
	put(t, filepath.Join(job.Dir, "templates", "cpi.json"), "plain")
	needed := map[string]bool{}
	for _, pk := range packs {
		p.Release.Packages = append(p.Release.Packages, newPackage(t, dir, pk))
		for _, dep := range pk.deps {
			needed[dep] = true
		}
	}
	for _, pk := range packs {
		if !needed[pk.name] {
			job.Packages = append(job.Packages, pk.name)
		}
	}
	p.Release.Jobs = []*artifact.Job{job}
	return p
}

func newPackage(t testing.TB, dir string, pk pack) *artifact.Package {
	t.Helper()
	source := filepath.Join(t.TempDir(), "source")
	if err := os.MkdirAll(source, 0o700); err != nil {
		t.Fatal(err)
	}
	if pk.script != "" {
		put(t, filepath.Join(source, "packaging"), pk.script)
	}
	for name, text := range pk.files {
		put(t, filepath.Join(source, name), text)
	}
	packed := filepath.Join(dir, "archives", pk.name+".tgz")
	put(t, packed, "")
	f, err := os.Create(packed)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := archive.Pack(t.Context(), source, f); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Seek(0, 0); err != nil {
		t.Fatal(err)
	}
	sum, err := digest.SHA256(f)
	if err != nil {
		t.Fatal(err)
	}
	return &artifact.Package{Name: pk.name, Fingerprint: "fp-" + pk.name, Digest: sum.String(), Dependencies: pk.deps, Archive: packed, Stemcell: pk.stemcell}
}

func put(t testing.TB, name, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// stages collects the calls of Stage, in the order of their ends.
type stages struct {
	mu   sync.Mutex
	list []string
}

func (s *stages) stage(name string) func(string, error) {
	return func(skipped string, err error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		switch {
		case err != nil:
			name += " failed"
		case skipped != "":
			name += " skipped: " + skipped
		}
		s.list = append(s.list, name)
	}
}

func install(t testing.TB, p plan) (*Installation, *stages, error) {
	t.Helper()
	engine := templates.Start(t.Context(), templates.Config{})
	defer engine.Close()
	var s stages
	cfg := p.config(engine)
	cfg.Stage = s.stage
	inst, err := Install(t.Context(), cfg)
	return inst, &s, err
}

func mustInstall(t testing.TB, p plan) (*Installation, *stages) {
	t.Helper()
	inst, s, err := install(t, p)
	if err != nil {
		t.Fatal(err)
	}
	return inst, s
}

// chain returns packages of a CPI: one that depends on a second one, which depends on a
// third one.
func chain() []pack {
	return []pack{
		{name: "main", deps: []string{"lib"}, script: `set -e
mkdir ../src
mkdir "$BOSH_INSTALL_TARGET/bin"
{ echo '#!/bin/sh'; echo "cat $BOSH_PACKAGES_DIR/lib/text"; cat $BOSH_PACKAGES_DIR/base/text; } > "$BOSH_INSTALL_TARGET/bin/run"
chmod +x "$BOSH_INSTALL_TARGET/bin/run"`},
		{name: "lib", deps: []string{"base"}, script: `cp $BOSH_PACKAGES_DIR/base/text $BOSH_INSTALL_TARGET/text`},
		{name: "base", script: `cp text $BOSH_INSTALL_TARGET/`, files: map[string]string{"text": "echo from base\n"}},
	}
}

func TestInstall(t *testing.T) {
	t.Parallel()
	p := newPlan(t, chain()...)
	if _, err := exec.LookPath("ruby"); err == nil {
		put(t, filepath.Join(p.Release.Jobs[0].Dir, "templates", "cpi.json"), "<%= p('user') %> <%= spec.deployment %> <%= spec.release.version %> <%= spec.bootstrap %> <%= name %>")
	}
	inst, s := mustInstall(t, p)
	want := []string{
		"Compiling package 'base/fp-base'", "Compiling package 'lib/fp-lib'", "Compiling package 'main/fp-main'",
		"Installing packages", "Rendering job templates", "Installing job 'the_cpi'",
	}
	if !slices.Equal(s.list, want) {
		t.Errorf("stages %q", s.list)
	}
	run := func(inst *Installation) string {
		cmd := exec.Command("/bin/bash", inst.Path) // the program itself may be open in the child of another test
		cmd.Env = []string{"PATH=/bin:/usr/bin", "BOSH_PACKAGES_DIR=" + inst.PackagesDir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("bin/cpi: %v: %s", err, out)
		}
		return string(out)
	}
	if got := run(inst); got != "echo from base\nfrom base\n" {
		t.Errorf("bin/cpi says %q", got)
	}
	config := filepath.Join(inst.JobsDir, "the_cpi", "config", "cpi.json")
	for name, mode := range map[string]fs.FileMode{
		p.Dir: 0o700, inst.JobsDir: 0o700, inst.PackagesDir: 0o700, filepath.Join(p.Dir, "tmp"): 0o700, p.Cache: 0o700,
		filepath.Dir(config): 0o700, config: 0o600, inst.Path: 0o700,
	} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, info.Mode(), err)
		}
	}
	if text, _ := os.ReadFile(config); string(text) != "plain" && string(text) != "s3cret dep 7 true the_cpi" {
		t.Errorf("config is %q", text)
	}

	// A second deployment on the machine compiles nothing.
	second := p
	second.Dir = filepath.Join(filepath.Dir(p.Dir), "id2")
	other, s := mustInstall(t, second)
	if n := strings.Count(strings.Join(s.list, "\n"), "skipped: Package already compiled"); n != 3 {
		t.Errorf("stages %q", s.list)
	}
	if err := removal.Tree(p.Dir); err != nil {
		t.Error(err)
	}
	if got := run(other); got != "echo from base\nfrom base\n" {
		t.Errorf("bin/cpi says %q after the other installation has gone", got)
	}
	if err := other.Cleanup(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(other.JobsDir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rendered jobs are left: %v", err)
	}
	if err := other.Cleanup(); err != nil {
		t.Errorf("not idempotent: %v", err)
	}
}

// TestChange installs a release again in which one package has changed and one
// was removed.
func TestChange(t *testing.T) {
	t.Parallel()
	p := newPlan(t, append(chain(), pack{name: "gone", script: "true"})...)
	inst, _ := mustInstall(t, p)
	packs := chain()
	packs[1].script += "\n# changed"
	changed := newPlan(t, packs...)
	changed.Dir, changed.Cache = p.Dir, p.Cache
	put(t, filepath.Join(inst.PackagesDir, "stray", "file"), "x")
	_, s := mustInstall(t, changed)
	want := []string{"Compiling package 'base/fp-base' skipped: " + alreadyCompiled, "Compiling package 'lib/fp-lib'", "Compiling package 'main/fp-main'"}
	if !slices.Equal(s.list[:3], want) {
		t.Errorf("stages %q", s.list)
	}
	var names []string
	entries, _ := os.ReadDir(inst.PackagesDir)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"base", "lib", "main"}) {
		t.Errorf("packages %q", names)
	}
}

func TestFailingScript(t *testing.T) {
	t.Parallel()
	p := newPlan(t, pack{name: "main", deps: []string{"bad"}, script: "true"}, pack{name: "bad", script: "echo what is wrong; exit 4"})
	for range 2 {
		_, s, err := install(t, p)
		var failed *packaging.Error
		if !errors.As(err, &failed) || failed.ExitStatus != 4 {
			t.Fatalf("got %v", err)
		}
		for _, want := range []string{"package 'bad'", "status 4", "| what is wrong", "release 'cpi-release'", failed.Log} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%q lacks %q", err, want)
			}
		}
		if _, err := os.Stat(filepath.Join(filepath.Dir(failed.Log), "build", "source", "packaging")); err != nil {
			t.Errorf("the work folder is gone: %v", err)
		}
		if !slices.Equal(s.list, []string{"Compiling package 'bad/fp-bad' failed"}) {
			t.Errorf("stages %q", s.list)
		}
	}
}

// TestFailureStopsTheOthers checks that the error is the first failure and not
// an interrupted compilation of another package.
func TestFailureStopsTheOthers(t *testing.T) {
	t.Parallel()
	mark := filepath.Join(t.TempDir(), "mark")
	p := newPlan(t, pack{name: "slow", script: "touch " + mark + "; sleep 600"},
		pack{name: "bad", script: "for i in $(seq 1 1000); do [ -e " + mark + " ] && exit 1; sleep 0.01; done; exit 1"})
	if _, _, err := install(t, p); err == nil || !strings.Contains(err.Error(), "package 'bad'") || strings.Contains(err.Error(), "slow") {
		t.Errorf("got %v", err)
	}
}

// TestParallel has two packages that each wait for the other one to begin.
func TestParallel(t *testing.T) {
	t.Parallel()
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two CPUs")
	}
	dir := t.TempDir()
	wait := func(mine, other string) string {
		return fmt.Sprintf("touch %s/%s; for i in $(seq 1 1000); do [ -e %[1]s/%[3]s ] && exit 0; sleep 0.01; done; exit 1", dir, mine, other)
	}
	p := newPlan(t, pack{name: "a", script: wait("a", "b")}, pack{name: "b", script: wait("b", "a")})
	if _, _, err := install(t, p); err != nil {
		t.Error(err)
	}
}

// TestFailingTemplate checks that no rendered secrets are left after an error.
func TestFailingTemplate(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("no ruby")
	}
	p := newPlan(t, chain()...)
	inst, _ := mustInstall(t, p)
	put(t, filepath.Join(p.Dir, "tmp", "jobs", "old"), "secret of a run that was cut")
	put(t, filepath.Join(p.Release.Jobs[0].Dir, "templates", "cpi.json"), "<%= p('nope') %>")
	p.Release.Jobs[0].Properties = append(p.Release.Jobs[0].Properties, artifact.Property{Name: "nope"})
	_, s, err := install(t, p)
	var failures *templates.Failures
	if !errors.As(err, &failures) || !strings.Contains(err.Error(), "set it at cloud_provider.properties.nope") {
		t.Errorf("got %v", err)
	}
	if last := s.list[len(s.list)-1]; last != "Rendering job templates failed" {
		t.Errorf("stages %q", s.list)
	}
	for _, dir := range []string{inst.JobsDir, filepath.Join(p.Dir, "tmp", "jobs")} {
		if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s is left", dir)
		}
	}
}

func BenchmarkInstallAgain(b *testing.B) {
	for _, files := range []int{10, 10_000} {
		p := newPlan(b, pack{name: "main", script: fmt.Sprintf("cd $BOSH_INSTALL_TARGET; for d in $(seq 1 %d); do mkdir $d; (cd $d; touch $(seq 1 10)); done", files/10)})
		mustInstall(b, p)
		engine := templates.Start(b.Context(), templates.Config{})
		defer engine.Close()
		b.Run(fmt.Sprint(files), func(b *testing.B) {
			for b.Loop() {
				if _, err := Install(b.Context(), p.config(engine)); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
