package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"bootstrap/addresses"
	"bootstrap/deployer/target"
	"bootstrap/network"
)

// reservations reserves the addresses of the instance in the ledger, binds them to
// its VM, and releases them.
type reservations struct {
	*work
	planned network.Outcome // plan
	// replace and swap are how the ledger was asked for the plan.
	replace, swap bool
	probes        bool // warn of reserved addresses that answer
	// used is true from the moment at which a VM may have the addresses: until
	// then, the end of the run releases what it has reserved.
	used bool
}

// choose decides the addresses for a plan.
func (a *reservations) choose(ctx context.Context, replace, swap bool) (err error) {
	a.replace, a.swap = replace, swap
	a.planned, err = a.t.ChooseAddresses(ctx, replace, swap)
	return err
}

// errTaken says that another deployment has reserved an address of the plan since
// the plan was made.
var errTaken = errors.New("an address of the plan was reserved by another deployment meanwhile")

// reserve reserves the addresses of the plan. If the run ends before a VM may
// have them, it releases those that it has reserved.
func (a *reservations) reserve(ctx context.Context) error {
	if _, err := a.t.Ledger(ctx); err != nil {
		return err
	}
	// After a kill the next run must find the reservations, by the same id and in the
	// same ledger.
	if err := a.t.RememberLedger(); err != nil {
		return err
	}
	run := uuid.NewString()
	a.t.AtEnd(func() { a.undo(ctx, run) })
	got, err := a.t.ReserveAddresses(ctx, run, a.replace, a.swap)
	if err != nil {
		return err
	}
	same := func(x, y network.Change) bool {
		return x.Action == y.Action && x.Reservation.Scope == y.Reservation.Scope && x.Reservation.Block == y.Reservation.Block
	}
	if !slices.EqualFunc(a.planned.Changes, got.Changes, same) {
		a.undo(ctx, run)
		return errTaken
	}
	if a.probes {
		a.probe(ctx)
	}
	return nil
}

// undo releases what the run has reserved, unless a VM may have it. The context
// of an interrupted run has ended, and does not count.
func (a *reservations) undo(ctx context.Context, run string) {
	if a.used {
		return
	}
	ctx = context.WithoutCancel(ctx)
	ledger, err := a.t.Ledger(ctx)
	if err == nil {
		_, err = ledger.Undo(ctx, a.t.Owner().Deployment, run)
	}
	if err != nil {
		a.t.Out.Warning(fmt.Sprintf("addresses that this run has reserved stay reserved for this deployment: %v; the next deploy uses them, and delete releases them", err))
	}
}

// bind records which addresses the VM has, and releases all others of the
// instance but those of a VM that is still to be deleted.
func (a *reservations) bind(ctx context.Context) error {
	ledger, err := a.t.Ledger(ctx)
	if err != nil {
		return err
	}
	var has []network.Reservation
	for _, c := range a.planned.Changes {
		if target.Has(c) && c.Action != network.Ask {
			has = append(has, c.Reservation)
		}
	}
	st := a.t.State.Get()
	var orphans []string
	if old := st.Own.Swap; old != nil {
		orphans = append(orphans, old.CID)
	}
	_, err = ledger.Record(ctx, a.t.Owner(), st.CurrentVMCID, has, orphans...)
	return a.t.Env.Refused(err, a.t.LedgerAddress())
}

// releaseVM releases the addresses of a deleted VM that the instance no longer
// uses.
func (a *reservations) releaseVM(ctx context.Context, cid string) error {
	if !a.t.UsesLedger() {
		return nil
	}
	ledger, err := a.t.Ledger(ctx)
	if err == nil {
		_, err = ledger.ReleaseVM(ctx, a.t.Installation.String(), cid)
	}
	return err
}

// releaseAll releases all addresses of the deleted deployment, also in the ledgers
// that it used before.
func (a *reservations) releaseAll(ctx context.Context) error {
	for _, address := range a.t.OldLedgers() {
		if target.IsMissing(address) {
			continue // its addresses are gone with it
		}
		ledger, err := a.t.Env.Ledger(ctx, address)
		if err == nil {
			_, err = ledger.ReleaseDeployment(ctx, a.t.Installation.String())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			a.t.Out.Warning(fmt.Sprintf("addresses of this deployment stay reserved in a ledger that it used before: %v; then release them: bootstrap addresses release %s --database %s --force", err, a.t.Installation, addresses.Place(address)))
		}
	}
	if a.t.LedgerLost() {
		a.t.Out.Warning(fmt.Sprintf("the ledger %s does not exist, so no address is released; if it is elsewhere: bootstrap addresses release %s --database PATH", a.t.LedgerAddress(), a.t.Installation))
		return nil
	}
	var released []network.Reservation
	if !target.IsMissing(a.t.LedgerAddress()) { // or else it would be a new one
		ledger, err := a.t.Ledger(ctx)
		if err == nil {
			released, err = ledger.ReleaseDeployment(ctx, a.t.Installation.String())
		}
		if err != nil {
			return err
		}
	}
	if a.t.Known.Database == "" && len(released) == 0 {
		a.t.Out.Warning(fmt.Sprintf("the ledger %s has no address of this deployment; if another one has some, on this or another machine (%s): bootstrap addresses release %s --database PATH", addresses.Place(a.t.LedgerAddress()), cmp.Or(a.t.State.Get().Own.Ledger, "the state records none"), a.t.Installation))
	}
	return nil
}
