//go:build linux || darwin

package agent

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"bootstrap/agent"
	"bootstrap/local/machine"
)

// pack uploads a compiled package and returns its part of an apply spec.
func (m *testVM) pack(name, version string, f files) agent.SpecPackage {
	m.t.Helper()
	data := archived(m.t, f)
	return agent.SpecPackage{Name: name, Version: version, SHA1: sha1Of(data), BlobstoreID: m.put(data)}
}

func TestApply(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	one := m.pack("one", "p1", files{"x:./bin/one": "#!/bin/sh\n", "./lib/text": "text"})
	spec := m.specOf(map[string]files{
		"web": {"monit": "", "x:bin/run": "#!/bin/sh\n", "x:config/tool": "not under bin", "bin/sub/helper": "x"},
		"db":  {"monit": "", "extra.monit": ""},
	}, one)
	m.must("apply", spec)

	sum := spec["rendered_templates_archive"].(map[string]any)["sha1"].(string)
	web := m.vcap("data", "jobs", "web", sha1Of([]byte("web-v1-"+sum)))
	pkg := m.vcap("data", "packages", "one", sha1Of([]byte("p1-"+one.SHA1)))
	for link, want := range map[string]string{
		"jobs/web": web, "packages/one": pkg, "sys": m.vcap("data", "sys"),
		"jobs/web/packages/one": pkg, "jobs/db/packages/one": pkg,
	} {
		if got, _ := os.Readlink(m.vcap(link)); got != want {
			t.Errorf("%s leads to %q, want %q", link, got, want)
		}
	}
	for path, want := range map[string]os.FileMode{
		web: 0o750 | os.ModeDir, filepath.Join(web, "bin", "run"): 0o750, filepath.Join(web, "bin", "sub", "helper"): 0o750,
		filepath.Join(web, "config", "tool"): 0o640, filepath.Join(pkg, "bin", "one"): 0o755,
		m.vcap("data", "sys", "log", "web"): 0o770 | os.ModeDir, m.vcap("data", "web"): 0o770 | os.ModeDir,
		m.vcap("data", "sys", "run", "db"): 0o770 | os.ModeDir, m.vcap("store"): 0o700 | os.ModeDir,
	} {
		info, err := os.Stat(path)
		if err != nil || info.Mode() != want {
			t.Errorf("%s: %v %v, want %v", path, info, err, want)
		}
	}
	archiveID := spec["rendered_templates_archive"].(map[string]any)["blobstore_id"].(string)
	if status, _ := m.do("GET", "/blobs/00/"+archiveID, nil); status != 404 {
		t.Errorf("the archive of templates is still there: status %d", status)
	}
	if status, _ := m.do("GET", "/blobs/00/"+one.BlobstoreID, nil); status != 200 {
		t.Errorf("the package's blob is gone: status %d", status)
	}
	// Everything is installed, so no blob is fetched again.
	m.must("apply", spec)

	other := m.specOf(map[string]files{"web": {"monit": "", "x:bin/run": "other"}})
	m.must("apply", other)
	if got := listing(m, "jobs") + listing(m, "packages") + listing(m, "data/packages/one") + listing(m, "data/jobs/db"); got != "web" {
		t.Errorf("what the new spec does not have is left: %s", got)
	}
	if got := m.read("jobs", "web", "bin", "run"); got != "other" {
		t.Errorf("the job was not replaced: %q", got)
	}
	m.must("apply", m.specOf(nil))
	if got := listing(m, "jobs") + listing(m, "data/jobs/web"); got != "" {
		t.Errorf("the empty spec left %s", got)
	}
}

