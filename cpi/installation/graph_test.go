//go:build unix

package installation

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bootstrap/artifact"
)

func TestRefused(t *testing.T) {
	t.Parallel()
	two := func(destinations ...string) []Job {
		r := &artifact.Release{Name: "r"}
		var jobs []Job
		for i, d := range destinations {
			jobs = append(jobs, Job{Release: r, Job: &artifact.Job{Name: string(rune('a' + i)), Templates: []artifact.Template{{Source: "x", Destination: d}}}})
		}
		return jobs
	}
	for _, test := range []struct {
		jobs []Job
		want string
	}{
		{nil, "names no job"},
		{two("bin/other", "config/x"), "none of the jobs that cloud_provider names has a template for bin/cpi, so none is a CPI: 'a' (release 'r'), 'b' (release 'r')"},
		{two("bin/cpi", "./bin//cpi"), "only one of the jobs that cloud_provider names may have a template for bin/cpi, but several have: 'a' (release 'r'), 'b' (release 'r')"},
	} {
		if _, err := cpiJob(test.jobs); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want %q", err, test.want)
		}
	}
	if job, err := cpiJob(two("bin/cpi", "bin/cpi_plugin")); err != nil || job.Name != "a" {
		t.Errorf("got %v, %v", job, err)
	}
}

// release creates a release from packages given as "name: dependencies".
func release(name string, packages ...string) *artifact.Release {
	r := &artifact.Release{Name: name}
	for _, text := range packages {
		p, deps, _ := strings.Cut(text, ":")
		r.Packages = append(r.Packages, &artifact.Package{Name: p, Fingerprint: name + p, Dependencies: strings.Fields(deps)})
	}
	return r
}

func needs(r *artifact.Release, name string, packages ...string) Job {
	return Job{Release: r, Job: &artifact.Job{Name: name, Packages: packages}}
}

func TestResolve(t *testing.T) {
	t.Parallel()
	one := release("one", "a: b c", "b: d", "c: d", "d:", "unused:")
	two := release("two", "a:", "x: d", "d:")
	same := release("one", "a: b c", "b: d", "c: d", "d:")
	for name, test := range map[string]struct {
		jobs []Job
		want string // order | installed, or the error
	}{
		"diamond":                {[]Job{needs(one, "j", "a")}, "one/d one/b one/c one/a | a=one b=one c=one d=one"},
		"two jobs":               {[]Job{needs(one, "j", "c"), needs(one, "k", "b")}, "one/d one/c one/b | b=one c=one d=one"},
		"transitive collision":   {[]Job{needs(one, "j", "b"), needs(two, "k", "x")}, "one/d one/b two/d two/x | b=one d=one x=two"},
		"asked for wins":         {[]Job{needs(one, "j", "b"), needs(two, "k", "d")}, "one/d one/b two/d | b=one d=two"},
		"asked for twice":        {[]Job{needs(one, "j", "d"), needs(two, "k", "d")}, "two different packages 'd', of the releases 'one' and 'two'"},
		"one release read twice": {[]Job{needs(one, "j", "a"), needs(same, "k", "a")}, "one/d one/b one/c one/a | a=one b=one c=one d=one"},
		"none":                   {[]Job{needs(one, "j")}, " | "},
		"circle":                 {[]Job{needs(release("r", "a: b", "b: c", "c: b"), "j", "a")}, "circle: 'b' -> 'c' -> 'b'"},
		"on itself":              {[]Job{needs(release("r", "a: a"), "j", "a")}, "circle: 'a' -> 'a'"},
		"missing":                {[]Job{needs(one, "j", "nope")}, "job 'j' needs package 'nope', which release 'one' does not have"},
		"missing dependency":     {[]Job{needs(release("r", "a: nope"), "j", "a")}, "package 'a' needs package 'nope', which release 'r' does not have"},
		"name":                   {[]Job{needs(release("r", "../a:"), "j", "../a")}, "whose name cannot be a file name"},
	} {
		g, err := resolve(test.jobs, machine("os/1"))
		got := ""
		if err != nil {
			if !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: got %v, want %q", name, err, test.want)
			}
			continue
		}
		var order, installed []string
		for _, n := range g.order {
			order = append(order, n.release+"/"+n.Name)
		}
		for name, n := range g.installed {
			installed = append(installed, name+"="+n.release)
		}
		slices.Sort(installed)
		if got = strings.Join(order, " ") + " | " + strings.Join(installed, " "); got != test.want {
			t.Errorf("%s: got %q, want %q", name, got, test.want)
		}
	}
}

