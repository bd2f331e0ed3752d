package deployment

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bootstrap/deployer/instance"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Discard removes the states of a deployment, with those of compilation VMs and the record
// of several instances, and deletes nothing in the cloud. agree is called before that with
// what the states record; nil: Discard refuses to remove states that record something, with
// a *file.OwnsError. A version with everything is kept.
func Discard(ctx context.Context, at Place, agree func(owned []string) error) error {
	compiled := instance.Options{Team: at.Opts.Team, StateFile: at.Path}
	workers, err := compiled.WorkersLeft(ctx)
	if err != nil {
		return err
	}
	defer compiled.ForgetWorkers()
	unlock, err := at.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	r, gone, err := at.load()
	if err != nil {
		return err
	}
	if r == nil {
		return fmt.Errorf("cannot remove the states: %w", &state.MovedError{To: gone})
	}
	several, list := record.Exists(at.Dir()), slices.Concat(r.Instances, r.Former)
	if !several {
		list = []*record.Instance{{State: record.Beside(at.Path)}}
	}
	list = append(list, instance.WorkersIn(at.Opts.Team, workers)...)
	owned, err := at.owned(ctx, r, list)
	switch {
	case err != nil:
		return err
	case agree != nil:
		err = agree(owned)
	case len(owned) > 0:
		err = &file.OwnsError{Path: at.Name, Owned: owned}
	}
	if err != nil {
		return err
	}
	if several {
		if _, err := archivedOf(at.Dir(), at.Opts).keepAs(ctx, &at.Opts.Holder, &record.Version{Only: owned}, keeping{}); err != nil {
			return err
		}
	}
	return at.discard(ctx, r, list, several, agree != nil)
}

// owned returns what states record.
func (p Place) owned(ctx context.Context, r *record.Record, list []*record.Instance) (owned []string, err error) {
	for _, in := range list {
		path, _, opts, err := p.stateOf(r, in)
		if err == nil {
			err = file.RefreshPart(ctx, opts.Team)
		}
		if err != nil {
			return nil, err
		}
		st, _, err := file.Read(path, opts.Home)
		if err != nil {
			return nil, fmt.Errorf("cannot remove the states: %w", err)
		}
		for _, resource := range st.Owned() {
			if !slices.Contains(owned, resource) {
				owned = append(owned, resource)
			}
		}
	}
	return owned, nil
}

// discard removes states, the record last: after a kill, the same command continues.
func (p Place) discard(ctx context.Context, r *record.Record, list []*record.Instance, several, force bool) error {
	for _, in := range list {
		path, _, opts, err := p.stateOf(r, in)
		if err == nil {
			err = file.Discard(ctx, path, force, opts)
		}
		if _, missing := errors.AsType[*file.MissingError](err); missing {
			err = nil // it was not created yet, or is removed
		}
		if err != nil {
			return err
		}
	}
	t := p.Opts.Team
	if err := errors.Join(t.RemoveWorkers(ctx), t.RemoveLinks(ctx)); err != nil {
		return err
	}
	if !several {
		return nil
	}
	return r.Forget()
}
