package addresses

import (
	"context"

	"bootstrap/network"
)

// Undo releases the reservations that the run made for the deployment's instances and
// that no VM uses. Older reservations stay.
func (l *Ledger) Undo(ctx context.Context, deployment, run string) ([]network.Reservation, error) {
	if deployment == "" || run == "" {
		return nil, nil
	}
	return l.release(ctx, Filter{Deployment: deployment, Run: run}, func(r network.Reservation) bool { return r.VM == "" })
}

// ReleaseVM releases the addresses of a deleted VM of the deployment. Callers pass only
// VMs that an instance no longer uses: the addresses of a VM in use belong to the
// instance.
func (l *Ledger) ReleaseVM(ctx context.Context, deployment, vm string) ([]network.Reservation, error) {
	if deployment == "" || vm == "" {
		return nil, nil
	}
	return l.release(ctx, Filter{Deployment: deployment, VM: vm}, nil)
}

// ReleaseDeployment releases all reservations of a deleted deployment.
func (l *Ledger) ReleaseDeployment(ctx context.Context, deployment string) ([]network.Reservation, error) {
	if deployment == "" {
		return nil, nil
	}
	return l.release(ctx, Filter{Deployment: deployment}, nil)
}

// Release releases reservations whose scope, block and owner have not changed, and
// returns them.
func (l *Ledger) Release(ctx context.Context, reservations ...network.Reservation) (released []network.Reservation, err error) {
	err = l.repository.transact(ctx, true, func(t records) error {
		released = nil
		for _, r := range reservations {
			held, found, err := t.Overlapping(r.Scope, r.Block.Addr(), lastOf(r.Block))
			if err != nil {
				return err
			}
			if !found || !sameBlock(held, r) || !held.Owner.Same(r.Owner) {
				continue
			}
			if err := t.remove(held); err != nil {
				return err
			}
			released = append(released, held)
		}
		return nil
	})
	return released, err
}

func (l *Ledger) release(ctx context.Context, filter Filter, also func(network.Reservation) bool) (released []network.Reservation, err error) {
	err = l.repository.transact(ctx, true, func(t records) error {
		released = nil
		list, err := t.list(filter)
		if err != nil {
			return err
		}
		for _, r := range list {
			if also != nil && !also(r) {
				continue
			}
			if err := t.remove(r); err != nil {
				return err
			}
			released = append(released, r)
		}
		return nil
	})
	return released, err
}
