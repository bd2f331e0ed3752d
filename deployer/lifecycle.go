package deployer

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state"
)

// NoVMError says that there is no VM.
type NoVMError struct{}

func (e *NoVMError) Error() string {
	return "there is no VM: `bootstrap deploy MANIFEST` creates one"
}

// expectVM fails without a VM whose agent answers.
func (r *run) expectVM(context.Context) error {
	cid := r.state.Get().CurrentVMCID
	switch {
	case cid == "":
		return &NoVMError{}
	case r.facts.Answers:
		r.agent = r.running
		return nil
	case r.cpiClient != nil && !r.facts.HasVM:
		return fmt.Errorf("VM %s is gone: `bootstrap deploy MANIFEST` creates a new one", cid)
	}
	return r.silent(cid)
}

// expectDisk refuses to start jobs without their data.
func (r *run) expectDisk(context.Context) error {
	st := r.state.Get()
	d := st.Disk()
	if d == nil || slices.Contains(r.facts.Mounted, d.CID) {
		return nil
	}
	return fmt.Errorf("disk %s is not mounted on VM %s: the jobs would start without their data; `bootstrap deploy MANIFEST` attaches it", d.CID, st.CurrentVMCID)
}

func (r *run) recordStopped(context.Context) error {
	return r.state.Update(func(st *state.State) error {
		st.Own.Stopped = true
		return nil
	})
}

func (r *run) recordStarted(context.Context) error {
	return r.state.Update(func(st *state.State) error {
		st.Own.Stopped = false
		return nil
	})
}

// ProtectedError says that the manifest forbids deleting the deployment.
type ProtectedError struct {
	Name string
}

func (e *ProtectedError) Error() string {
	return fmt.Sprintf("deployment %s is protected: its manifest says protect: true; remove that line, deploy, then delete", e.Name)
}

// refuseProtected refuses to delete a protected deployment.
func (r *run) refuseProtected(context.Context) error {
	if r.about.Protect || r.known.Protect || r.saysProtect() {
		return &ProtectedError{Name: r.about.Name}
	}
	return nil
}

// saysProtect reports whether the manifest file says protect: true, which may
// be newer than the last deploy. A manifest that cannot be read does not.
func (r *run) saysProtect() bool {
	in := r.opts.Inputs
	in.Generate, in.Lenient = document.Plan, true
	m, err := manifest.Load(r.opts.Manifest, in)
	return err == nil && m.Protect
}

// confirmDelete asks before a disk is deleted.
func (r *run) confirmDelete(ctx context.Context) error {
	st := r.state.Get()
	d := st.Disk()
	if d == nil || r.opts.KeepDisk {
		return nil
	}
	return r.question(ctx, Question{What: []string{fmt.Sprintf("disk %s (%d MiB) is deleted with its data", d.CID, d.Size)}, Data: true})
}

// peek reads the state without locking it, for a run that changes nothing.
func (r *run) peek(context.Context) error {
	var err error
	if r.state, err = r.peekState(); err != nil {
		return err
	}
	r.findFolders()
	if r.scratch, err = os.MkdirTemp("", "bootstrap-plan-"); err != nil {
		return fmt.Errorf("cannot make a folder for the CPI of the plan: %w", err)
	}
	r.atEnd(r.removeScratch)
	return nil
}

// removeScratch removes the CPI that a plan has installed, because it contains
// secrets.
func (r *run) removeScratch() {
	if err := os.RemoveAll(r.scratch); err != nil {
		r.root.Warning(fmt.Sprintf("cannot remove the folder %s of this plan, which may contain secrets: %v", r.scratch, err))
	}
}

// showPlan makes the plan and reports it.
func (r *run) showPlan(ctx context.Context) error {
	if err := r.makePlan(ctx); err != nil {
		return err
	}
	for _, err := range r.machineProblems(ctx) {
		text := strings.TrimSuffix(err.Error(), "; nothing was changed")
		r.plan.Warnings = append(r.plan.Warnings, plan.Reason{Cause: plan.StopsEarly, To: text})
	}
	if n := len(r.state.Get().Own.Intents); n > 0 {
		r.plan.Warnings = append(r.plan.Warnings, plan.Reason{Cause: plan.Undetermined, Count: n})
	}
	r.emitPlan()
	return nil
}
