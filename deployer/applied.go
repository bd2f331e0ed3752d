package deployer

import (
	"context"
	"fmt"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// keepApplied saves what this deploy has applied, for the diff of the next plan
// and for deploy --previous.
func (r *run) keepApplied() error {
	st := r.state.Get()
	a := kept.Applied{
		VM: st.CurrentVMCID, Disk: st.Disk(), Digest: st.CurrentManifestSHA,
		Releases: st.Releases, Applied: st.Own.Applied,
	}
	old, hadOld := r.folder().Applied(kept.Current)
	switch {
	case r.plan.Applies():
		a.Spec = r.spec(false, "")
	case hadOld && old.VM == a.VM:
		a.Spec = old.Spec
	default:
		return r.folder().SetSketch(r.manifest.Sketch) // a VM that was taken over as it is has nothing to go back to
	}
	return r.folder().SetApplied(a, r.manifest.Sketch, r.rendered.archive, r.plan.Applies() && hadOld)
}

// NoWayBackError says why a deploy cannot put back what was applied before.
type NoWayBackError struct {
	Why string
}

func (e *NoWayBackError) Error() string {
	return "cannot go back to what was applied before: " + e.Why + "; nothing was changed"
}

// hasPrevious reports whether deploy --previous can put back an earlier deploy
// to this VM.
func (r *run) hasPrevious() bool {
	st := r.state.Get()
	which := kept.Current
	if st.CurrentManifestSHA != "" {
		which = kept.Previous
	}
	a, ok := r.folder().Applied(which)
	return ok && a.VM == st.CurrentVMCID
}

// findPrevious finds what the last successful deploy applied; if no later
// deploy failed, what the one before it applied.
func (r *run) findPrevious(ctx context.Context) error {
	st := r.state.Get()
	which := kept.Current
	if st.CurrentManifestSHA != "" {
		which = kept.Previous
	}
	a, ok := r.folder().Applied(which)
	if !ok {
		return &NoWayBackError{Why: "this machine has kept nothing from an earlier deploy that succeeded"}
	}
	d := st.Disk()
	switch {
	case a.VM != st.CurrentVMCID:
		return &NoWayBackError{Why: fmt.Sprintf("it was applied to VM %s, and the VM is now %s", a.VM, st.CurrentVMCID)}
	case !a.SameDisk(d):
		return &NoWayBackError{Why: "the persistent disk was replaced or resized since then"}
	}
	for name, p := range a.Spec.Packages {
		has, err := r.agent.HasBlob(ctx, p.BlobstoreID)
		if err != nil {
			return err
		}
		if !has {
			return &NoWayBackError{Why: fmt.Sprintf("package %s is not on the VM any more", name)}
		}
	}
	r.previous, r.address = a, st.Own.Address
	r.rendered.archive = r.folder().Rendered(which)
	r.rendered.dir = "" // removeRendered must not remove it
	r.plan = plan.Previous(a.VM, r.about.Group, st.Own.Stopped)
	r.emitPlan()
	return nil
}

// applyPrevious puts jobs and packages back.
func (r *run) applyPrevious(ctx context.Context) error {
	if err := r.uploadJobs(ctx); err != nil {
		return err
	}
	spec := r.previous.Spec
	spec.RenderedTemplates.BlobstoreID = r.rendered.blob
	return r.do(fmt.Sprintf("Updating instance '%s/0'", r.about.Group), func(*report.Stage) error {
		return r.agent.Apply(ctx, spec)
	})
}

// recordPrevious records the deploy that was put back as the current one.
func (r *run) recordPrevious(context.Context) error {
	a, now := r.previous, time.Now().UTC().Truncate(time.Second)
	if err := r.state.Update(func(st *state.State) error {
		a.Record(st)
		st.Own.Deployed = &now
		return nil
	}); err != nil {
		return err
	}
	if r.rendered.archive == r.folder().Rendered(kept.Current) {
		return nil
	}
	return r.folder().SwapApplied()
}
