package cmd

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each row of the table in docs/secrets.md is true: an error that contains the value shows
// or hides it.
func TestWhatOutputHides(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/secrets.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## What output hides\n")
	table, _, _ = strings.Cut(table, "\n## ")
	tried := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
		if len(cells) != 3 || !strings.Contains(cells[1], ": ") {
			continue
		}
		hidden := strings.HasPrefix(strings.TrimSpace(cells[2]), "hidden")
		if !hidden && !strings.HasPrefix(strings.TrimSpace(cells[2]), "shown") {
			t.Errorf("the row says neither hidden nor shown: %s", line)
		}
		for _, place := range places(t, cells[0]) {
			for _, given := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[1], -1) {
				tried++
				tryHidden(t, place, given[1], hidden)
			}
		}
	}
	if tried < 60 {
		t.Errorf("the table has only %d cases", tried)
	}
}

// places returns the places that a cell of the table names.
func places(t *testing.T, cell string) (list []string) {
	t.Helper()
	all := []string{"-v", "--vars-file", "--vars-env", "bootstrap.yml", "--var-file", "manifest", "vars store", "source"}
	for _, place := range all {
		if regexp.MustCompile("(^|[ `])" + regexp.QuoteMeta(place) + "([ `,;]|$)").MatchString(cell) {
			list = append(list, place)
		}
	}
	if strings.Contains(cell, "anything") {
		return all[:6]
	}
	if len(list) == 0 {
		t.Errorf("the cell %q names no place", cell)
	}
	return list
}

// tryHidden gives a value at a place, and looks for it in an error of validate.
func tryHidden(t *testing.T, place, given string, hidden bool) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	name, yaml, _ := strings.Cut(given, ": ")
	value := regexp.MustCompile(`violet-7|tea|true`).FindString(yaml)
	used := "use: ((" + name + "))"
	args := []string{"validate", filepath.Join(dir, "page.yml")}
	env := []string{"HOME=" + dir, "PATH=" + os.Getenv("PATH")}
	typed := ""
	if name == "typed" {
		typed = "variables: [{name: typed, type: password}]\n"
	}
	switch place {
	case "manifest":
		used = given
	case "-v":
		args = append(args, "-v", name+"="+yaml)
	case "--vars-file":
		write("vars.yml", given)
		args = append(args, "-l", filepath.Join(dir, "vars.yml"))
	case "--vars-env":
		args, env = append(args, "--vars-env", "TRY"), append(env, "TRY_"+name+"="+yaml)
	case "bootstrap.yml":
		write("bootstrap.yml", "vars:\n  "+given+"\n")
		args = append(args, "--bootstrap-yml", filepath.Join(dir, "bootstrap.yml"))
	case "--var-file":
		write("value", yaml)
		args = append(args, "--var-file", name+"="+filepath.Join(dir, "value"))
	case "vars store":
		write("creds.yml", given)
		args = append(args, "--vars-store", filepath.Join(dir, "creds.yml"))
	case "source":
		write("ask", "#!/bin/sh\ntest \"$1\" = "+name+" && echo '"+yaml+"'")
		args = append(args, "--var-source", "exec="+filepath.Join(dir, "ask"))
	}
	write("page.yml", `name: page
releases: [{name: local-cpi, url: "embedded:local-cpi"}, {name: lost, url: file://lost-`+value+`}]
properties: {`+used+`}
`+typed+`networks: [{name: default, type: dynamic}]
resource_pools: [{name: vms, network: default, stemcell: {url: "embedded:local-stemcell"}}]
instance_groups: [{name: web, instances: 1, jobs: [], resource_pool: vms, networks: [{name: default}]}]
cloud_provider: {template: {name: local_cpi, release: local-cpi}, mbus: "https://mbus:unlikely@127.0.0.1:6868"}
`)
	var out bytes.Buffer
	Main(args, strings.NewReader(""), &out, &out, env)
	want, not := "/lost-"+value, "/lost-<redacted>"
	if hidden {
		want, not = not, want
	}
	if !strings.Contains(out.String(), want) || strings.Contains(out.String(), not) {
		t.Errorf("%s: %s: want %q in the output:\n%s", place, given, want, out.String())
	}
}
