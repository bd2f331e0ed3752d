package deployment

import (
	"context"
	"slices"
	"time"

	"bootstrap/deployment/order"
	"bootstrap/fleet/rollout"
)

// findRunning finds out which instances are running, if any instance changes.
func (r *runner) findRunning(ctx context.Context, p *Plan) {
	if !slices.ContainsFunc(p.Rows, func(row Row) bool { return row.Action == Change }) {
		return // no instance is stopped
	}
	_ = sideBySide(ctx, len(p.Rows), func(i int) {
		row := p.Rows[i]
		if row.Action == Create || row.Action == Delete || row.Action == Unreachable || row.in.Ignored {
			return
		}
		state, _ := r.status(ctx, r.all, row.in)
		r.mu.Lock()
		defer r.mu.Unlock()
		r.ran[row.Name] = state == rollout.Runs
	})
}

// guard refuses to stop an instance that runs if too few of the others of its group do:
// all that were running when the run began, or as many as update.min_healthy says.
func (r *runner) guard(ctx context.Context, row *Row) error {
	r.mu.Lock()
	runs := r.ran[row.Name]
	r.mu.Unlock()
	if row.Action != Change || !runs {
		return nil
	}
	if r.rules[row.in.Group].MinHealthy != "" {
		return r.claim(ctx, row)
	}
	others, _ := r.others(row)
	others = slices.DeleteFunc(others, func(other *Row) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.ran[other.Name]
	})
	asked := time.Now()
	states, problems, err := r.statuses(ctx, others)
	if err != nil {
		return err
	}
	for i, other := range others {
		if states[i] != rollout.Runs && !r.isChanging(other, asked) {
			r.fail("%s is %s (%s), so %s was not stopped", other.Name, states[i], problems[i], row.Name)
			return errStopped
		}
	}
	return nil
}

// isChanging reports whether this run changes an instance, or has begun to since a time: then it
// need not run meanwhile. If its change fails, the run ends for that reason.
func (r *runner) isChanging(row *Row, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy[row.Name] || r.begun[row.Name].After(since)
}

// claim marks an instance as changing if enough others run by update.min_healthy. If
// some of its group change, it waits for their end. It claims one instance of a group
// after another: two at the same time would each count the other one.
func (r *runner) claim(ctx context.Context, row *Row) error {
	group, text := row.in.Group, r.rules[row.in.Group].MinHealthy
	r.claims[group].Lock()
	defer r.claims[group].Unlock()
	for {
		r.mu.Lock()
		ended, failed := r.someEnded, len(r.failure) > 0
		r.mu.Unlock()
		if failed {
			return errStopped
		}
		others, changing := r.others(row)
		states, _, err := r.statuses(ctx, others)
		if err != nil {
			return err
		}
		run := 0
		for _, state := range states {
			if state == rollout.Runs {
				run++
			}
		}
		least, err := order.Healthy(text, 1+len(others)+changing)
		if err != nil {
			return err
		}
		switch {
		case run >= least:
			r.mu.Lock()
			r.busy[row.Name] = true
			r.mu.Unlock()
			return nil
		case changing == 0:
			r.fail("%d other instances of %s run, and update.min_healthy is %s, so %s was not stopped", run, group, text, row.Name)
			return errStopped
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// others returns the other instances of the group that do not change at the moment, and
// how many do. Instances that are deleted do not count.
func (r *runner) others(row *Row) (others []*Row, changing int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.rows {
		switch {
		case other.in.Group != row.in.Group, other.Action == Delete, other == row:
		case r.busy[name]:
			changing++
		default:
			others = append(others, other)
		}
	}
	return others, changing
}

// statuses looks at several instances.
func (r *runner) statuses(ctx context.Context, rows []*Row) (states []rollout.Condition, problems []string, err error) {
	states, problems = make([]rollout.Condition, len(rows)), make([]string, len(rows))
	err = sideBySide(ctx, len(rows), func(i int) {
		states[i], problems[i] = r.status(ctx, r.all, rows[i].in)
	})
	return states, problems, err
}
