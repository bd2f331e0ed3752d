package deployment

import (
	"context"
	"errors"
	"slices"
	"time"

	"bootstrap/deployer"
	"bootstrap/deployment/record"
)

// mostRounds is how often instances are asked again because a process of one has ended.
const mostRounds = 5

// askAgain asks instances once more whether their jobs run, those that this run has changed
// or started: a process may have ended since the command about its instance has. names are
// the names of the instances; nil: all. If one needs some time until its jobs run, all are
// asked again after it.
func (r *runner) askAgain(ctx context.Context, names []string) error {
	if r.does == Stop {
		return nil
	}
	for range mostRounds {
		waited, err := r.askOnce(ctx, names)
		if err != nil || waited == "" {
			return err
		}
		names = nil
	}
	r.fail("processes of instances end again and again, each after longer than before: `bootstrap logs MANIFEST` shows why")
	return errStopped
}

// askOnce asks the instances, and returns the name of one whose jobs did not run at first;
// empty: all run.
func (r *runner) askOnce(ctx context.Context, names []string) (waited string, err error) {
	var list []*Row
	var when []deployer.Ran
	r.mu.Lock()
	for name, ran := range r.started {
		if names == nil || slices.Contains(names, name) {
			list, when = append(list, r.rows[name]), append(when, ran)
		}
	}
	r.mu.Unlock()
	errs, began := make([]error, len(list)), time.Now()
	err = sideBySide(ctx, len(list), func(i int) {
		row := list[i]
		errs[i] = r.stillRuns(ctx, row, when[i], func() {
			r.report(row, Event{Status: Stepped, Step: "wait", Down: true})
			r.mu.Lock()
			defer r.mu.Unlock()
			waited = row.Name
		})
		if errs[i] == nil || ctx.Err() != nil {
			return
		}
		r.fail("%s: %v", row.Name, errs[i])
		r.report(row, Event{Status: Failed, Seconds: time.Since(began).Seconds(), Error: errs[i].Error(), Hint: r.Advice(errs[i])})
	})
	return waited, errors.Join(append(errs, err)...)
}

// foundRunning adds the instances that a command which is continued leaves out, because their
// jobs run.
func (r *runner) foundRunning(chosen, left []*record.Instance) {
	now := time.Now()
	for _, in := range chosen {
		if !slices.Contains(left, in) {
			r.started[in.Name()] = deployer.Ran{Begun: now, At: now}
		}
	}
}

// stillRuns asks one instance whether its jobs run; see deployer.StillRuns.
func (r *runner) stillRuns(ctx context.Context, row *Row, ran deployer.Ran, waits func()) error {
	one, err := r.about(r.all, row.in)
	if err != nil {
		return err
	}
	err = deployer.StillRuns(ctx, one, ran, waits)
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.started[row.Name] = deployer.Ran{Begun: ran.Begun, At: time.Now()}
		return nil
	}
	r.ran[row.Name] = false
	delete(r.started, row.Name)
	if r.does == "" {
		return err
	}
	r.record.Run.Done = slices.DeleteFunc(r.record.Run.Done, func(id string) bool { return id == row.ID })
	return errors.Join(err, r.record.Save())
}
