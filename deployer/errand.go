package deployer

import (
	"context"
	"fmt"

	"bootstrap/deployer/access"
	"bootstrap/manifest/document"
)

// ErrandRun says how an errand runs.
type ErrandRun struct {
	access.ErrandOptions
	WhenChanged bool   // skip it if nothing has changed since it succeeded
	Logs        string // folder for an archive of the logs after it; empty: none
}

// RunErrand runs an errand on the VM, whose state is locked as long; see
// access.VM.RunErrand.
func RunErrand(ctx context.Context, opts Options, what ErrandRun) (out access.ErrandOutcome, err error) {
	opts.Inputs.Generate = document.Refuse
	opts.Inputs.Lenient = true
	r := newRun(opts)
	err = r.execute(ctx, r.errandPhases(func(ctx context.Context) error {
		out, err = r.runErrand(ctx, what)
		return err
	}))
	return out, err
}

func (r *run) runErrand(ctx context.Context, what ErrandRun) (access.ErrandOutcome, error) {
	vm, kept := r.reached(), r.t.Folder()
	vm.EndLogins(ctx)
	if what.WhenChanged {
		what.Unchanged = func(fingerprint string) bool { return kept.Errand(what.Name) == fingerprint }
	}
	out, err := vm.RunErrand(ctx, what.ErrandOptions)
	if out.Fingerprint != "" && !out.Skipped {
		success := succeeded(out, err)
		if lost := r.t.State.Lost(ctx); lost != nil {
			r.t.Out.Warning(fmt.Sprintf("%v; another run may have stopped or changed the jobs while the errand %s ran", lost, what.Name))
			success = ""
		}
		kerr := kept.SetErrand(what.Name, success)
		if err == nil {
			err = kerr
		}
	}
	if err == nil && what.Logs != "" && !out.Skipped {
		err = vm.Logs(ctx, access.LogsOptions{Out: what.Logs})
	}
	return out, err
}

// succeeded returns the fingerprint of the jobs with which an errand has succeeded; empty: it
// has not, or that is unknown.
func succeeded(out access.ErrandOutcome, err error) string {
	if err != nil || out.ExitCode != 0 {
		return ""
	}
	return out.Fingerprint
}
