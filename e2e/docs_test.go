//go:build unix

package e2e

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bootstrap/internal/pagetest"
)

// TestDocs runs the commands of every page of the documentation as a reader would paste
// them, and compares what they print with what the page shows. Each page has a folder
// with an empty home folder and the quickstart. If a block is not run, a comment before
// it says why: `<!-- not run: needs AWS -->`. `<!-- before: … -->` contains commands that
// prepare a block. A YAML block that begins with `# NAME.yml` is written to that file.
func TestDocs(t *testing.T) {
	bin, cache := program(t)
	var list []string
	for _, pattern := range []string{"../README.md", "../docs/*.md", "../docs/*/*.md", "../examples/README.md", "../examples/*/README.md"} {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, found...)
	}
	run, not := 0, 0
	for _, path := range list {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		blocks := pagetest.Blocks(string(data))
		runs := false
		for _, b := range blocks {
			switch steps := b.Commands(); {
			case len(steps) > 0 && b.NotRun != "":
				not++
				t.Logf("%s:%d is not run: %s", path, b.Line, b.NotRun)
			case len(steps) > 0:
				run, runs = run+1, true
			}
		}
		if runs {
			t.Run(strings.TrimPrefix(path, "../"), func(t *testing.T) {
				t.Parallel()
				runPage(t, path, blocks, bin, cache)
			})
		}
	}
	t.Logf("%d blocks of commands are run, %d are not", run, not)
}

// step is a command on a page, which the test runs.
type step struct {
	line int // line of its block
	pagetest.Step
	console bool
}

// runPage runs the blocks of a page, in one shell.
func runPage(t *testing.T, path string, blocks []pagetest.Block, bin, cache string) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		endAll(func() []process {
			return append(ofVMs(dir), inVMs(filepath.Join(filepath.Base(filepath.Dir(dir)), filepath.Base(dir), "home"))...)
		})
	})
	ports := map[string]string{} // ports on the page, and the ports that are used instead
	for _, of := range []string{"8787", "6868", "8788", "7868", "8780", "7860", "7821", "7822", "7811", "7812", "7813", "8811", "8812", "8813"} {
		port, err := freePort()
		if err != nil {
			t.Fatal(err)
		}
		ports[of] = strconv.Itoa(port)
	}
	own := func(text string) string {
		for of, port := range ports {
			text = regexp.MustCompile(`\b`+of+`\b`).ReplaceAllLiteralString(text, port)
		}
		return text
	}
	work := prepare(t, dir, bin, cache, own)
	script, steps := scriptOf(t, path, blocks, own)

	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", filepath.Join(dir, "page.sh"))
	if err := os.WriteFile(cmd.Args[1], []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.Dir = work
	cmd.Env = []string{"HOME=" + filepath.Join(dir, "home"), "PATH=" + filepath.Join(dir, "bin") + ":" + os.Getenv("PATH"), "TMPDIR=" + filepath.Join(dir, "tmp"), "USER=me", "LANG=C.UTF-8"}
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	text := string(out)
	for of, port := range ports {
		text = strings.ReplaceAll(text, port, of)
	}
	text = strings.ReplaceAll(strings.ReplaceAll(text, filepath.Join(dir, "home"), "~"), work, "~/bootstrap")
	if err != nil {
		t.Fatalf("%s: %v\n%s", path, err, text)
	}
	parts := regexp.MustCompile(`(?m)^@@ (\d+) (\d+)\n`).FindAllStringSubmatchIndex(text, -1)
	if len(parts) != len(steps) {
		t.Fatalf("%s: %d of %d commands were run\n%s", path, len(parts), len(steps), text)
	}
	from := 0
	for i, at := range parts {
		output, code := text[from:at[0]], text[at[4]:at[5]]
		from = at[1]
		s := steps[i]
		where := fmt.Sprintf("%s:%d: %s", path, s.line, strings.TrimSpace(s.Command))
		if !s.mayEnd(code) {
			t.Fatalf("%s ended with %s\n%s", where, code, output)
		}
		if lacks := pagetest.Fits(s.Output, output); lacks != "" {
			t.Errorf("%s: the page shows a line that was not printed, or not in this order: %q; printed was\n%s", where, lacks, pagetest.Plain(output))
		}
	}
}

// mayEnd reports whether the command may end with that exit code: plan with changes,
// and commands that the page shows to fail.
func (s step) mayEnd(code string) bool {
	return code == "0" || code == "2" && (strings.Contains(s.Command, "bootstrap plan") || strings.Contains(s.Command, "bootstrap fleet plan")) || s.console && slices.Contains(s.Output, "Exit code "+code)
}

// prepare makes the folders of a page and returns the one in which it runs.
func prepare(t *testing.T, dir, bin, cache string, own func(string) string) string {
	t.Helper()
	work := filepath.Join(dir, "bootstrap")
	for _, d := range []string{"home/.bosh", "bin", "tmp", "bootstrap/testdata"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	quickstart := filepath.Join(work, "testdata/quickstart")
	if out, err := exec.Command("cp", "-R", "../testdata/quickstart", quickstart).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if out, err := exec.Command("cp", "-R", "../examples", filepath.Join(work, "examples")).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	err := filepath.WalkDir(work, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".yml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(path, []byte(own(string(data))), 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	// The program's questions need the answer yes, and here nobody answers.
	answer := fmt.Sprintf("#!/bin/sh\ncase $1 in delete) exec %s/bootstrap \"$@\" --yes ;; esac\nexec %[1]s/bootstrap \"$@\"\n", bin)
	if err := os.Symlink(cache, filepath.Join(dir, "home/.bosh/cache")); err != nil {
		t.Fatal(err)
	}
	for path, content := range map[string]string{filepath.Join(dir, "bin/bootstrap"): answer, filepath.Join(work, "bootstrap"): answer} {
		if err := os.WriteFile(path, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return work
}

// scriptOf returns the script that runs the blocks of a page, and the steps after which
// it prints a line with their number and exit code.
func scriptOf(t *testing.T, path string, blocks []pagetest.Block, own func(string) string) (string, []step) {
	t.Helper()
	var b strings.Builder
	var steps []step
	named := regexp.MustCompile(`^# ([\w./-]+\.ya?ml)\n`)
	for _, block := range blocks {
		if block.NotRun != "" {
			continue
		}
		if m := named.FindStringSubmatch(block.Text); block.Lang == "yaml" && m != nil {
			fmt.Fprintf(&b, "mkdir -p \"$(dirname %s)\"; cat >%[1]s <<'END-OF-PAGE'\n%sEND-OF-PAGE\n", m[1], own(block.Text))
		}
		if block.Before != "" {
			fmt.Fprintf(&b, "{ set -e\n%sset +e; } >before.log 2>&1 || { cat before.log; echo '%s:%d: what is before the block fails'; exit 1; }\n", own(block.Before), path, block.Line)
		}
		for _, s := range block.Commands() {
			steps = append(steps, step{block.Line, s, block.Lang == "console"})
			command := own(s.Command)
			if block.Lang != "console" { // every command of a script must succeed
				command = "set -E; trap 'code=$?; case $code.$BASH_COMMAND in 2.*\" plan \"*) ;; *) exit $code ;; esac' ERR\n(\n" + command + ")\ncode=$?; trap - ERR; (exit $code)"
			}
			fmt.Fprintf(&b, "%s\ncode=$?; echo; echo \"@@ %d $code\"\n", strings.TrimRight(command, "\n"), len(steps))
		}
	}
	return b.String(), steps
}
