package cmd

import (
	"bytes"
	"encoding/json"
	"io"
	"log"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/spf13/cobra"

	"bootstrap/cmd/exit"
)

// commands lists the words of all commands of the program.
func commands() [][]string {
	var list [][]string
	var walk func(cmd *cobra.Command, words []string)
	walk = func(cmd *cobra.Command, words []string) {
		for _, sub := range cmd.Commands() {
			if sub.Name() == "plugin" {
				continue // it has its own protocols
			}
			path := append(slices.Clone(words), sub.Name())
			list = append(list, path)
			walk(sub, path)
		}
	}
	root := newRoot(newConsole(nil, nil, nil, nil, nil))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd("x")
	walk(root, nil)
	return list
}

// checkJSON checks that the output is objects with a kind, one per line, and
// that the last one is the result.
func checkJSON(t *testing.T, args []string, code int, out, errs string) {
	t.Helper()
	if errs != "" {
		t.Errorf("%q: on the standard error: %s", args, errs)
	}
	var kinds []string
	for line := range strings.Lines(out) {
		var object map[string]any
		if err := json.Unmarshal([]byte(line), &object); err != nil {
			t.Errorf("%q: %v: %s", args, err, line)
			return
		}
		kind, _ := object["kind"].(string)
		if kind == "" {
			t.Errorf("%q: without a kind: %s", args, line)
		}
		kinds = append(kinds, kind)
		if kind == "result" && (object["exit_code"] != float64(code) || object["status"] == "failed" && object["error"] == nil) {
			t.Errorf("%q: exit code %d and result %s", args, code, line)
		}
	}
	if n := len(kinds); n == 0 || kinds[n-1] != "result" || slices.Contains(kinds[:n-1], "result") {
		t.Errorf("%q: kinds %q", args, kinds)
	}
}

// With --json, the output contains nothing but JSON objects.
// Without a terminal, output has colours only on request, and never if somebody
// asks for none.
func TestColours(t *testing.T) {
	for _, c := range []struct {
		env     []string
		args    []string
		colours bool
	}{
		{nil, nil, false},
		{nil, []string{"--color=auto"}, false},
		{nil, []string{"--color", "always"}, true},
		{[]string{"NO_COLOR=1"}, []string{"--color=always"}, true}, // a flag overrides a variable
		{[]string{"CLICOLOR_FORCE=1"}, nil, true},
		{[]string{"CLICOLOR_FORCE=0"}, nil, false},
		{[]string{"CLICOLOR_FORCE=1"}, []string{"--color=never"}, false},
		{[]string{"CLICOLOR_FORCE=1"}, []string{"--no-color"}, false},
		{[]string{"CLICOLOR_FORCE=1", "NO_COLOR=1"}, nil, false},
		{[]string{"CLICOLOR_FORCE=1", "NO_COLOR="}, nil, true},
	} {
		var out, errs bytes.Buffer
		Main(append([]string{"validate", "missing.yml"}, c.args...), strings.NewReader(""), &out, &errs, append(c.env, "HOME="+t.TempDir()))
		if got := strings.Contains(errs.String(), "\x1b[1;31mError:\x1b[0m "); got != c.colours || !strings.Contains(errs.String(), "missing.yml") {
			t.Errorf("%q %q: %q", c.env, c.args, errs.String())
		}
	}
	if code, _, errs := run(t, "validate", "missing.yml", "--color", "blue"); code != exit.Usage || !strings.Contains(errs, "expected auto, always or never") {
		t.Errorf("%d %q", code, errs)
	}
}

func TestEveryCommandSpeaksJSON(t *testing.T) {
	for _, words := range commands() {
		for _, more := range [][]string{
			{"--json", "--no-such-flag"},
			{"--no-such-flag", "--json"},
			{"--json", "nowhere.yml"},
			{"--json", "nowhere.yml", "7"},
			{"--json", "--state", "nowhere.json"},
			{"--json", "a", "b", "c", "d"},
			{"--json"},
			{"--json", "--help"},
		} {
			args := append(slices.Clone(words), more...)
			if slices.Equal(args, []string{"doctor", "--json"}) {
				continue // starts the embedded Ruby; a script runs it
			}
			t.Run(strings.Join(args, " "), func(t *testing.T) {
				t.Chdir(t.TempDir())
				code, out, errs := run(t, args...)
				if words[0] == "completion" || words[0] == "help" {
					code = min(code, exit.Usage) // commands of the library cobra
				}
				checkJSON(t, args, code, out, errs)
			})
		}
	}
	for _, args := range [][]string{{"deply", "--json"}, {"--json", "--version"}, {"--json"}, {"--json=true", "-x"}} {
		code, out, errs := run(t, args...)
		checkJSON(t, args, code, out, errs)
	}
}

