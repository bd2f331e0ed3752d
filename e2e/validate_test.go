//go:build unix

package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// For a mistake in the manifest of a deployment, or in a file that the manifest names,
// validate and deploy print the same sentence. validate prints all mistakes with their
// places, and deploy creates no VM.
func TestValidateSaysWhatDeploySays(t *testing.T) {
	t.Parallel()
	bin, cache := program(t)
	for _, c := range []struct {
		name, change string // a script, in the folder of the manifest
		place        string // the path of the problem, after the file
		says         string
	}{
		{"manifest", `edit 's/instances: 1/instances: 2/'`, "instance_groups[0].instances", "must be 1"},
		{"no such job", `edit 's/name: a, release: one/name: aa, release: one/'`, "instance_groups[0].jobs[0]",
			"release one has no job aa, which instance group vm names; it has: a; did you mean a?"},
		{"no such job of the CPI", `edit 's/name: local_cpi,/name: cpi,/'`, "cloud_provider.template",
			"release local-cpi has no job cpi, which cloud_provider names; it has: local_cpi"},
		{"no such package", `packed '[lost]'; edit 's#//./one#//./one.tgz#'`, "releases[1]", "job \"a\" needs the package \"lost\", which the release does not contain"},
		{"circle", `packed '[first]' first:second second:first; edit 's#//./one#//./one.tgz#'`, "",
			"packages of release one depend on each other in a circle: first -> second -> first"},
		{"clash", `mv two/packages/q two/packages/p; echo 'name: p' >two/packages/p/spec; echo '# another' >>two/packages/p/packaging; sed -i.bak s/q/p/ two/jobs/b/spec`, "", "releases one and two contain different packages named p: one VM can have only one"},
		{"other stemcell", `packed '[first]' first: first@local/9; edit 's#//./one#//./one.tgz#'`, "releases[1]",
			"package first of release one was compiled for stemcell local/9, and the manifest's stemcell is local/1: use the release compiled for it, or its source"},
		{"other name", `packed '[]'; edit 's#//./two#//./one.tgz#'`, "releases[2]", `is the release "one"`},
		{"wrong digest", `packed '[]'; edit 's#url: "file://./one#sha1: "0000000000000000000000000000000000000000", url: "file://./one.tgz#'`, "releases[1]", "not 0000000000000000000000000000000000000000 as expected"},
		{"no digest", `edit 's#file://./one#http://127.0.0.1:1/one.tgz#'`, "releases[1].sha1", "must be provided for an http(s) URL"},
		{"no file", `edit 's#//./one#//./lost.tgz#'`, "releases[1]", "there is no file"},
		{"no archive", `echo '<!DOCTYPE html>' >one.tgz; edit 's#//./one#//./one.tgz#'`, "releases[1]", "it is a web page and not an archive"},
		{"no stemcell", `edit 's#embedded:local-stemcell#file://./lost.tgz#'`, "", "there is no file"},
		{"files that are not there", `echo 'files: [lost/*]' >>one/packages/p/spec`, "releases[1]", `"lost/*"`},
		{"files that nobody has", `echo 'files: [big]' >>one/packages/p/spec; printf 'big: {size: 1, sha: %040d}\n' 0 >one/config/blobs.yml`, "releases[1]",
			"blobs/big (package p): it was never uploaded to the blobstore"},
		{"property", `echo '<%= p("port") %>' >one/jobs/a/templates/a.erb; echo 'properties: {port: {}}' >>one/jobs/a/spec`, "instance_groups[0].jobs[0]",
			"property 'port' has no value"},
		{"link", `echo '<%= link("db").p("x") %>' >one/jobs/a/templates/a.erb; echo 'consumes: [{name: db, type: db}]' >>one/jobs/a/spec`, "instance_groups[0].jobs[0]",
			"there is no link 'db'"},
		{"Ruby", `echo '<%= nil + 1 %>' >one/jobs/a/templates/a.erb`, "instance_groups[0].jobs[0]", "NoMethodError"},
		{"no CPI", `edit 's/name: local_cpi, release: local-cpi/name: a, release: one/'`, "cloud_provider.template", "none is a CPI: 'a' (release 'one')"},
		{"CPI for another machine", `packed '[first]' first: first@other/1 cpi; edit 's#//./one#//./one.tgz#; s/name: a, release: one/name: b, release: two/; s/name: local_cpi, release: local-cpi/name: a, release: one/; 17d'`, "cloud_provider.template",
			"cannot install the CPI: package 'first' of release 'one' was compiled for other/1"},
	} {
		t.Run(strings.ReplaceAll(c.name, " ", "-"), func(t *testing.T) {
			t.Parallel()
			dir := deployable(t, cache)
			command := func(name string, args ...string) (string, int) {
				cmd := exec.Command(name, args...)
				cmd.Dir = dir
				cmd.Env = []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "TMPDIR=" + os.TempDir()}
				out, err := cmd.CombinedOutput()
				var exited *exec.ExitError
				if err != nil && !errors.As(err, &exited) {
					t.Fatal(err)
				}
				return string(out), cmd.ProcessState.ExitCode()
			}
			if out, code := command("bash", "-c", deployableTools+c.change); code != 0 {
				t.Fatalf("the change: %s", out)
			}
			out, code := command(filepath.Join(bin, "bootstrap"), "validate", "--json", "m.yml")
			if code != 65 {
				t.Fatalf("validate: exit code %d\n%s", code, out)
			}
			problems := problemsIn(t, out)
			deployed, code := command(filepath.Join(bin, "bootstrap"), "deploy", "m.yml")
			if code == 0 {
				t.Errorf("deploy does it\n%s", deployed)
			}
			if !slices.ContainsFunc(problems, func(p reported) bool { return p.Path == c.place && strings.Contains(p.Message, c.says) }) {
				t.Errorf("validate does not say %q at %q\n%+v", c.says, c.place, problems)
			}
			for _, p := range problems {
				if p.Line == 0 || p.File != "m.yml" {
					t.Errorf("no place: %+v", p)
				}
				if !strings.Contains(words(deployed), words(p.Message)) {
					t.Errorf("validate says %q; deploy does not:\n%s", p.Message, deployed)
				}
			}
			if made, err := filepath.Glob(filepath.Join(dir, "home", ".bosh", "local", "vms", "*")); err != nil || len(made) > 0 {
				t.Errorf("deploy has made a VM: %v, %v", made, err)
			}
		})
	}
}