func listing(m *testVM, dir string) string {
	entries, _ := os.ReadDir(m.vcap(dir))
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestApplyWithoutHashOnlyStores(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	m.must("apply", m.specOf(map[string]files{"web": {"monit": ""}}))
	empty := m.specOf(nil)
	empty["configuration_hash"], empty["id"] = "", "7"
	m.must("apply", empty)
	if got := listing(m, "jobs"); got != "web" {
		t.Errorf("jobs: %q", got)
	}
	if got := m.read("instance", "id"); got != "7" {
		t.Errorf("instance/id: %q", got)
	}
}

func TestPrepareEnablesNothing(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	one := m.pack("one", "p1", files{"f": ""})
	spec := m.specOf(map[string]files{"web": {"monit": ""}}, one)
	if got := m.must("prepare", spec); got != `"prepared"` {
		t.Errorf("prepare: %s", got)
	}
	if got := listing(m, "jobs") + listing(m, "packages"); got != "" {
		t.Errorf("prepare enabled %s", got)
	}
	if listing(m, "data/jobs/web") == "" || listing(m, "data/packages/one") == "" {
		t.Error("prepare installed nothing")
	}
	m.must("apply", spec)
}

func TestApplyRefuses(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	good := func() map[string]any { return m.specOf(map[string]files{"web": {"monit": ""}}) }
	set := func(spec map[string]any, key string, value any) map[string]any { spec[key] = value; return spec }
	rendered := func(id, sum string) map[string]any { return map[string]any{"blobstore_id": id, "sha1": sum} }
	data := archived(t, files{"./web/monit": ""})
	missing := "Getting blob from inner blobstore: Getting blob from inner blobstore: Copying file: Opening source path: open " +
		m.vcap("data", "blobs", "gone") + ": no such file or directory"
	job := func(name, version string) map[string]any {
		return map[string]any{"name": "group", "templates": []any{map[string]any{"name": name, "version": version}}}
	}
	for _, c := range []struct {
		name string
		spec map[string]any
		want string
	}{
		{"unknown network", set(good(), "networks", map[string]any{"other": map[string]any{"ip": "10.0.0.1"}}),
			"Resolving dynamic networks: Network 'other' is not found in settings"},
		{"wrong digest", set(good(), "rendered_templates_archive", rendered(m.put(data), sha1Of(nil))), ""},
		{"missing archive", set(good(), "rendered_templates_archive", rendered("gone", sha1Of(nil))),
			"Applying: Applying job web: Preparing job: Getting job source from blobstore: " + missing},
		{"no digest", set(good(), "rendered_templates_archive", rendered("gone", "")),
			"Extracting method arguments from payload: Unmarshalling action argument: no digest algorithm found. Supported algorithms: sha1, sha256, sha512"},
		{"no archive", set(good(), "rendered_templates_archive", rendered("", "")),
			"Applying: Applying job web: Preparing job: cannot install job 'web': the spec names no archive of rendered templates"},
		{"a job that the archive does not have", set(good(), "job", job("nosuch", "v1")),
			"Applying: Applying job nosuch: Preparing job: Installing job bundle: Detecting prefix of package files: no file with prefix 'nosuch' found"},
		{"job without a version", set(good(), "job", job("web", "")),
			"Applying: cannot install job 'web': the spec gives it no version"},
		{"job with a path", set(good(), "job", job("../web", "v1")), `Applying: cannot use "../web" as the name of a job`},
		{"missing package", set(good(), "packages", map[string]any{"p": agent.SpecPackage{Name: "p", Version: "v", SHA1: sha1Of(nil), BlobstoreID: "gone"}}),
			"Applying: Applying job web: Applying package p for job web: Fetching package blob: " + missing},
		{"package without a version", set(good(), "packages", map[string]any{"p": agent.SpecPackage{Name: "p", SHA1: sha1Of(nil), BlobstoreID: "gone"}}),
			"Applying: cannot install package 'p': the spec gives it no version"},
		{"archive that leads out", nil, ""},
	} {
		switch c.name {
		case "wrong digest":
			id := c.spec["rendered_templates_archive"].(map[string]any)["blobstore_id"]
			c.want = fmt.Sprintf("Applying: Applying job web: Preparing job: Getting job source from blobstore: Checking blob '%s': Expected stream to have digest '%s' but was '%s'",
				id, sha1Of(nil), sha1Of(data))
		case "archive that leads out":
			evil := archived(t, files{"./web/monit": "", "../../evil": "x"})
			c.spec = set(good(), "rendered_templates_archive", rendered(m.put(evil), sha1Of(evil)))
			if got := m.try("apply", c.spec); !strings.HasPrefix(got, "Applying: Applying job web: Preparing job: Installing job bundle: ") {
				t.Errorf("%s: %q", c.name, got)
			}
			continue
		}
		if got := m.try("apply", c.spec); got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.name, got, c.want)
		}
	}
	if got := m.state(); len(got.Networks) != 0 {
		t.Errorf("a spec that was refused is kept: %+v", got)
	}
	m.must("apply", good())
}

