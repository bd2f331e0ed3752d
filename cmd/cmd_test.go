package cmd

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"gotest.tools/v3/golden"

	"bootstrap/addresses"
	"bootstrap/agent"
	"bootstrap/cmd/about"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/state/file"
)

// run runs one command line with an empty HOME.
func run(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = Main(args, strings.NewReader(""), &out, &errs, []string{"HOME=" + t.TempDir(), "PATH=" + os.Getenv("PATH")})
	return code, out.String(), errs.String()
}

// newConsole returns a console without a tracer.
func newConsole(args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) *cli.Console {
	return cli.New(cli.Process{Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: env})
}

// Help is part of the interface: golden files show each change of it.
func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"root":   {"--help"},
		"deploy": {"deploy", "--help"},
		"delete": {"delete", "--help"},
		"logs":   {"logs", "--help"},
		"render": {"render", "--help"},
		"schema": {"schema", "--help"},
		"ssh":    {"ssh", "--help"},
		"status": {"status", "--help"},
		"doctor": {"doctor", "--help"},
		"init":   {"init", "--help"},
		"plan":   {"plan", "--help"},
		"stop":   {"stop", "--help"},
		"start":  {"start", "--help"},
		"disks":  {"disks", "--help"},

		"fleet":             {"fleet", "--help"},
		"fleet-plan":        {"fleet", "plan", "--help"},
		"fleet-deploy":      {"fleet", "deploy", "--help"},
		"fleet-recreate":    {"fleet", "recreate", "--help"},
		"fleet-status":      {"fleet", "status", "--help"},
		"fleet-abort":       {"fleet", "abort", "--help"},
		"fleet-report":      {"fleet", "report", "--help"},
		"addresses-list":    {"addresses", "list", "--help"},
		"addresses-check":   {"addresses", "check", "--help"},
		"addresses-adopt":   {"addresses", "adopt", "--help"},
		"addresses-release": {"addresses", "release", "--help"},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := run(t, args...)
			if code != 0 || errs != "" {
				t.Fatalf("exit code %d, %s", code, errs)
			}
			golden.Assert(t, out, "help/"+name+".txt")
		})
	}
}

func TestExitCodes(t *testing.T) {
	problems := &document.Problems{{Message: "wrong"}}
	for _, c := range []struct {
		err  error
		want int
	}{
		{nil, exit.Done},
		{errors.New("anything"), exit.Failed},
		{&exit.UsageError{Err: errors.New("unknown flag"), Command: "bootstrap"}, exit.Usage},
		{problems, exit.Manifest},
		{&file.MissingError{Path: "/x"}, exit.NoState},
		{&plan.AgentSilentError{VM: "vm"}, exit.Agent},
		{&agent.UnreachableError{}, exit.Agent},
		{&cpi.Error{Method: "create_vm"}, exit.CPI},
		{&file.LockedError{Path: "/x"}, exit.Locked},
		{&report.InterruptedError{}, exit.Interrupted},
		{&network.Refused{Kind: network.AlreadyInUse}, exit.Failed},
		{&addresses.Error{Kind: addresses.Busy}, exit.Locked},
		{&addresses.Error{Kind: addresses.Unreachable}, exit.Failed},
		{exit.Code(7), 7},
	} {
		for _, err := range []error{c.err, wrap(c.err)} {
			if got, _ := exit.Judge(err); got != c.want {
				t.Errorf("exit.Judge(%T) = %d, want %d", c.err, got, c.want)
			}
		}
	}
	for _, code := range []int{exit.Done, exit.Failed, exit.Usage, exit.Manifest, exit.NoState, exit.Agent, exit.CPI, exit.Locked, exit.Interrupted} {
		if !strings.Contains(about.ExitCodes, fmt.Sprintf("  %-4d ", code)) {
			t.Errorf("the help does not tell exit code %d", code)
		}
	}
}

func wrap(err error) error {
	if err == nil {
		return nil
	}
	return errors.Join(errors.New("beside it"), fmt.Errorf("around it: %w", err))
}

func TestNoHome(t *testing.T) {
	var out, errs bytes.Buffer
	code := Main([]string{"deploy", "x.yml"}, strings.NewReader(""), &out, &errs, nil)
	if code != exit.Failed || !strings.Contains(errs.String(), "HOME is not set") {
		t.Errorf("exit code %d, %s", code, errs.String())
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := run(t, "--version")
	if code != 0 || !strings.HasPrefix(out, "bootstrap ") {
		t.Errorf("exit code %d, %q", code, out)
	}
	code, out, errs := run(t, "version")
	if code != 0 || errs != "" || !strings.HasPrefix(out, "bootstrap ") || !strings.Contains(out, "\nformats   state 1, ") {
		t.Errorf("exit code %d, %q, %s", code, out, errs)
	}
	code, out, _ = run(t, "version", "--json")
	var said about.Program
	line, _, _ := strings.Cut(out, "\n")
	if err := json.Unmarshal([]byte(line), &said); code != 0 || err != nil || said.Text() != about.Read().Text() || said.Formats.Plan != deployer.PlanFormat || said.Go != runtime.Version() {
		t.Errorf("exit code %d, %v, %s", code, err, out)
	}
}
