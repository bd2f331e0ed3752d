package instance

import (
	"cmp"
	"context"
	"fmt"

	"bootstrap/addresses"
	"bootstrap/network"
)

// ReleaseVM releases the addresses of a deleted VM that the instance no longer
// uses.
func (a *Addresses) ReleaseVM(ctx context.Context, cid string) error {
	if a.Recorded() {
		if err := a.Change(ctx, func(ledger *addresses.Ledger) error {
			_, err := ledger.ReleaseVM(ctx, a.rec.Installation.String(), cid)
			return err
		}); err != nil {
			return err
		}
	}
	if !a.UsesLedger() {
		return nil
	}
	ledger, err := a.Ledger(ctx)
	if err == nil {
		_, err = ledger.ReleaseVM(ctx, a.rec.Installation.String(), cid)
	}
	return err
}

// ReleaseAll releases all addresses of the deleted deployment, including those in earlier
// ledgers.
func (a *Addresses) ReleaseAll(ctx context.Context) error {
	if a.Recorded() {
		if err := a.Change(ctx, func(ledger *addresses.Ledger) error {
			_, err := ledger.ReleaseDeployment(ctx, a.rec.Installation.String())
			return err
		}); err != nil {
			return err
		}
	}
	if !a.UsesLedger() {
		return nil
	}
	for _, address := range a.OldLedgers() {
		if IsMissing(address) {
			continue // The addresses were in the ledger that does not exist any more.
		}
		ledger, err := a.rec.Env.Ledger(ctx, address)
		if err == nil {
			_, err = ledger.ReleaseDeployment(ctx, a.rec.Installation.String())
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			a.rec.Out.Warning(fmt.Sprintf("addresses of this deployment stay reserved in a ledger that it used before: %v; when the ledger can be used, run: bootstrap addresses release %s --database %s --force", err, a.rec.Installation, addresses.Place(address)))
		}
	}
	if a.LedgerLost() {
		a.rec.Out.Warning(fmt.Sprintf("the ledger %s does not exist, so no address is released; if it is elsewhere: bootstrap addresses release %s --database PATH", a.LedgerAddress(), a.rec.Installation))
		return nil
	}
	var released []network.Reservation
	if !IsMissing(a.LedgerAddress()) { // Opening a missing ledger would create a new one.
		ledger, err := a.Ledger(ctx)
		if err == nil {
			released, err = ledger.ReleaseDeployment(ctx, a.rec.Installation.String())
		}
		if err != nil {
			return err
		}
	}
	if a.rec.Known.Database == "" && len(released) == 0 {
		a.rec.Out.Warning(fmt.Sprintf("the ledger %s has no address of this deployment; if another one has some, on this or another machine (%s): bootstrap addresses release %s --database PATH", addresses.Place(a.LedgerAddress()), cmp.Or(a.rec.State.Get().Own.Ledger, "the state records none"), a.rec.Installation))
	}
	return nil
}