func TestDynamicNetwork(t *testing.T) {
	t.Parallel()
	m := startMachine(t, func(s *agent.Settings, _ *agent.Boot) {
		s.Networks = map[string]map[string]any{"default": {"type": "dynamic"}}
	})
	spec := m.specOf(nil)
	spec["networks"] = map[string]any{"default": map[string]any{"type": "dynamic", "cloud_properties": map[string]any{}}}
	m.must("apply", spec)
	if got := m.state().Networks["default"]; got["ip"] != "127.0.0.1" || got["netmask"] != "255.0.0.0" {
		t.Errorf("the dynamic network is %v", got)
	}
	spec["networks"] = map[string]any{"local": map[string]any{"ip": "127.0.0.1"}}
	m.must("apply", spec)
}

// TestKilledInApply kills the agent repeatedly during apply, and expects a
// complete VM after the next apply.
func TestKilledInApply(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	many := map[string]files{}
	for i := range 8 {
		job := files{"monit": ""}
		for j := range 60 {
			job[fmt.Sprintf("x:bin/tool-%02d", j)] = strings.Repeat("x", 4000)
		}
		many[fmt.Sprintf("job-%d", i)] = job
	}
	for try := range 6 {
		spec := m.specOf(many)
		spec["configuration_hash"] = fmt.Sprint(try)
		m.begin("apply", 0, spec)
		time.Sleep(time.Duration(try*12) * time.Millisecond) // a different place each time
		m.endAgent(syscall.SIGKILL)
		m.exec()
		m.await()
	}
	// A kill during the replacement of a link leaves this file.
	half := m.vcap("jobs", ".link-1")
	if err := errors.Join(os.MkdirAll(half, 0o700), os.Symlink("nowhere", filepath.Join(half, "link"))); err != nil {
		t.Fatal(err)
	}
	m.must("apply", m.specOf(many))
	if got := strings.Fields(listing(m, "jobs")); !slices.Equal(got, slices.Sorted(maps.Keys(many))) {
		t.Fatalf("jobs after all: %v", got)
	}
	for name, job := range many {
		for file, text := range job {
			if got := m.read("jobs", name, strings.TrimPrefix(file, "x:")); got != text {
				t.Errorf("%s/%s has %d bytes, want %d", name, file, len(got), len(text))
			}
		}
		if got := len(strings.Fields(listing(m, "data/jobs/"+name))); got != 1 {
			t.Errorf("%d versions of %s are installed", got, name)
		}
	}
	if got := listing(m, "bosh/tmp"); got != "" {
		t.Errorf("left in bosh/tmp: %s", got)
	}
}

