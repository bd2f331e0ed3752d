package deployment

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bootstrap/deployer/instance"
	"bootstrap/deployment/record"
	"bootstrap/internal/wait"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// mostAwaited is how long a run waits for one that still changes an instance.
const mostAwaited = 2 * time.Hour

// awaitEvery is the pause between two checks.
const awaitEvery = 200 * time.Millisecond

// Await waits until no other process changes an instance of the record, as a command with
// --instance does, and copies the states of the instances from their store. It calls notify
// once for each instance that it waits for.
func Await(ctx context.Context, t *team.Copy, r *record.Record, notify func(instance string, by error)) error {
	if err := awaitHere(ctx, r, notify); err != nil {
		return err
	}
	return awaitStored(ctx, t, r, notify)
}

// awaitHere waits for processes of this machine.
func awaitHere(ctx context.Context, r *record.Record, notify func(instance string, by error)) error {
	limited, cancel := context.WithTimeout(ctx, mostAwaited)
	defer cancel()
	for _, in := range r.Instances {
		var by *file.LockedError
		err := wait.Poll(limited, awaitEvery, func() (ended bool, err error) {
			locked, err := file.LockedBy(r.StatePath(in))
			if locked != nil && by == nil {
				notify(in.Name(), locked)
			}
			by = locked
			return locked == nil, err
		})
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil && by != nil:
			return by
		case err != nil:
			return fmt.Errorf("cannot find out whether another process changes %s: %w", in.Name(), err)
		}
	}
	return nil
}

// awaitStored waits for processes of other machines, and copies the states.
func awaitStored(ctx context.Context, t *team.Copy, r *record.Record, notify func(instance string, by error)) error {
	limited, cancel := context.WithTimeout(ctx, mostAwaited)
	defer cancel()
	errs := make([]error, len(r.Instances))
	err := sideBySide(limited, len(r.Instances), func(i int) {
		one, err := t.Instance(r.Instances[i].State)
		if err == nil {
			err = one.Await(limited, func(by *team.HeldError) { notify(r.Instances[i].Name(), by) })
		}
		errs[i] = err
	})
	if err := errors.Join(append(errs, err)...); err != nil {
		return err
	}
	return instance.RefreshInstances(ctx, t)
}
