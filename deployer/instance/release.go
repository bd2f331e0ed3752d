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
			_, err := ledger.ReleaseVM(ctx, a.t.Installation.String(), cid)
			return err
		}); err != nil {
			return err
		}
	}
	if !a.t.UsesLedger() {
		return nil
	}
	ledger, err := a.t.Ledger(ctx)
	if err == nil {
		_, err = ledger.ReleaseVM(ctx, a.t.Installation.String(), cid)
	}
	return err
}

// ReleaseAll releases all addresses of the deleted deployment, also in the ledgers
// that it used before.
func (a *Addresses) ReleaseAll(ctx context.Context) error {
	if a.Recorded() {
		if err := a.Change(ctx, func(ledger *addresses.Ledger) error {
			_, err := ledger.ReleaseDeployment(ctx, a.t.Installation.String())
			return err
		}); err != nil {
			return err
		}
	}
	if !a.t.UsesLedger() {
		return nil
	}
	for _, address := range a.t.OldLedgers() {
		if IsMissing(address) {
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
	if !IsMissing(a.t.LedgerAddress()) { // or else it would be a new one
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
