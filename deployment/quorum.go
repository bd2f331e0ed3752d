package deployment

import (
	"context"
	"slices"

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
		if row.Action == Create || row.Action == Delete || row.Action == Unreachable {
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
	text := r.rules[row.in.Group].MinHealthy
	var others []*Row
	size := 0
	r.mu.Lock()
	for name, other := range r.rows {
		if other.in.Group != row.in.Group || other.Action == Delete {
			continue
		}
		size++
		if name != row.Name && !r.busy[name] && (r.ran[name] || text != "") {
			others = append(others, other)
		}
	}
	r.mu.Unlock()
	states, problems := make([]rollout.Condition, len(others)), make([]string, len(others))
	err := sideBySide(ctx, len(others), func(i int) {
		states[i], problems[i] = r.status(ctx, r.all, others[i].in)
	})
	if err != nil {
		return err
	}
	run := 0
	for i, other := range others {
		switch {
		case states[i] == rollout.Runs:
			run++
		case text == "":
			r.fail("%s is %s (%s), so %s was not stopped", other.Name, states[i], problems[i], row.Name)
			return errStopped
		}
	}
	if text == "" {
		return nil
	}
	least, err := order.Healthy(text, size)
	if err != nil {
		return err
	}
	if run < least {
		r.fail("%d other instances of %s run, and update.min_healthy is %s, so %s was not stopped", run, row.in.Group, text, row.Name)
		return errStopped
	}
	return nil
}