func TestCompile(t *testing.T) {
	t.Parallel()
	m := startMachine(t)
	compile := func(name, script string, deps map[string]any) (agent.SpecPackage, string) {
		source := files{"./packaging": script, "./src/input": "in"}
		if script == "" {
			delete(source, "./packaging")
		}
		data := archived(t, source)
		value, exception := m.finish(m.begin("compile_package", 0, m.put(data), sha256Of(data), name, name+"-v1", deps))
		var result struct{ Result agent.Blob }
		if exception == "" {
			if err := json.Unmarshal(value, &result); err != nil || len(result.Result.SHA1) != 40 {
				t.Fatalf("compile_package: %s", value)
			}
		}
		return agent.SpecPackage{Name: name, Version: name + "-v1", SHA1: result.Result.SHA1, BlobstoreID: result.Result.BlobstoreID}, exception
	}
	one, exception := compile("one", `set -e
mkdir $BOSH_INSTALL_TARGET/bin
{ pwd; echo $BOSH_COMPILE_TARGET $BOSH_INSTALL_TARGET $BOSH_PACKAGE_NAME $BOSH_PACKAGE_VERSION $VCAP_ROOT; cat src/input; } > $BOSH_INSTALL_TARGET/bin/one
ln -s one $BOSH_INSTALL_TARGET/bin/link
`, map[string]any{})
	if exception != "" {
		t.Fatal(exception)
	}
	two, exception := compile("two", "ls $VCAP_ROOT/packages > $BOSH_INSTALL_TARGET/seen; cp $VCAP_ROOT/packages/one/bin/one $BOSH_INSTALL_TARGET/", map[string]any{"one": one})
	if exception != "" {
		t.Fatal(exception)
	}
	if got := listing(m, "packages") + listing(m, "data/packages/one") + listing(m, "data/packages/two") + listing(m, "data/compile"); got != "" {
		t.Errorf("after compiling there is %s", got)
	}
	m.must("apply", m.specOf(map[string]files{"web": {"monit": ""}}, one, two))
	source := m.vcap("data", "compile", "one")
	want := fmt.Sprintf("%s\n%s %s one one-v1 %s\nin", source, source, m.vcap("packages", "one"), m.vcap())
	for _, path := range []string{"packages/one/bin/link", "packages/two/one", "jobs/web/packages/one/bin/one"} {
		if got := m.read(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
	if got := m.read("packages/two/seen"); got != "one\ntwo\n" {
		t.Errorf("packages while two was compiled: %q", got)
	}
	if none, exception := compile("none", "", nil); exception != "" || none.BlobstoreID == "" {
		t.Errorf("a package without packaging script: %q", exception)
	}
	if got := listing(m, "packages"); got != "" {
		t.Errorf("compile_package left the installed packages %s", got)
	}
	_, exception = compile("bad", "echo made > $BOSH_INSTALL_TARGET/x; echo to-stdout; exit 3", nil)
	if !strings.HasPrefix(exception, "Compiling package bad: Running packaging script: Running packaging script: Command exited with 3; Stdout: ") ||
		!strings.Contains(exception, "to-stdout") {
		t.Errorf("a script that fails: %q", exception)
	}
	if got := m.read("data/sys/log/compilation/packaging.stdout.log"); !strings.Contains(got, "to-stdout") {
		t.Errorf("its log: %q", got)
	}
	data := []byte("not an archive")
	id := m.put(data)
	for want, args := range map[string][]any{
		"Compiling package x: Uncompressing package x: ":                                       {id, sha1Of(data), "x", "v", nil},
		"Compiling package x: Fetching package x: Fetching package blob " + id + ": Checking ": {id, sha1Of(nil), "x", "v", nil},
		"Compiling package x: Fetching package x: No blobstore reference for package 'x'":      {"", sha1Of(nil), "x", "v", nil},
		"Compiling package : Getting bundle for new package: Missing bundle name":              {id, sha1Of(data), "", "v", nil},
	} {
		if got := m.try("compile_package", args...); !strings.HasPrefix(got, want) {
			t.Errorf("compile_package %v: %q, want %q", args, got, want)
		}
	}
}

// TestKilledInCompile kills the agent while a packaging script runs: the script
// dies as well, and the next attempt starts with an empty folder.
func TestKilledInCompile(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.exec()
	m.await()
	data := archived(t, files{"packaging": `touch $BOSH_INSTALL_TARGET/from-$RANDOM$RANDOM
touch $VCAP_ROOT/data/started
[ -e $VCAP_ROOT/data/quick ] || sleep 1000
`})
	id := m.put(data)
	m.begin("compile_package", 0, id, sha1Of(data), "p", "v1", nil)
	m.eventually("the script runs", func() bool { return exists(m.vcap("data", "started")) })
	m.endAgent(syscall.SIGKILL)
	v := machine.New(m.dir)
	m.eventually("the script is gone", func() bool { members, err := v.Members(t.Context()); return err == nil && len(members) == 0 })
	m.exec()
	m.await()
	if err := os.WriteFile(m.vcap("data", "quick"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var result struct{ Result agent.Blob }
	if err := json.Unmarshal([]byte(m.must("compile_package", id, sha1Of(data), "p", "v1", nil)), &result); err != nil {
		t.Fatal(err)
	}
	m.must("apply", m.specOf(map[string]files{"web": {"monit": ""}},
		agent.SpecPackage{Name: "p", Version: "v1", SHA1: result.Result.SHA1, BlobstoreID: result.Result.BlobstoreID}))
	if got := strings.Fields(listing(m, "packages/p")); len(got) != 1 {
		t.Errorf("the package has what two runs made: %v", got)
	}
}
