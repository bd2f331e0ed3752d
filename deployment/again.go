package deployment

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/deployment/record"
	"bootstrap/fleet/rollout"
)

// begin records that the command runs, and returns those of the instances for which it has
// to run: without those for which a run that it continues has already succeeded.
func (o *Options) begin(ctx context.Context, does Lifecycle, all *record.Record, selected string, list []*record.Instance) ([]*record.Instance, error) {
	if all.Continue(string(does), selected, time.Now().UTC().Truncate(time.Millisecond)) {
		done, err := o.finished(ctx, does, all, list)
		if err != nil {
			return nil, err
		}
		var left []*record.Instance
		for _, in := range list {
			if !done[in.ID] {
				left = append(left, in)
				continue
			}
			o.Base.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("The %s of %s that did not end well is continued: %s was done", does, report.Minute(all.Run.Begun), in.Name())})
		}
		list = left
	}
	return list, all.Save()
}

// done records that the command has succeeded for an instance.
func (r *runner) done(row *Row) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.record.Run.Done = append(r.record.Run.Done, row.ID)
	return r.record.Save()
}

// finished returns the ids of the instances for which the run of the record has already
// succeeded, and which are still as the command leaves them.
func (o *Options) finished(ctx context.Context, does Lifecycle, all *record.Record, list []*record.Instance) (map[string]bool, error) {
	as := rollout.Runs
	if does == Stop {
		as = rollout.Stopped
	}
	done := make([]bool, len(list))
	err := sideBySide(ctx, len(list), func(i int) {
		if slices.Contains(all.Run.Done, list[i].ID) || o.outlived(does, all, list[i]) {
			state, _ := o.status(ctx, all, list[i])
			done[i] = state == as
		}
	})
	ids := map[string]bool{}
	for i, in := range list {
		if done[i] {
			ids[in.ID] = true
		}
	}
	return ids, err
}

// outlived reports whether the command about the instance has succeeded after its run was
// killed.
func (o *Options) outlived(does Lifecycle, all *record.Record, in *record.Instance) bool {
	st, found, err := all.ReadState(in, o.Base.Home)
	if err != nil || !found {
		return false // The command about the instance reports what is wrong with its state.
	}
	for _, t := range kept.At(filepath.Join(o.Base.Home, st.InstallationID)).Timelines() {
		if t.IsOf(string(does)) && t.Status == timeline.Finished && !t.Began.Before(all.Run.Begun) {
			return true
		}
	}
	return false
}
