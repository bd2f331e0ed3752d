package addresses

import (
	"context"
	"slices"

	"bootstrap/network"
)

// Decide returns the decision that Reserve would make now, and changes nothing. The Held
// fields list addresses of VMs that are recorded elsewhere, for example in a state file;
// the ledger adds those that it has recorded.
func (l *Ledger) Decide(ctx context.Context, networks []network.Network, instances []network.Instance) (outcomes []network.Outcome, err error) {
	err = l.repository.transact(ctx, false, func(t records) error {
		outcomes, _, err = l.decide(ctx, t, networks, instances)
		return err
	})
	return outcomes, err
}

// Reserve decides in one transaction which addresses the instances get, binds those
// that they hold, and reserves new ones. If an instance has another name than the ledger
// has for it, the ledger gets its name. The Held fields are as for Decide. It releases
// nothing. run is the id by which Undo finds the new reservations. A refusal is a
// *network.Refused; then nothing is changed.
func (l *Ledger) Reserve(ctx context.Context, run string, networks []network.Network, instances []network.Instance) (outcomes []network.Outcome, err error) {
	since := l.now()
	err = l.repository.transact(ctx, true, func(t records) error {
		var claimed [][]network.Reservation
		outcomes, claimed, err = l.decide(ctx, t, networks, instances)
		if err != nil {
			return err
		}
		for o, outcome := range outcomes {
			if outcome.Was != "" {
				if err := rename(t, instances[o].Owner); err != nil {
					return err
				}
			}
			for i := range outcome.Changes {
				change := &outcome.Changes[i]
				switch {
				case change.Action == network.Bind && change.Before != nil:
					err = rebind(t, *change.Before, change.Reservation)
				case change.Action == network.Reserve || isOneOf(claimed[o], change.Reservation):
					// Addresses of a VM are recorded even if the instance gives them up:
					// they become free only when the VM is deleted.
					change.Reservation.Since, change.Reservation.Run = since, run
					err = t.insert(change.Reservation)
				}
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return outcomes, err
}

// decide also returns the addresses of the instances that the ledger does not contain.
func (l *Ledger) decide(ctx context.Context, t records, networks []network.Network, instances []network.Instance) ([]network.Outcome, [][]network.Reservation, error) {
	instances, claimed := slices.Clone(instances), make([][]network.Reservation, len(instances))
	was := make([]string, len(instances))
	for i, in := range instances {
		held, err := t.list(ofOwner(in.Owner))
		if err != nil {
			return nil, nil, err
		}
		for j := range held {
			if held[j].Owner.Instance != in.Owner.Instance {
				was[i], held[j].Owner.Instance = held[j].Owner.Instance, in.Owner.Instance
			}
		}
		if claimed[i], err = l.claims(t, held, in.Held); err != nil {
			return nil, nil, err
		}
		instances[i].Held = slices.Concat(held, claimed[i])
	}
	if l.own != nil {
		networks = slices.Clone(networks)
		for i := range networks {
			networks[i].Scope = networks[i].Name
		}
	}
	outcomes, err := network.Decide(func() error { return context.Cause(ctx) }, networks, instances, t)
	for i, outcome := range outcomes {
		outcomes[i].Was = was[i]
		for j, change := range outcome.Changes {
			switch {
			case change.Action == network.Bind && isOneOf(claimed[i], change.Reservation):
				reason := network.Reason{Kind: network.InUse}
				if instances[i].VM == "" { // several instances are planned, and this is a new one
					reason.Kind = network.New
				}
				outcome.Changes[j] = network.Change{Action: network.Reserve, Reservation: change.Reservation, Reason: reason}
			case l.own != nil && change.Reason.Kind == network.Rescoped:
				outcome.Changes[j].Reason.Kind = network.Renamed
			}
		}
	}
	return outcomes, claimed, err
}

// rename gives the reservations of the instance its present name.
func rename(t records, owner network.Owner) error {
	held, err := t.list(ofOwner(owner))
	if err != nil {
		return err
	}
	for _, r := range held {
		r.Owner.Instance = owner.Instance
		if err := t.update(r); err != nil {
			return err
		}
	}
	return nil
}

// isOneOf reports whether the list has a reservation of the same block.
func isOneOf(list []network.Reservation, r network.Reservation) bool {
	return slices.ContainsFunc(list, func(other network.Reservation) bool { return sameBlock(other, r) })
}

// claims returns the claimed addresses that the ledger can give to the instance: nobody
// holds them, and the instance holds no address on their networks.
func (l *Ledger) claims(t records, held, claimed []network.Reservation) (list []network.Reservation, err error) {
	for _, c := range claimed {
		if l.own != nil {
			c.Scope = c.Network
		}
		if slices.ContainsFunc(held, func(h network.Reservation) bool { return h.Network == c.Network || sameBlock(h, c) }) {
			continue
		}
		_, taken, err := t.Overlapping(c.Scope, c.Block.Addr(), lastOf(c.Block))
		if err != nil {
			return nil, err
		}
		if !taken {
			list = append(list, c)
		}
	}
	return list, nil
}

func rebind(t records, before, after network.Reservation) error {
	if before.Scope == after.Scope && before.Block == after.Block {
		return t.update(after)
	}
	if err := t.remove(before); err != nil {
		return err
	}
	return t.insert(after)
}

// Record records in one transaction that the VM of the instance uses these
// reservations. It releases all others of the instance except those of the orphans: VMs
// that the instance no longer uses and that still exist. It returns the released ones.
// A reservation that somebody released by force is made again; if another instance has
// it, the error is a *network.Refused.
func (l *Ledger) Record(ctx context.Context, owner network.Owner, vm string, has []network.Reservation, orphans ...string) (released []network.Reservation, err error) {
	err = l.repository.transact(ctx, true, func(t records) error {
		released = nil
		held, err := t.list(ofOwner(owner))
		if err != nil {
			return err
		}
		for _, r := range has {
			if !slices.ContainsFunc(held, func(h network.Reservation) bool { return sameBlock(h, r) }) {
				r.Owner, r.VM = owner, vm
				if r.Since.IsZero() {
					r.Since = l.now()
				}
				if err := reserve(t, r); err != nil {
					return err
				}
			}
		}
		for _, h := range held {
			switch {
			case slices.ContainsFunc(has, func(r network.Reservation) bool { return sameBlock(h, r) }):
				h.Owner, h.VM = owner, vm
				err = t.update(h)
			case h.VM == "" || !slices.Contains(orphans, h.VM):
				err = t.remove(h)
				released = append(released, h)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return released, err
}

func sameBlock(a, b network.Reservation) bool { return a.Scope == b.Scope && a.Block == b.Block }

// reserve inserts the reservation unless its addresses are held.
func reserve(t records, r network.Reservation) error {
	holder, found, err := t.Overlapping(r.Scope, r.Block.Addr(), lastOf(r.Block))
	if err != nil {
		return err
	}
	if found {
		return inUse(r, holder)
	}
	return t.insert(r)
}

func inUse(r, holder network.Reservation) error {
	return &network.Refused{Kind: network.AlreadyInUse, Owner: r.Owner, Network: r.Network, Scope: r.Scope, Block: r.Block, Holders: []network.Reservation{holder}}
}

// Adopt records addresses of running instances, all or none. A reservation that the
// same instance holds already gets the given VM, network and kind. If another instance
// has one of the addresses, the error is a *network.Refused. It returns the new
// reservations.
func (l *Ledger) Adopt(ctx context.Context, reservations []network.Reservation) (adopted []network.Reservation, err error) {
	since := l.now()
	err = l.repository.transact(ctx, true, func(t records) error {
		adopted = nil
		for _, r := range reservations {
			if l.own != nil {
				r.Scope = r.Network
			}
			if r.Since.IsZero() {
				r.Since = since
			}
			held, found, err := t.Overlapping(r.Scope, r.Block.Addr(), lastOf(r.Block))
			switch {
			case err != nil:
				return err
			case !found:
				err = t.insert(r)
				adopted = append(adopted, r)
			case sameBlock(held, r) && held.Owner.Same(r.Owner):
				r.Since, r.Run = held.Since, held.Run
				err = t.update(r)
			default:
				err = inUse(r, held)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	return adopted, err
}
