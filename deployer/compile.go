package deployer

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// CompileError says that a package does not compile on the VM, and how the
// service is now.
type CompileError struct {
	Package, Release string
	Service          string // the state of the service, and what to do
	Err              *agent.Error
}

func (e *CompileError) Error() string {
	status, output := scriptOutput(e.Err.Message)
	if status == "" {
		return fmt.Sprintf("package %s of release %s does not compile: %s; %s", e.Package, e.Release, e.Err.Message, e.Service)
	}
	text := fmt.Sprintf("package %s of release %s does not compile (exit code %s); %s", e.Package, e.Release, status, e.Service)
	for _, o := range output {
		text += "\n" + o
	}
	return text
}

func (e *CompileError) Unwrap() error { return e.Err }

// exited is how agents tell of a packaging script that failed.
var exited = regexp.MustCompile(`(?s)Command exited with (-?\d+); (?:Truncated s|S)tdout: (.*), (?:Truncated s|S)tderr:\s*(.*)$`)

// scriptLines is how many lines of each of a script's outputs are shown.
const scriptLines = 15

// scriptOutput finds in an agent's words how a script ended, and the last lines
// of what it printed, standard error first.
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

// compileFailed ends a failed compile of a package well: on a VM that stays,
// what ran before is put back.
func (r *run) compileFailed(ctx context.Context, l located, err error) error {
	var refused *agent.Error
	if !errors.As(err, &refused) || refused.Method != "compile_package" || ctx.Err() != nil {
		return err
	}
	return &CompileError{Package: l.pkg.Name, Release: l.release, Service: r.serviceAfter(ctx, l.release), Err: refused}
}

// serviceAfter puts back what ran before, where it can be, and tells how the
// service is.
func (r *run) serviceAfter(ctx context.Context, release string) string {
	again := fmt.Sprintf("correct release %s and run `bootstrap deploy MANIFEST` again", release)
	st := r.state.Get()
	switch {
	case st.Own.Swap != nil && (r.plan.Swap || r.plan.Beside):
		return fmt.Sprintf("VM %s still serves as before; %s", st.Own.Swap.CID, again)
	case r.plan.On(plan.VM) == plan.Replace:
		return "the service is down, and the VM that ran it was deleted; " + again
	case r.plan.NewVM():
		return "the new VM runs no jobs yet; " + again
	}
	why, err := r.putBack(ctx)
	switch {
	case err != nil:
		return fmt.Sprintf("the service is down: what ran before could not be put back (%v); `bootstrap deploy MANIFEST --previous` tries once more; or %s", err, again)
	case why != "":
		return fmt.Sprintf("the service is down: %s, so that what ran before could not be put back; %s", why, again)
	case st.Own.Stopped:
		return "what was there before was put back, and the jobs stay stopped; " + again
	}
	return "what ran before was put back and runs again; " + again
}

// putBack applies again what the last deploy that worked had applied to the VM,
// and starts the jobs. why says why it cannot; err, that it failed.
func (r *run) putBack(ctx context.Context) (why string, err error) {
	a, ok := r.folder().Applied(kept.Current)
	st := r.state.Get()
	switch {
	case !ok:
		return "this machine has kept nothing of an earlier deploy that worked", nil
	case a.VM != st.CurrentVMCID:
		return "no deploy to this VM has worked so far", nil
	}
	for name, p := range a.Spec.Packages {
		has, err := r.agent.HasBlob(ctx, p.BlobstoreID)
		if err != nil {
			return "", err
		}
		if !has {
			return fmt.Sprintf("package %s of before is no longer on the VM", name), nil
		}
	}
	err = r.do("Putting back what ran before", func(s *report.Stage) error {
		spec := a.Spec
		spec.RenderedTemplates.BlobstoreID = uuid.NewString()
		if err := r.agent.PutBlob(ctx, spec.RenderedTemplates.BlobstoreID, r.folder().Rendered(kept.Current), s.Progress); err != nil {
			return err
		}
		return r.agent.Apply(ctx, spec)
	})
	if err == nil && !st.Own.Stopped {
		err = r.startJobs(ctx)
	}
	if err != nil {
		return "", err
	}
	if !a.SameDisk(st.Disk()) {
		return "", nil // the disk is that of the new manifest: neither is deployed as a whole
	}
	return "", r.state.Update(func(st *state.State) error {
		a.Record(st)
		return nil
	})
}
