//go:build unix

package installation

import (
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/artifact"
	"bootstrap/templates"
)

// TestReleaseFolder does what the author of a release does: the store reads the
// folder, the CPI is installed, the folder changes, and the CPI is installed
// again.
func TestReleaseFolder(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("ruby"); err != nil {
		t.Skip("no ruby")
	}
	dir, home := filepath.Join(t.TempDir(), "my-release"), t.TempDir()
	for name, text := range map[string]string{
		"config/final.yml": "name: my-cpi\n",
		"jobs/my_cpi/spec": `---
name: my_cpi
packages: [cli]
templates: {cpi.erb: bin/cpi, cpi.json.erb: config/cpi.json}
properties:
  my.user: {description: who}
  my.port: {default: 22}
`,
		"jobs/my_cpi/monit":                   "",
		"jobs/my_cpi/templates/cpi.erb":       "#!/bin/bash\nexec ${BOSH_PACKAGES_DIR:-/var/vcap/packages}/cli/bin/cli \"$(dirname $0)/../config/cpi.json\"\n",
		"jobs/my_cpi/templates/cpi.json.erb":  `<%= JSON.dump("user" => p("my.user"), "port" => p("my.port")) %>`,
		"packages/cli/spec":                   "---\nname: cli\ndependencies: [words]\nfiles: [cli/**/*]\n",
		"packages/cli/packaging":              "set -e\nmkdir $BOSH_INSTALL_TARGET/bin\nsed \"s#@WORDS@#$BOSH_PACKAGES_DIR/words#\" cli/cli.sh > $BOSH_INSTALL_TARGET/bin/cli\nchmod +x $BOSH_INSTALL_TARGET/bin/cli\n",
		"packages/words/spec":                 "---\nname: words\nfiles: [words]\n",
		"packages/words/packaging":            "cp words $BOSH_INSTALL_TARGET\n",
		"src/cli/cli.sh":                      "#!/bin/bash\ncat @WORDS@/words $1\n",
		"src/words":                           "hello\n",
		"jobs/my_cpi/templates/not_mentioned": "x",
	} {
		put(t, filepath.Join(dir, name), text)
	}
	store := artifact.Open(artifact.Config{Dir: home, Getenv: func(string) string { return "" }})
	engine := templates.Start(t.Context(), templates.Config{})
	defer engine.Close()
	run := func() (output string, s *stages) {
		file, err := store.Fetch(t.Context(), artifact.Source{Kind: artifact.KindRelease, Name: "my-cpi", URL: "file://" + dir}, nil)
		if err != nil {
			t.Fatal(err)
		}
		release, err := store.Release(t.Context(), file, nil)
		if err != nil {
			t.Fatal(err)
		}
		s = &stages{}
		inst, err := Install(t.Context(), Config{
			Dir: filepath.Join(home, "id"), Cache: filepath.Join(home, "cache", "compiled"), Deployment: "dep",
			Jobs: []Job{{Job: release.Job("my_cpi"), Release: release}}, Engine: engine, Stage: s.stage,
			Properties: map[string]any{"my": map[string]any{"user": "me"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("/bin/bash", inst.Path) // a child of another test may have the program open for writing
		cmd.Env = []string{"PATH=/usr/bin:/bin", "BOSH_PACKAGES_DIR=" + inst.PackagesDir}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Errorf("bin/cpi: %v: %s", err, out)
		}
		return string(out), s
	}
	if got, s := run(); got != "hello\n"+`{"user":"me","port":22}` || strings.Contains(s.list[0], "skipped") {
		t.Errorf("got %q, stages %q", got, s.list)
	}
	if _, s := run(); !strings.HasSuffix(s.list[0], alreadyCompiled) || !strings.HasSuffix(s.list[1], alreadyCompiled) {
		t.Errorf("stages of an unchanged release: %q", s.list)
	}
	put(t, filepath.Join(dir, "src", "cli", "cli.sh"), "#!/bin/bash\ncat @WORDS@/words; echo changed\n")
	got, s := run()
	if got != "hello\nchanged\n" || slices.IndexFunc(s.list, func(l string) bool { return strings.HasSuffix(l, alreadyCompiled) }) != 0 {
		t.Errorf("got %q, stages %q", got, s.list)
	}
}
