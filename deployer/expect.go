package deployer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/internal/failure"
)

// NoVMError says that there is no VM.
type NoVMError struct {
	Detached bool // bootstrap stop --hard has deleted it, and deploys create none
}

func (e *NoVMError) Error() string {
	if e.Detached {
		return "there is no VM: `bootstrap stop --hard` has deleted it; `bootstrap start MANIFEST` creates one"
	}
	return "there is no VM: `bootstrap deploy MANIFEST` creates one"
}

func (e *NoVMError) Name() string { return "vm-none" }

// expectVM returns an error if there is no VM whose agent answers.
func (r *run) expectVM(context.Context) error {
	st := r.t.State.Get()
	cid := st.CurrentVMCID
	switch {
	case cid == "":
		return &NoVMError{Detached: st.Detached()}
	case r.look.Facts.Answers:
		r.agent = r.look.Running
		return nil
	case r.t.CPI.Connected() && !r.look.Facts.HasVM:
		return failure.Named("vm-gone", fmt.Errorf("VM %s does not exist any more: `bootstrap deploy MANIFEST` creates a new one", cid))
	}
	return r.silent(cid)
}

// expectDisk refuses to start jobs while their persistent disk is not mounted.
func (r *run) expectDisk(context.Context) error {
	st := r.t.State.Get()
	for _, n := range st.Own.NamedDisks {
		if !st.Attached(n.Name) {
			return failure.Named("disk-not-mounted", fmt.Errorf("disk %s is not attached to VM %s: the jobs would start without its data; `bootstrap deploy MANIFEST` attaches it", n.Name, st.CurrentVMCID))
		}
	}
	d := st.Disk()
	if d == nil || slices.Contains(r.look.Facts.Mounted, d.CID) {
		return nil
	}
	return failure.Named("disk-not-mounted", fmt.Errorf("disk %s is not mounted on VM %s: the jobs would start without their data; `bootstrap deploy MANIFEST` attaches it", d.CID, st.CurrentVMCID))
}

// expectJobs refuses to start a VM that has lost its jobs.
func (r *run) expectJobs(context.Context) error {
	st := r.t.State.Get()
	if _, bare := plan.Lost(st, r.look.Facts.Now); bare {
		return &LostError{VM: st.CurrentVMCID, Bare: true, Instance: r.t.About.Instance()}
	}
	return nil
}

// ProtectedError says that the manifest forbids deleting the deployment.
type ProtectedError struct {
	Deployment string
}

func (e *ProtectedError) Error() string {
	return fmt.Sprintf("deployment %s is protected: its manifest says protect: true; remove that line, deploy, then delete", e.Deployment)
}

func (e *ProtectedError) Name() string { return "protected" }

// refuseProtected refuses to delete a protected deployment, or one of its instances. An
// instance that a deploy deletes is one that the manifest does not ask for.
func (r *run) refuseProtected(ctx context.Context) error {
	if of := r.t.From.Of; of != nil && of.Instance.Unwanted() {
		return nil
	}
	if r.t.About.Protect || r.t.Known.Protect || r.t.SaysProtect(ctx) {
		return &ProtectedError{Deployment: r.t.About.Name}
	}
	return nil
}

// refuseIgnored refuses to change an instance that bootstrap ignore excludes.
func (r *run) refuseIgnored(context.Context) error { return r.t.From.RefuseIgnored() }

// confirmDelete asks before the VM and its disk are deleted.
func (r *run) confirmDelete(ctx context.Context) error {
	var q Question
	st := r.t.State.Get()
	if st.CurrentVMCID != "" {
		q.What = append(q.What, fmt.Sprintf("VM %s is deleted", st.CurrentVMCID))
	}
	for _, d := range st.UsedDisks() {
		if r.asked.KeepDisk {
			q.What = append(q.What, fmt.Sprintf("disk %s (%d MiB) is kept", d.CID, d.Size))
			continue
		}
		q.What = append(q.What, fmt.Sprintf("disk %s (%d MiB) is deleted with its data", d.CID, d.Size))
		q.Data = true
	}
	for _, o := range st.Own.Orphans {
		if r.asked.OrphanedDisks {
			q.What, q.Data = append(q.What, deletesOrphan(o)), true
		}
	}
	if st.CurrentVMCID == "" && !q.Data {
		return nil
	}
	return r.question(ctx, q)
}

// refuseSilent stops a delete if the agent does not answer.
func (r *run) refuseSilent(context.Context) error {
	st := r.t.State.Get()
	cid := st.CurrentVMCID
	if cid == "" || r.look.Facts.Answers || !r.look.Facts.HasVM || r.look.Fix {
		return nil
	}
	if st.Own.AgentID != "" && !st.Own.Reached {
		return nil // The VM has no jobs to stop.
	}
	return &plan.AgentSilentError{VM: cid, Err: r.look.Facts.AgentErr, Next: nextDelete}
}

// expectSilent ends the run if the VM can be deleted in order.
func (r *run) expectSilent(context.Context) error {
	if r.look.Facts.Answers || r.t.State.Get().CurrentVMCID == "" || r.look.Fix {
		return errDone
	}
	return nil
}

// confirmDetach asks before the VM is deleted. It ends the run if that is done already.
func (r *run) confirmDetach(ctx context.Context) error {
	st := r.t.State.Get()
	if st.Detached() && len(st.Own.Intents) == 0 {
		r.t.Out.Info("`bootstrap stop --hard` has deleted the VM already: nothing to do")
		return errDone
	}
	if st.CurrentVMCID == "" {
		return nil
	}
	kept := "its addresses are kept"
	var disks []string
	for _, d := range st.UsedDisks() {
		disks = append(disks, fmt.Sprintf("disk %s (%d MiB)", d.CID, d.Size))
	}
	if len(disks) > 0 {
		kept = fmt.Sprintf("its addresses and %s are kept", strings.Join(disks, ", "))
	}
	return r.question(ctx, Question{What: []string{fmt.Sprintf("VM %s is deleted; %s", st.CurrentVMCID, kept)}})
}

// refuseSilentStop refuses to delete a VM whose jobs cannot be stopped.
func (r *run) refuseSilentStop(context.Context) error {
	cid := r.t.State.Get().CurrentVMCID
	if cid == "" || r.look.Facts.Answers || !r.look.Facts.HasVM {
		return nil
	}
	return r.silent(cid)
}

// silent returns the error for a VM with a silent agent.
func (r *run) silent(vm string) error {
	err := &plan.AgentSilentError{VM: vm, Err: r.look.Facts.AgentErr, Next: nextFix}
	switch {
	case r.look.Facts.Busy():
		err.Next = nextBusy
	case r.look.Rebooted != "":
		err.Next = nextReplace
	}
	return err
}

// question asks the person, if a confirmation is needed. Without a yes, the error is a
// *NotConfirmedError.
func (r *run) question(ctx context.Context, q Question) error {
	if r.asked.Confirm == nil {
		return nil
	}
	yes, err := r.asked.Confirm(ctx, q)
	if err == nil && !yes {
		err = &NotConfirmedError{}
	}
	return err
}

// sayStopped says that there are no jobs to stop.
func (r *run) sayStopped(context.Context) error {
	if r.seen().Rests {
		r.t.Out.Info(fmt.Sprintf("The jobs of '%s' are stopped already", r.t.About.Instance()))
	}
	return nil
}
