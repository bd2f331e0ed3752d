package deployer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/deployer/health"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/failure"
	"bootstrap/state"
)

// OnFailure is what a deploy does if the new jobs do not run.
type OnFailure string

// What a deploy does if the new jobs do not run.
const (
	KeepFailed OnFailure = "keep" // leaves them running, for inspection
	PutBack    OnFailure = "previous"
)

// PutBackError says that the new jobs do not run and that those of the last
// successful deploy were put back and run.
type PutBackError struct{ Err error }

func (e *PutBackError) Error() string {
	return "the previous version was put back and runs, because the new one does not work: " + e.Err.Error()
}

func (e *PutBackError) Name() string { return "previous-put-back" }

func (e *PutBackError) ExitCode() failure.Code { return failure.PutBack }

func (e *PutBackError) Hint() string {
	return "correct the cause and deploy again"
}

// Unwrap returns the error of the new jobs.
func (e *PutBackError) Unwrap() error { return e.Err }

// goBack applies the jobs of an earlier deploy.
func (r *run) goBack(ctx context.Context) error {
	return r.execute(ctx, r.previousPhases())
}

// jobsFail reports whether the run has failed because the new jobs cannot be applied or
// do not run, on a VM whose agent answers.
func (r *run) jobsFail(err error) bool {
	if r.at != verifying && plan.Kind(r.at) != plan.Apply && !plan.Kind(r.at).Starts() {
		return false
	}
	_, failing := errors.AsType[*NotRunningError](err)
	_, unhealthy := errors.AsType[*health.UnhealthyError](err)
	_, refused := errors.AsType[*agent.Error](err)
	return failing || unhealthy || refused
}

// putBack applies the jobs of the last successful deploy, after this one has failed with
// err.
func (r *run) putBack(ctx context.Context, err error) error {
	if !r.jobs.hasPrevious() {
		return fmt.Errorf("%w; no previous version was put back: this machine has recorded none for this VM", err)
	}
	r.asked.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: "the new version does not work; putting back the previous one"})
	r.asked.Continued = r.t.Env.Root // The numbers of stages in the output continue.
	if failed := newRun(r.asked.toGoBack()).goBack(ctx); failed != nil {
		withoutPrevious(err)
		withoutPrevious(failed)
		return fmt.Errorf("%w; the previous version could not be put back: %w", err, failed)
	}
	return &PutBackError{Err: err}
}

// withoutPrevious removes the hint to deploy --previous from the error, because that has
// just failed.
func withoutPrevious(err error) {
	if failing, ok := errors.AsType[*NotRunningError](err); ok {
		failing.Previous = false
	}
	if unhealthy, ok := errors.AsType[*health.UnhealthyError](err); ok {
		unhealthy.Previous = false
	}
}

// toGoBack returns the options without those for other changes.
func (o Options) toGoBack() Options {
	o.Previous, o.Planned, o.OnFailure = true, nil, KeepFailed
	o.Asked = plan.Asked{SkipDrain: o.SkipDrain}
	return o
}

// putBack applies the jobs of the last successful deploy to the VM again, and starts
// them. why is the reason if that is impossible; err is the error if it failed.
func (j *jobs) putBack(ctx context.Context) (why string, err error) {
	a, ok := j.rec.Folder().Applied(kept.Current)
	st := j.rec.State.Get()
	switch {
	case !ok:
		return "this machine has no record of an earlier deploy that succeeded", nil
	case a.VM != j.vm:
		return "no deploy to this VM has succeeded yet", nil
	}
	for name, p := range a.Spec.Packages {
		has, err := j.agent.HasBlob(ctx, p.BlobstoreID)
		if err != nil {
			return "", err
		}
		if !has {
			return fmt.Sprintf("package %s of the previous deploy is no longer on the VM", name), nil
		}
	}
	err = j.rec.Out.Do("Putting back the previous jobs", func(s *report.Stage) error {
		spec := a.Spec
		spec.RenderedTemplates.BlobstoreID = uuid.NewString()
		if err := j.agent.PutBlob(ctx, spec.RenderedTemplates.BlobstoreID, j.rec.Folder().Rendered(kept.Current), s.Progress); err != nil {
			return err
		}
		return j.agent.Apply(ctx, spec)
	})
	if err == nil && !st.Own.Stopped {
		err = j.startAll(ctx)
	}
	if err != nil {
		return "", err
	}
	if !a.SameDisks(st) {
		return "", nil // The disk already matches the new manifest, so neither manifest is fully deployed.
	}
	return "", j.rec.State.Update(func(st *state.State) error {
		a.Record(st)
		return nil
	})
}
