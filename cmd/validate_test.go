package cmd

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bootstrap/cmd/exit"
)

const validated = `name: v
releases:
- {name: local-cpi, url: "embedded:local-cpi"}
- {name: far, url: "http://127.0.0.1:1/far.tgz", sha1: "da39a3ee5e6b4b0d3255bfef95601890afd80709"}
networks:
- {name: default, type: dynamic}
resource_pools:
- {name: vms, network: default, stemcell: {url: "embedded:local-stemcell"}}
instance_groups:
- name: vm
  instances: 1
  resource_pool: vms
  networks: [{name: default}]
  jobs:
  - {name: ((job_name)), release: local-cpi}
  - {name: any, release: far}
  properties: {a: ((generated))}
cloud_provider:
  template: {name: local_cpi, release: local-cpi}
  mbus: https://mbus:((mbus_password))@127.0.0.1:6868
variables:
- {name: generated, type: password}
- {name: mbus_password, type: password}
`

// inFolder writes files into a folder and returns its path.
func inFolder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestValidate(t *testing.T) {
	dir := inFolder(t, map[string]string{"m.yml": validated})
	args := []string{"validate", filepath.Join(dir, "m.yml"), "--vars-store", filepath.Join(dir, "creds.yml")}
	code, out, errs := run(t, append(args, "-v", "job_name=local_cpi")...)
	if code != 0 || errs != "" || !strings.Contains(out, "m.yml is valid.\n") ||
		!strings.Contains(out, "Not checked: release far: it is not on this machine yet\n") ||
		!strings.Contains(out, "Not checked: values that depend on variables that deploy will generate: generated, mbus_password\n") {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	code, out, errs = run(t, append(args, "-v", "job_name=locl_cpi")...)
	if code != exit.Manifest || out != "" || !strings.Contains(errs, `m.yml:15:5: instance_groups[0].jobs[0]: release local-cpi has no job locl_cpi, which instance group vm names; it has: local_cpi; did you mean local_cpi?`) {
		t.Errorf("exit code %d\n%s%s", code, out, errs)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("something was written: %v, %v", entries, err)
	}
}

// With --json, every finding is one object.
func TestValidateAsJSON(t *testing.T) {
	dir := inFolder(t, map[string]string{"m.yml": validated, "vars.yml": "job_name: 5\n"})
	for _, c := range []struct {
		flags []string
		code  int
		kinds string
	}{
		{[]string{"-v", "job_name=local_cpi", "--vars-store", filepath.Join(dir, "creds.yml")}, 0, "unchecked unchecked unchecked unchecked result"},
		{[]string{"-l", filepath.Join(dir, "vars.yml")}, exit.Manifest, "problem problem result"},
	} {
		code, out, _ := run(t, append([]string{"validate", "--json", filepath.Join(dir, "m.yml")}, c.flags...)...)
		var kinds []string
		for line := range strings.Lines(out) {
			var object struct {
				Kind, File, Path, Message string
				Line                      int
			}
			if err := json.Unmarshal([]byte(line), &object); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			if object.Kind == "problem" && (object.File != filepath.Join(dir, "m.yml") || object.Line == 0 || object.Path == "" || object.Message == "") {
				t.Errorf("problem %+v", object)
			}
			kinds = append(kinds, object.Kind)
		}
		if code != c.code || strings.Join(kinds, " ") != c.kinds {
			t.Errorf("%q: exit code %d\n%s", c.flags, code, out)
		}
	}
}

func TestInterpolate(t *testing.T) {
	dir := inFolder(t, map[string]string{
		"m.yml":    "b: ((x))\na: {text: ((secret)), list: [1, yes]}\nleft: ((left))\n",
		"ops.yml":  "- {type: replace, path: /a/list/-, value: ((x))}\n",
		"vars.yml": "x: 5\nspare: 1\nsecret: |\n  sesame\n  open\n",
	})
	file := func(name string) string { return filepath.Join(dir, name) }
	inputs := []string{"interpolate", file("m.yml"), "-o", file("ops.yml"), "-l", file("vars.yml")}
	for _, c := range []struct {
		flags            []string
		code             int
		stdout, inStderr string
	}{
		{nil, 0, "a:\n  list:\n  - 1\n  - true\n  - 5\n  text: |\n    sesame\n    open\nb: 5\nleft: ((left))\n", ""},
		{[]string{"-v", "x=7", "--path", "/b"}, 0, "7\n", ""},
		{[]string{"--path", "/a/text"}, 0, "sesame\nopen\n\n", ""},
		{[]string{"--path", "/a/list"}, 0, "- 1\n- true\n- 5\n", ""},
		{[]string{"--path", "/lost"}, 1, "", `has no key "lost"`},
		{[]string{"--var-errs"}, exit.Manifest, "", "m.yml:3:7: left: the variable ((left)) has no value"},
		{[]string{"--var-errs-unused"}, 1, "", "no variable uses these given values: spare"},
		{[]string{"--json", "--path", "/b"}, 0, `{"kind":"document","text":"5\n"}` + "\n" + `{"kind":"result","status":"finished","exit_code":0}` + "\n", ""},
	} {
		code, out, errs := run(t, append(inputs, c.flags...)...)
		if code != c.code || out != c.stdout || !strings.Contains(errs, c.inStderr) || c.code == 0 && errs != "" || c.code != 0 && strings.Contains(errs, "sesame") {
			t.Errorf("%q: exit code %d\n%s%s", c.flags, code, out, errs)
		}
	}
}

func TestInterpolateStandardInput(t *testing.T) {
	var out, errs bytes.Buffer
	code := Main([]string{"int", "-", "--vars-env", "MY", "--path", ""}, strings.NewReader("a: ((b))\n"), &out, &errs, []string{"MY_b=[1, 2]"})
	if code != 0 || out.String() != "a:\n- 1\n- 2\n" || errs.Len() > 0 {
		t.Errorf("exit code %d\n%s%s", code, &out, &errs)
	}
}
