package deployer

import (
	"context"
	"errors"
	"slices"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
)

// record begins to record the timeline of the run, unless the run is a part of another
// one.
func (o *Options) record() {
	if o.Timeline != nil {
		return
	}
	t, pass := timeline.NewRecorder(), o.Report
	o.Timeline = t
	o.Report = func(e report.Event) {
		switch {
		case e.Group:
		case e.Kind == report.Begin:
			t.BeginStage(e.Stage, e.Parent, e.Name)
		case e.Kind == report.End:
			t.EndStage(e.Stage, timeline.Status(e.Status))
		}
		pass(e)
	}
}

// statusOf returns the status of a run, or of a part of it.
func statusOf(ctx context.Context, err error) timeline.Status {
	interrupted, _ := errors.AsType[*report.InterruptedError](err)
	switch {
	case err == nil, errors.Is(err, errDone):
		return timeline.Finished
	case interrupted != nil, ctx.Err() != nil && errors.Is(err, ctx.Err()):
		return timeline.Interrupted
	}
	return timeline.Failed
}

// keepTimeline returns the timeline of a run that has ended, and stores it if a step of a
// plan has begun. It records an event if the run has changed something. After a delete,
// there is no folder for them.
func (r *run) keepTimeline(status timeline.Status, failure error) *timeline.Timeline {
	t := r.t.Env.Timeline.Timeline(status, r.t.Env.Redact)
	by := r.t.Env.Holder
	t.Command, t.User, t.Host = by.Command, by.User, by.Host
	if r.t.State == nil {
		return t
	}
	t.VM = r.t.State.Get().CurrentVMCID
	_, steps := r.t.Env.Timeline.Elapsed()
	if steps == 0 && !r.hasChanged() && r.look.Rebooted == "" || r.t.State.Fresh() || !instance.Exists(r.t.Dir) {
		return t
	}
	if steps > 0 {
		if err := r.t.Folder().AddTimeline(t); err != nil {
			r.t.Out.Warning(err.Error())
		}
	}
	if err := r.t.Folder().AddEvent(r.event(t, failure)); err != nil {
		r.t.Out.Warning(err.Error())
	}
	return t
}

// hasChanged reports whether the state records other resources than when it was locked.
// Commands about disks and snapshots have no steps.
func (r *run) hasChanged() bool {
	st := r.t.State.Get()
	return r.locked && !slices.Equal(r.had, st.Resources())
}

// event returns the entry of the run for bootstrap events.
func (r *run) event(t *timeline.Timeline, failure error) kept.Event {
	e := kept.Event{Began: t.Began, Seconds: t.Seconds, By: t.User + "@" + t.Host, Command: t.Command, Status: t.Status}
	if failure != nil {
		e.Error = r.t.Env.Redact(failure.Error())
	}
	if vm := r.look.Rebooted; vm != "" {
		e.Changes = append(e.Changes, "reboot VM "+vm)
	}
	e.Changes = append(e.Changes, plan.Changed(r.plan)...)
	st := r.t.State.Get()
	for _, change := range plan.Resources(r.had, st.Resources()) {
		if !slices.Contains(e.Changes, change) {
			e.Changes = append(e.Changes, change)
		}
	}
	return e
}
