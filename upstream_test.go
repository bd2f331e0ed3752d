package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// .ci/upstream lists the commits after the one that the page names, of its paths only.
func TestUpstreamListsWhatIsNew(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"git", "bash"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	dir := t.TempDir()
	repo := filepath.Join(dir, "repo")
	git := func(args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-c", "user.name=x", "-c", "user.email=x@localhost", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Dir = repo
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	commit := func(path, subject string) {
		t.Helper()
		file := filepath.Join(repo, path)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(subject), 0o644); err != nil {
			t.Fatal(err)
		}
		git("add", ".")
		git("commit", "-q", "-m", subject)
	}
	if err := os.Mkdir(repo, 0o755); err != nil {
		t.Fatal(err)
	}
	git("init", "-q")
	commit("agent/a", "known already")
	known := git("rev-parse", "HEAD")
	commit("agent/a", "a new method")
	commit("docs/a", "of another path")
	page := filepath.Join(dir, "page.md")
	text := "## Compared with\n\n| repository | commit | date | paths |\n|---|---|---|---|\n| file://" + repo + " | " + known + " | 2026-08-08 | `agent`, `mbus` |\n"
	if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), ".ci/upstream", page).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "a new method") || strings.Contains(string(out), "known already") || strings.Contains(string(out), "another path") {
		t.Errorf("it lists:\n%s", out)
	}
	if err := os.WriteFile(page, []byte(strings.ReplaceAll(text, known, "0123456789")), 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), ".ci/upstream", page).CombinedOutput(); err == nil {
		t.Errorf("an unknown commit is no error:\n%s", out)
	}
}
