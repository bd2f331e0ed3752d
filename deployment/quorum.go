package deployment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/deployment/order"
	"bootstrap/deployment/record"
	"bootstrap/fleet/rollout"
)

// findRunning finds out which instances run, by name, if any instance changes.
func (o *Options) findRunning(ctx context.Context, all *record.Record, rows []Row) map[string]bool {
	ran := map[string]bool{}
	if !slices.ContainsFunc(rows, func(row Row) bool { return row.Action == Change }) {
		return ran // no instance is stopped
	}
	var mu sync.Mutex
	_ = sideBySide(ctx, len(rows), func(i int) {
		row := rows[i]
		if row.Action == Create || row.Action == Delete || row.Action == Unreachable || row.in.Ignored {
			return
		}
		state, _ := o.status(ctx, all, row.in)
		mu.Lock()
		defer mu.Unlock()
		ran[row.Name] = state == rollout.Runs
	})
	return ran
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
	others, _, _ := r.others(row)
	others = slices.DeleteFunc(others, func(other *Row) bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		return !r.ran[other.Name]
	})
	list, err := r.lookAt(ctx, others)
	if err != nil {
		return err
	}
	for i, s := range list {
		if s.state != rollout.Runs && !r.isChanging(others[i], s.at) {
			r.fail("%s is %s (%s), so %s was not stopped", others[i].Name, s.state, s.problem, row.Name)
			return errStopped
		}
	}
	return nil
}

// isChanging reports whether this run changes an instance, or has begun to since a time: then it
// need not run meanwhile. If its change fails, the run ends for that reason, unless it
// continues after failures.
func (r *runner) isChanging(row *Row, since time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.busy[row.Name] || r.failed[row.Name] || r.begun[row.Name].After(since)
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
		ended, failed := r.someEnded, r.over
		r.mu.Unlock()
		if failed {
			return errStopped
		}
		others, changing, size := r.others(row)
		list, err := r.lookAt(ctx, others)
		if err != nil {
			return err
		}
		run := 0
		var down []string
		for i, s := range list {
			switch {
			case s.state == rollout.Runs:
				run++
			case s.problem != "":
				down = append(down, fmt.Sprintf("%s is %s (%s)", others[i].Name, s.state, s.problem))
			default:
				down = append(down, fmt.Sprintf("%s is %s", others[i].Name, s.state))
			}
		}
		least, err := order.Healthy(text, size)
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
			why := fmt.Sprintf("%d other instances of %s run, and update.min_healthy is %s, so %s was not stopped", run, group, text, row.Name)
			if len(down) > 0 {
				slices.Sort(down)
				why += ": " + strings.Join(down, ", ")
			}
			r.fail("%s", why)
			return errStopped
		}
		select {
		case <-ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// others returns the other instances of the group that do not change at the moment, how many
// do, and how many instances the group has. Instances that are deleted do not count; size is
// also without new ones that have not run yet.
func (r *runner) others(row *Row) (others []*Row, changing, size int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, other := range r.rows {
		if other.in.Group != row.in.Group || other.Action == Delete {
			continue
		}
		if other.Action != Create || other.NotRunning != "" || r.ran[name] {
			size++
		}
		switch {
		case other == row:
		case r.busy[name]:
			changing++
		default:
			others = append(others, other)
		}
	}
	return others, changing, size
}
