package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"bootstrap/addresses"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/network"
	"bootstrap/state"
)

// reservations reserves the addresses of the instance in the ledger, binds them to
// its VM, and releases them.
type reservations struct {
	*work
	ledgers *instance.Placement // the manifest's addresses and ledger
	planned network.Outcome     // the plan's addresses
	// replace and swap are the arguments with which the plan's addresses were chosen.
	replace, swap bool
	probes        bool // warn of reserved addresses that answer
	// before are the addresses in the state before this run reserved any.
	before []state.Address
	// used becomes true when a VM may have the addresses. Until then, the end of the run
	// releases the addresses that the run has reserved.
	used bool
}

// choose chooses the addresses of a plan.
func (a *reservations) choose(ctx context.Context, replace, swap bool) (err error) {
	a.replace, a.swap = replace, swap
	a.planned, err = a.ledgers.Choose(ctx, replace, swap)
	return err
}

// errTaken says that another deployment has reserved an address of the plan since
// the plan was made.
var errTaken = errors.New("another deployment has reserved an address of the plan")

// unshared returns a warning for each new address that the ledger does not have, because
// other deployments cannot know of it.
func (a *reservations) unshared() (notes []string) {
	if !a.ledgers.InState() {
		return nil
	}
	for _, c := range a.planned.Changes {
		if c.Action == network.Reserve && c.Reason.Kind != network.InUse {
			notes = append(notes, fmt.Sprintf("other deployments do not know that address %s of network %s is taken, because the network is the manifest's own: if several deployments share it, give them static_ips or a cloud config", c.Reservation.Address(), c.Reservation.Network))
		}
	}
	return notes
}

// reserve reserves the addresses of the plan. If the run ends before a VM may have them,
// it releases them again.
func (a *reservations) reserve(ctx context.Context) error {
	if !a.ledgers.InState() {
		if _, err := a.ledgers.Ledger(ctx); err != nil {
			return err
		}
		// After a kill, the next run must find the reservations: under the same id, and
		// in the same ledger.
		if err := a.ledgers.RememberLedger(); err != nil {
			return err
		}
	}
	a.before = a.rec.State.Get().Own.Addresses
	run := uuid.NewString()
	a.rec.AtEnd(func() { a.undo(ctx, run) })
	got, err := a.ledgers.Reserve(ctx, run, a.replace, a.swap)
	if err != nil {
		return err
	}
	if !slices.EqualFunc(a.planned.Changes, got.Changes, sameAddress) {
		a.undo(ctx, run)
		return errTaken
	}
	if a.probes {
		a.probe(ctx)
	}
	return nil
}

// undo releases the addresses that the run has reserved, unless a VM may have them. It
// ignores the end of the run's context.
func (a *reservations) undo(ctx context.Context, run string) {
	if a.used {
		return
	}
	ctx = context.WithoutCancel(ctx)
	var err error
	if a.ledgers.InState() {
		err = a.ledgers.Set(a.before) // Otherwise addresses that were never used would be chosen last.
	} else {
		err = a.ledgers.With(ctx, func(ledger *addresses.Ledger) error {
			_, err := ledger.Undo(ctx, a.ledgers.Owner().Deployment, run)
			return err
		})
	}
	if err != nil {
		a.rec.Out.Warning(fmt.Sprintf("addresses that this run has reserved stay reserved for this deployment: %v; the next deploy uses them, and delete releases them", err))
	}
}

// bind records the addresses of the VM, and releases all others of the instance, except
// those of a VM that is not deleted yet.
func (a *reservations) bind(ctx context.Context, s plan.Step) error {
	var has []network.Reservation
	for _, c := range a.planned.Changes {
		if instance.Has(c) && c.Action != network.Ask {
			has = append(has, c.Reservation)
		}
	}
	var orphans []string
	if s.With.Old != "" {
		orphans = append(orphans, s.With.Old)
	}
	err := a.ledgers.With(ctx, func(ledger *addresses.Ledger) error {
		_, err := ledger.Record(ctx, a.ledgers.Owner(), a.vm, has, orphans...)
		return err
	})
	a.used = a.used || err == nil
	return err
}
