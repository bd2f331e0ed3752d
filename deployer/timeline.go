package deployer

import (
	"context"
	"errors"

	"bootstrap/deployer/instance"
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
// plan has begun. After a delete, there is no folder for it.
func (r *run) keepTimeline(status timeline.Status) *timeline.Timeline {
	t := r.t.Env.Timeline.Timeline(status, r.t.Env.Redact)
	by := r.t.Env.Holder
	t.Command, t.User, t.Host = by.Command, by.User, by.Host
	if r.t.State == nil {
		return t
	}
	t.VM = r.t.State.Get().CurrentVMCID
	if _, steps := r.t.Env.Timeline.Elapsed(); steps == 0 || r.t.State.Fresh() || !instance.Exists(r.t.Dir) {
		return t
	}
	if err := r.t.Folder().AddTimeline(t); err != nil {
		r.t.Out.Warning(err.Error())
	}
	return t
}
