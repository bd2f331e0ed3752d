package deployer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"bootstrap/agent"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
)

// CompileError says that a package fails to compile on the VM, and whether the service is
// running.
type CompileError struct {
	Package, Release string
	Service          string // the state of the service, and what to do
	Err              *agent.Error
}

func (e *CompileError) Error() string {
	status, output := scriptOutput(e.Err.Message)
	if status == "" {
		return fmt.Sprintf("package %s of release %s fails to compile: %s; %s", e.Package, e.Release, e.Err.Message, e.Service)
	}
	text := fmt.Sprintf("package %s of release %s fails to compile (exit code %s); %s", e.Package, e.Release, status, e.Service)
	for _, o := range output {
		text += "\n" + o
	}
	return text
}

func (e *CompileError) Name() string { return "package-compile" }

func (e *CompileError) Unwrap() error { return e.Err }

// exited matches the agents' message about a failed packaging script.
var exited = regexp.MustCompile(`(?s)Command exited with (-?\d+); (?:Truncated s|S)tdout: (.*), (?:Truncated s|S)tderr:\s*(.*)$`)

// scriptLines is how many lines of each output of a script are shown.
const scriptLines = 15

// scriptOutput returns the exit code of a script from an agent's message, and the last
// lines of its output, standard error first.
func scriptOutput(message string) (status string, output []string) {
	m := exited.FindStringSubmatch(message)
	if m == nil {
		return "", nil
	}
	for _, o := range []struct{ name, text string }{{"standard error", m[3]}, {"standard output", m[2]}} {
		text := strings.TrimSpace(o.text)
		if text == "" {
			continue
		}
		lines := strings.Split(text, "\n")
		title := "Its " + o.name + ":"
		if n := len(lines); n > scriptLines {
			title, lines = "The end of its "+o.name+":", lines[n-scriptLines:]
		}
		output = append(output, title+"\n  "+strings.Join(lines, "\n  "))
	}
	return m[1], output
}

// compileError returns the error for a package that was not delivered. If the agent
// failed to compile it, that is a *CompileError, without the state of the service.
func compileError(ctx context.Context, l instance.Located, err error) error {
	var refused *agent.Error
	if !errors.As(err, &refused) || refused.Method != "compile_package" || ctx.Err() != nil {
		return err
	}
	return &CompileError{Package: l.Package.Name, Release: l.Release, Err: refused}
}

// compile compiles the missing packages; no job may run. If one fails to compile
// on a VM that stays, compile puts the previous jobs back.
func (j *jobs) compile(ctx context.Context, s plan.Step) error {
	err := j.packages.compile(ctx, s)
	if failed, ok := errors.AsType[*CompileError](err); ok {
		failed.Service = j.serviceAfter(ctx, s.With, failed.Release)
	}
	return err
}

// serviceAfter puts the previous jobs back if that is possible, and returns the
// state of the service and what to do.
func (j *jobs) serviceAfter(ctx context.Context, with plan.With, release string) string {
	again := fmt.Sprintf("correct release %s and run `bootstrap deploy MANIFEST` again", release)
	switch {
	case with.OldServes:
		return fmt.Sprintf("VM %s still serves as before; %s", with.Old, again)
	case with.Gone:
		return "the service is down, and the VM that ran it was deleted; " + again
	case with.New:
		return "the new VM has no jobs yet; " + again
	}
	why, err := j.putBack(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("the service is down: the previous jobs could not be put back (%v); `bootstrap deploy MANIFEST --previous` tries again; or %s", err, again)
	case why != "":
		return fmt.Sprintf("the service is down: %s, so the previous jobs could not be put back; %s", why, again)
	case j.rec.State.Get().Own.Stopped:
		return "the previous jobs were put back and stay stopped; " + again
	}
	return "the previous jobs were put back and run again; " + again
}