// A command whose output is lost does not end with exit code 0.
func TestOutputIsLost(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "m.yml")
	if err := os.WriteFile(file, []byte("a: 1\nvariables: []\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"--help"}, {"--version"}, {"schema"}, {"notice"}, {"interpolate", file}, {"variables", "list", file},
		{"cache", "list"}, {"cache", "prune", "--all", "--dry-run"}, {"state", "--help"}, {"schema", "--json"}, {"completion", "bash"},
	} {
		full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		code := Main(args, strings.NewReader(""), full, &errs, []string{"HOME=" + dir})
		full.Close()
		if code != exit.Failed || !strings.Contains(errs.String(), "cannot write to the standard output: write /dev/full: no space left on device") {
			t.Errorf("%q: exit code %d, %s", args, code, &errs)
		}
	}
}

// Events that cannot be written to the file of --events are reported.
func TestEventsAreLost(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	var errs bytes.Buffer
	code := Main([]string{"cache", "list", "--events=/dev/full"}, strings.NewReader(""), io.Discard, &errs, []string{"HOME=" + t.TempDir()})
	if code != exit.Done || errs.String() != "Warning: --events: cannot write all events to /dev/full: no space left on device\n" {
		t.Errorf("exit code %d, %q", code, &errs)
	}
}

// brokenPipe is a writer whose reader has closed the pipe.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) {
	return 0, &os.PathError{Op: "write", Err: syscall.EPIPE}
}

// If a reader closes the pipe early, as head does, the run succeeds.
func TestReaderIsGone(t *testing.T) {
	var errs bytes.Buffer
	if code := Main([]string{"schema"}, nil, brokenPipe{}, &errs, nil); code != exit.Done || errs.Len() > 0 {
		t.Errorf("exit code %d, %s", code, &errs)
	}
}

// An error about the command line does not repeat values of variables.
func TestUsageErrorsKeepSecrets(t *testing.T) {
	for _, args := range [][]string{
		{"deploy", "-Qvpw=s3cret-pass", "m.yml"},
		{"deploy", "-v", "pw=s3cret-pass", "s3cret-pass", "m.yml"},
		{"deploy", "--var=pw=s3cret-pass", "s3cret-pass", "m.yml"},
		{"deploy", "--var", "pw=s3cret-pass", "s3cret-pass", "m.yml"},
		{"deploy", "-yv", "pw=s3cret-pass", "s3cret-pass", "m.yml"},
		{"disks", "-s3cret-pass", "-v", "pw=s3cret-pass"},
		{"deploy", "--json", "-Qvpw=s3cret-pass", "m.yml"},
	} {
		code, out, errs := run(t, args...)
		if code != exit.Usage || strings.Contains(out+errs, "s3cret-pass") {
			t.Errorf("%q: exit code %d\n%s%s", args, code, out, errs)
		}
	}
}

// Lines that net/http logs, for example about an unsolicited response, do not get between
// lines of JSON, and are redacted.
func TestStandardLogger(t *testing.T) {
	before := log.Writer()
	defer log.SetOutput(before)
	var past bytes.Buffer
	log.SetOutput(&past)
	var out, errs bytes.Buffer
	c := newConsole([]string{"--json", "chat"}, strings.NewReader(""), &out, &errs, []string{"HOME=" + t.TempDir()})
	root := newRoot(c)
	root.AddCommand(&cobra.Command{Use: "chat", RunE: func(*cobra.Command, []string) error {
		c.Start()
		log.Print("Unsolicited response: s3cret-pass")
		return nil
	}})
	code := c.Execute(root)
	if past.Len() > 0 {
		t.Errorf("on the standard logger: %s", &past)
	}
	checkJSON(t, []string{"chat"}, code, out.String(), errs.String())
}