// reported is a problem in the form of validate --json.
type reported struct {
	Kind, File, Path, Message string
	Line                      int
	Warning                   bool
}

func problemsIn(t *testing.T, out string) []reported {
	t.Helper()
	var list []reported
	for line := range strings.Lines(out) {
		var p reported
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		if p.Kind == "problem" && !p.Warning {
			list = append(list, p)
		}
	}
	return list
}

// words returns a text without its line breaks.
func words(text string) string { return strings.Join(strings.Fields(text), " ") }

// deployableTools are what scripts use to change the folder of deployable: edit changes
// the manifest; packed JOB-PACKAGES NAME:DEPENDENCY… creates one.tgz, a release of those
// packages with the job a. NAME@STEMCELL is a compiled package, and cpi adds bin/cpi to
// the job.
const deployableTools = `set -e
edit() { sed -i.bak "$1" m.yml; }
packed() {
  mkdir -p r/jobs r/packages r/compiled_packages j/templates empty
  echo : >empty/packaging
  : >j/monit
  wanted=$1; shift
  printf 'name: a\npackages: %s\ntemplates: {' "$wanted" >j/job.MF
  case " $* " in *" cpi "*) echo : >j/templates/cpi; printf 'cpi: bin/cpi' >>j/job.MF;; esac
  echo '}' >>j/job.MF
  tar -C j -czf r/jobs/a.tgz .
  printf 'name: one\nversion: "1"\njobs: [{name: a, version: "1", fingerprint: "1", sha1: "sha256:%s"}]\n' $(sum r/jobs/a.tgz) >r/release.MF
  kind=packages stemcell=
  for p; do case $p in *@*) kind=compiled_packages stemcell="stemcell: ${p#*@}, ";; esac; done
  echo "$kind:" >>r/release.MF
  for p; do
    case $p in *:*) ;; *) continue;; esac
    tar -C empty -czf r/$kind/${p%%:*}.tgz .
    printf -- '- {name: %s, version: "1", fingerprint: "1", %sdependencies: [%s], sha1: "sha256:%s"}\n' "${p%%:*}" "$stemcell" "${p#*:}" $(sum r/$kind/${p%%:*}.tgz) >>r/release.MF
  done
  tar -C r -czf one.tgz .
}
sum() { openssl dgst -sha256 -r "$1" | cut -d' ' -f1; }
`

// deployable creates a folder with the manifest m.yml and two releases: one with
// the job a and the package p, and two with the job b and the package q.
func deployable(t *testing.T, cache string) string {
	t.Helper()
	dir := t.TempDir()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"m.yml": fmt.Sprintf(`name: checked
releases:
- {name: local-cpi, url: "embedded:local-cpi"}
- {name: one, url: "file://./one"}
- {name: two, url: "file://./two"}
networks:
- {name: default, type: manual, subnets: [{range: 127.0.0.0/24, gateway: 127.0.0.254}]}
resource_pools:
- {name: vms, network: default, stemcell: {url: "embedded:local-stemcell"}}
instance_groups:
- name: vm
  instances: 1
  resource_pool: vms
  networks: [{name: default, static_ips: [127.0.0.1]}]
  jobs:
  - {name: a, release: one}
  - {name: b, release: two}
cloud_provider:
  template: {name: local_cpi, release: local-cpi}
  mbus: https://mbus:password-of-this-test@127.0.0.1:%[1]d
  properties: {agent: {mbus: "https://mbus:password-of-this-test@127.0.0.1:%[1]d"}}
`, port)}
	for _, names := range [][3]string{{"one", "a", "p"}, {"two", "b", "q"}} {
		release, job, pack := names[0], names[1], names[2]
		files[release+"/config/final.yml"] = "name: " + release + "\n"
		files[release+"/jobs/"+job+"/spec"] = "name: " + job + "\npackages: [" + pack + "]\ntemplates: {a.erb: a}\n"
		files[release+"/jobs/"+job+"/monit"] = ""
		files[release+"/jobs/"+job+"/templates/a.erb"] = "text\n"
		files[release+"/packages/"+pack+"/spec"] = "name: " + pack + "\n"
		files[release+"/packages/"+pack+"/packaging"] = ":\n"
		files[release+"/src/any"] = ""
	}
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "home", ".bosh"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(cache, filepath.Join(dir, "home", ".bosh", "cache")); err != nil {
		t.Fatal(err)
	}
	return dir
}
