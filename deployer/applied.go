package deployer

import (
	"context"
	"fmt"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// keepApplied records the jobs and packages that this deploy has applied, for the diff of
// the next plan and for deploy --previous. before is the state before this deploy.
// applies is true if jobs were applied.
func (j *jobs) keepApplied(before state.State, applies bool) error {
	st := j.rec.State.Get()
	a := kept.Applied{
		VM: st.CurrentVMCID, Disk: st.Disk(), Named: kept.NamedIn(st), Digest: st.CurrentManifestSHA,
		Releases: st.Releases, Applied: st.Own.Applied, Health: j.rec.About.Health, Processes: st.Own.Processes,
	}
	old, hadOld := j.rec.Folder().Applied(kept.Current)
	if hadOld && old.VM == a.VM && !old.IsLast(before) { // the deploy before it cannot be put back either
		if err := j.rec.Folder().ForgetApplied(); err != nil {
			return fmt.Errorf("cannot remove the record of an earlier deploy, after which another machine deployed: %w", err)
		}
		hadOld = false
	}
	sketch, err := j.in.Manifest.Sketch()
	if err != nil {
		return err
	}
	switch {
	case applies || j.again:
		a.Spec = j.spec(false, "")
	case hadOld && old.VM == a.VM:
		a.Spec = old.Spec
	default:
		return j.rec.Folder().SetSketch(sketch) // an adopted VM has no earlier deploy to put back
	}
	return j.rec.Folder().SetApplied(a, sketch, j.rendered.archive, applies && hadOld)
}

// NoWayBackError says why deploy --previous cannot put back an earlier deploy.
type NoWayBackError struct {
	Why string
}

func (e *NoWayBackError) Error() string {
	return "cannot put back an earlier deploy: " + e.Why + "; nothing was changed"
}

func (e *NoWayBackError) Name() string { return "no-way-back" }

func (e *NoWayBackError) Hint() string {
	return "`bootstrap deploy MANIFEST --version N` deploys a version again that `bootstrap state backups MANIFEST` lists"
}

// hasPrevious reports whether deploy --previous can put back an earlier deploy
// to this VM.
func (j *jobs) hasPrevious() bool {
	st := j.rec.State.Get()
	which := kept.Current
	if st.CurrentManifestSHA != "" {
		which = kept.Previous
	}
	a, ok := j.rec.Folder().Applied(which)
	last, _ := j.rec.Folder().Applied(kept.Current)
	return ok && a.VM == st.CurrentVMCID && last.IsLast(st)
}

// findPrevious finds the last successful deploy. If it is the present one, it finds the
// successful deploy before it.
func (r *run) findPrevious(ctx context.Context) error {
	st := r.t.State.Get()
	which := kept.Current
	if st.CurrentManifestSHA != "" {
		which = kept.Previous
	}
	a, ok := r.t.Folder().Applied(which)
	if !ok {
		return &NoWayBackError{Why: "this machine has no record of an earlier deploy that succeeded"}
	}
	switch {
	case a.VM != st.CurrentVMCID:
		return &NoWayBackError{Why: fmt.Sprintf("it was applied to VM %s, and the VM is now %s", a.VM, st.CurrentVMCID)}
	case !r.jobs.hasPrevious():
		return &NoWayBackError{Why: "another machine made the last deploy, so this one has no record of it; run the command on that machine"}
	case !a.SameDisks(st):
		return &NoWayBackError{Why: "a persistent disk was replaced or resized since then"}
	}
	for name, p := range a.Spec.Packages {
		has, err := r.agent.HasBlob(ctx, p.BlobstoreID)
		if err != nil {
			return err
		}
		if !has {
			return &NoWayBackError{Why: fmt.Sprintf("package %s is no longer on the VM", name)}
		}
	}
	r.jobs.previous, r.address = a, st.Own.Address
	r.t.About.Health = a.Health
	r.jobs.rendered.archive = r.t.Folder().Rendered(which)
	r.jobs.rendered.dir = "" // removeRendered must not remove this folder.
	r.vm = a.VM
	r.plan = plan.Previous(r.seen(), r.t.About.Group, st.Own.Stopped)
	return r.emitPlan(ctx)
}

// applyPrevious applies the previous jobs and packages.
func (j *jobs) applyPrevious(ctx context.Context) error {
	if err := j.upload(ctx); err != nil {
		return err
	}
	spec := j.previous.Spec
	spec.RenderedTemplates.BlobstoreID = j.rendered.blob
	return j.rec.Out.Do(fmt.Sprintf("Updating instance '%s'", j.rec.About.Instance()), func(*report.Stage) error {
		return j.agent.Apply(ctx, spec)
	})
}
