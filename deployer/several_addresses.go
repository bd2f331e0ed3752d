package deployer

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"bootstrap/addresses"
	"bootstrap/deployer/instance"
	"bootstrap/manifest"
	"bootstrap/network"
)

// ReserveSeveral reserves the addresses of several instances in the ledger, all of them in
// one transaction, in which addresses of renamed instances also get their new names. taken
// is true, and nothing is reserved, if the outcomes are not the planned ones, because
// another deployment has reserved an address since.
func ReserveSeveral(ctx context.Context, opts Options, d *manifest.Deployment, asked []network.Instance, planned []network.Outcome) (taken bool, err error) {
	reserves := func(o network.Outcome) bool {
		return o.Was != "" || slices.ContainsFunc(o.Changes, func(c network.Change) bool { return c.Action == network.Reserve })
	}
	if !slices.ContainsFunc(planned, reserves) {
		return false, nil
	}
	err = withLedger(ctx, opts, func(ledger *addresses.Ledger) error {
		run := uuid.NewString()
		got, err := ledger.Reserve(ctx, run, d.Networks, asked)
		if err != nil {
			return err
		}
		same := func(a, b network.Outcome) bool { return slices.EqualFunc(a.Changes, b.Changes, sameAddress) }
		if taken = !slices.EqualFunc(planned, got, same); !taken {
			return nil
		}
		for _, one := range asked {
			if _, err := ledger.Undo(context.WithoutCancel(ctx), one.Owner.Deployment, run); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !taken && opts.Probe {
		err = probeSeveral(ctx, opts, d.Groups[0].Manifest, planned)
	}
	return taken, err
}

// sameAddress reports whether two changes do the same with the same address. Their scopes
// differ if one was decided before there was a ledger.
func sameAddress(a, b network.Change) bool {
	return a.Action == b.Action && a.Reservation.Network == b.Reservation.Network && a.Reservation.Block == b.Reservation.Block
}

// ReleaseUnused releases the addresses that were reserved for the instance with the id
// before it had a state.
func ReleaseUnused(ctx context.Context, opts Options, id string) error {
	if r := newRun(opts); instance.IsMissing(r.t.Addresses.LedgerAddress()) {
		return nil
	}
	return withLedger(ctx, opts, func(ledger *addresses.Ledger) error {
		_, err := ledger.ReleaseDeployment(ctx, id)
		return err
	})
}

// withLedger calls do with the ledger of the command line, or the default one, if it
// exists or can be made.
func withLedger(ctx context.Context, opts Options, do func(*addresses.Ledger) error) error {
	r := newRun(opts)
	defer r.t.Env.Close()
	address := r.t.Addresses.LedgerAddress()
	r.t.Env.Secret(addresses.Secrets(address)...)
	ledger, err := r.t.Env.Ledger(ctx, address)
	if err == nil {
		err = do(ledger)
	}
	return r.t.Env.Refused(err, address)
}
