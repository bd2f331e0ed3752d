package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every command has a page that consists of text and the necessary requests, and the
// scripts for shells are for this program.
func TestPages(t *testing.T) {
	dir := t.TempDir()
	if err := write(dir, "1790000000"); err != nil {
		t.Fatal(err)
	}
	request := regexp.MustCompile(`^\.(TH|SH|PP|TP|nf|fi|B|BR)( |$)`)
	pages, err := filepath.Glob(filepath.Join(dir, "man", "*.1"))
	if err != nil || len(pages) < 60 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	for _, page := range pages {
		text := read(t, page)
		for line := range strings.Lines(text) {
			if line = strings.TrimSuffix(line, "\n"); strings.HasPrefix(line, "'") || strings.HasPrefix(line, ".") && !request.MatchString(line) {
				t.Errorf("%s: %q is no request of man(7)", filepath.Base(page), line)
			}
		}
		if !strings.Contains(text, `"2026-09-21"`) {
			t.Errorf("%s has another date", page)
		}
	}
	deploy := read(t, filepath.Join(dir, "man", "bootstrap-deploy.1"))
	for _, want := range []string{".SH NAME\nbootstrap\\-deploy \\- Create", `\fB\-o, \-\-ops\-file\fR \fIFILE\fR`, "\\fB\\-\\-previous\\fR\n", ".BR bootstrap (1),"} {
		if !strings.Contains(deploy, want) {
			t.Errorf("the page of deploy lacks %q", want)
		}
	}
	for name, want := range map[string]string{"bootstrap.bash": "complete -o default", "_bootstrap": "#compdef bootstrap", "bootstrap.fish": "complete -c bootstrap", "bootstrap.ps1": "Register-ArgumentCompleter"} {
		if !strings.Contains(read(t, filepath.Join(dir, "completions", name)), want) {
			t.Errorf("%s lacks %q", name, want)
		}
	}
	if out, err := exec.Command("bash", "-n", filepath.Join(dir, "completions", "bootstrap.bash")).CombinedOutput(); err != nil {
		t.Errorf("bash: %v\n%s", err, out)
	}
	if err := write(dir, ""); err == nil {
		t.Error("pages without a date were written")
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