// TestKey checks that every difference that matters changes the key.
func TestKey(t *testing.T) {
	t.Parallel()
	key := func(host string, change func(r *artifact.Release)) string {
		r := release("r", "a: b", "b: c", "c:")
		change(r)
		g, err := resolve([]Job{needs(r, "j", "a")}, machine(host))
		if err != nil {
			t.Fatal(err)
		}
		return g.installed["a"].key
	}
	none := func(*artifact.Release) {}
	keys := map[string]string{
		"as it is":      key("os/1", none),
		"other machine": key("os/2", none),
		"fingerprint":   key("os/1", func(r *artifact.Release) { r.Packages[0].Fingerprint = "x" }),
		"digest":        key("os/1", func(r *artifact.Release) { r.Packages[0].Digest = "x" }),
		"deep":          key("os/1", func(r *artifact.Release) { r.Packages[2].Digest = "x" }),
		"fewer":         key("os/1", func(r *artifact.Release) { r.Packages[1].Dependencies = nil }),
		"compiled":      key("os/1", func(r *artifact.Release) { r.Packages[0].Stemcell = "os/1" }),
	}
	seen := map[string]string{}
	for name, k := range keys {
		if other, ok := seen[k]; ok {
			t.Errorf("%q and %q have the same key", name, other)
		}
		seen[k] = name
	}
	if again := key("os/1", func(r *artifact.Release) { r.Name, r.Version = "other", "9" }); again != keys["as it is"] {
		t.Error("the release's name makes a difference")
	}
}

const (
	jammy  = "PRETTY_NAME=\"Ubuntu 22.04.4 LTS\"\nNAME=\"Ubuntu\"\nVERSION_ID=\"22.04\"\nVERSION_CODENAME=jammy\nID=ubuntu\nID_LIKE=debian\nUBUNTU_CODENAME=jammy\n"
	mint   = "NAME=\"Linux Mint\"\nVERSION_ID=\"21.3\"\nID=linuxmint\nVERSION_CODENAME=virginia\nUBUNTU_CODENAME=jammy\n"
	centos = "NAME=\"CentOS Linux\"\nID=\"centos\"\nVERSION_ID=\"7\"\n"
	arch   = "NAME='Arch Linux'\nID=arch\n"
	plist  = "<dict>\n<key>ProductName</key>\n<string>macOS</string>\n<key>ProductVersion</key>\n\t<string>14.5</string>\n</dict>"
)

func TestPlatform(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		host     platform
		name     string
		runs, no string
	}{
		{linux(jammy), "ubuntu-jammy/22.04", "ubuntu-jammy/1.199 Ubuntu-Jammy/* ubuntu/22.04 ubuntu-22.04/1", "ubuntu-noble/1.199 ubuntu/24.04 debian-jammy/1 windows2019/1"},
		{linux(mint), "linuxmint-virginia/21.3", "ubuntu-jammy/1.199 linuxmint/21.3", "ubuntu-noble/1"},
		{linux(centos), "centos/7", "centos/7 centos/7.9 centos-7/3541.12", "centos/8 centos/70 centos-8/1"},
		{linux(arch), "arch", "arch/rolling", "ubuntu-jammy/1"},
		{linux(""), "linux", "linux/1", "ubuntu-jammy/1"},
		{macOS(plist), "macos/14", "darwin/13 macos/14 macos-14/1", "macos-13/1 ubuntu-jammy/1"},
		{macOS("damaged"), "macos", "darwin/13", "macos-13/1"},
		{machine("ubuntu-noble/1.2"), "ubuntu-noble/1.2", "ubuntu-noble/9.9", "ubuntu-jammy/1.2"},
	} {
		if test.host.String() != test.name {
			t.Errorf("got %s, want %s", test.host, test.name)
		}
		for _, stemcell := range strings.Fields(test.runs) {
			if !test.host.runs(stemcell) {
				t.Errorf("%s does not run %s", test.host, stemcell)
			}
		}
		for _, stemcell := range strings.Fields(test.no) {
			if test.host.runs(stemcell) {
				t.Errorf("%s runs %s", test.host, stemcell)
			}
		}
	}
	if host := machine(""); host.String() == "" || len(host.systems) == 0 {
		t.Errorf("this machine is %+v", host)
	}
}

// TestCompiledRelease installs a CPI that needs no compilation.
func TestCompiledRelease(t *testing.T) {
	t.Parallel()
	p := newPlan(t, pack{name: "main", deps: []string{"lib"}, stemcell: "plan9-4/1.2", files: map[string]string{"bin/run": "x"}},
		pack{name: "lib", stemcell: "plan9-4/1.2", files: map[string]string{"text": "y"}})
	_, s, err := install(t, p)
	if err == nil || !strings.Contains(err.Error(), "of release 'cpi-release' was compiled for plan9-4/1.2, but this machine is "+machine("").String()) {
		t.Errorf("got %v", err)
	}
	if len(s.list) > 0 {
		t.Errorf("stages %q", s.list)
	}
	cfg := p.config(nil)
	defer cfg.Engine.Close()
	var again stages
	cfg.Platform, cfg.Stage = "plan9-4/3", again.stage
	inst, err := Install(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(filepath.Join(inst.PackagesDir, "lib", "text")); string(text) != "y" {
		t.Errorf("got %q, %v", text, err)
	}
	if again.list[0] != "Compiling package 'lib/fp-lib' skipped: "+alreadyCompiled {
		t.Errorf("stages %q", again.list)
	}
}
