// Package addresses is the ledger of reserved addresses: which instance of which
// deployment holds which address. A ledger is in memory, in an SQLite database on
// this machine, or in a PostgreSQL database that a team shares; package network
// decides which addresses an instance gets.
package addresses

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"go4.org/netipx"

	"bootstrap/network"
)

// Ledger is the reservations of all deployments that share it. Its methods may
// be called by several goroutines and, but for one in memory, by several programs
// at the same time.
type Ledger struct {
	repository repository
	clock      func() time.Time
	// own is the repository if it is in memory: no other deployment shares the
	// ledger.
	own *memory
}

// repository keeps the reservations.
type repository interface {
	// transact calls do in a transaction. If the transaction cannot be committed
	// because of another one, it calls do again in a new one. An error of do rolls
	// the transaction back.
	transact(ctx context.Context, write bool, do func(records) error) error
	close() error
}

// records are the reservations in a transaction.
type records interface {
	network.Taken
	// list returns the reservations by scope and address, IPv4 first.
	list(Filter) ([]network.Reservation, error)
	// all calls do with all reservations, in that order.
	all(do func(network.Reservation)) error
	// insert adds a reservation that overlaps no other one.
	insert(network.Reservation) error
	// update replaces the reservation of the same scope and block.
	update(network.Reservation) error
	remove(network.Reservation) error
	// defects returns what contradicts itself.
	defects() ([]string, error)
}

// Open opens the ledger at the address: a postgres:// URL, or the path of an
// SQLite database, which is created if it does not exist. The errors of a
// database are of type *Error. clock tells when reservations are made.
func Open(ctx context.Context, address string, clock func() time.Time) (*Ledger, error) {
	return open(ctx, address, clock, func(string) {})
}

// open is Open; before is called before each statement.
func open(ctx context.Context, address string, clock func() time.Time, before func(statement string)) (*Ledger, error) {
	var r repository
	var err error
	scheme, _, isURL := strings.Cut(address, "://")
	switch {
	case scheme == "postgres" || scheme == "postgresql":
		r, err = openPostgres(ctx, address, before)
	case isURL && !strings.ContainsAny(scheme, `/\.`):
		return nil, fmt.Errorf("the address ledger cannot be in a database of the kind %s: give the path of a file or a postgres:// URL", scheme)
	default:
		r, err = openSQLite(ctx, address, before)
	}
	if err != nil {
		return nil, err
	}
	return &Ledger{repository: r, clock: clock}, nil
}

// Memory returns a ledger of one deployment for one run. held is what its
// instances hold, by its state and its agents, and released what they have given
// up, the oldest release first. Each network is a scope of its own; what an instance
// holds cannot be reserved again, not even by itself; an address that was released
// is the last to be given out again.
func Memory(held, released []network.Reservation, clock func() time.Time) (*Ledger, error) {
	m := &memory{reservations: map[string][]network.Reservation{}}
	for _, r := range released {
		r.Scope = r.Network
		m.released = append(m.released, r)
	}
	for _, r := range held {
		r.Scope = r.Network
		if holder, found, _ := m.Overlapping(r.Scope, r.Block.Addr(), lastOf(r.Block)); found {
			return nil, inUse(r, holder)
		}
		m.add(r)
	}
	return &Ledger{repository: m, clock: clock, own: m}, nil
}

// Released returns what was released and not reserved again, the oldest release
// first, if the ledger is in memory. Others do not record that.
func (l *Ledger) Released() []network.Reservation {
	if l.own == nil {
		return nil
	}
	l.own.mu.Lock()
	defer l.own.mu.Unlock()
	return slices.Clone(l.own.released)
}

// Close closes the database.
func (l *Ledger) Close() error { return l.repository.close() }

// Decide returns what Reserve would do now, and changes nothing. Held of the
// instances is what their VMs have by another record, such as a state file: the
// ledger adds it to what they hold.
func (l *Ledger) Decide(ctx context.Context, networks []network.Network, instances []network.Instance) (outcomes []network.Outcome, err error) {
	err = l.repository.transact(ctx, false, func(t records) error {
		outcomes, _, err = l.decide(t, networks, instances)
		return err
	})
	return outcomes, err
}

// Reserve decides in one transaction which addresses the instances get, binds
// what they hold, and reserves what is new. Held of the instances is as for
// Decide. Nothing is released. run is the id under which Undo finds what is
// new. A refusal is a *network.Refused; then nothing is changed.
func (l *Ledger) Reserve(ctx context.Context, run string, networks []network.Network, instances []network.Instance) (outcomes []network.Outcome, err error) {
	since := l.now()
	err = l.repository.transact(ctx, true, func(t records) error {
		var claimed [][]network.Reservation
		outcomes, claimed, err = l.decide(t, networks, instances)
		if err != nil {
			return err
		}
		for o, outcome := range outcomes {
			for i := range outcome.Changes {
				change := &outcome.Changes[i]
				switch {
				case change.Action == network.Bind && change.Before != nil:
					err = rebind(t, *change.Before, change.Reservation)
				case change.Action == network.Reserve || isOneOf(claimed[o], change.Reservation):
					// What a VM has is recorded even if it is given up: until then it is not free.
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

// now returns the time as all ledgers keep it: to the millisecond.
func (l *Ledger) now() time.Time { return l.clock().UTC().Truncate(time.Millisecond) }

// decide also returns what the instances have without a record in the ledger.
func (l *Ledger) decide(t records, networks []network.Network, instances []network.Instance) ([]network.Outcome, [][]network.Reservation, error) {
	instances, claimed := slices.Clone(instances), make([][]network.Reservation, len(instances))
	for i, in := range instances {
		held, err := t.list(ofOwner(in.Owner))
		if err != nil {
			return nil, nil, err
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
	outcomes, err := network.Decide(networks, instances, t)
	for i, outcome := range outcomes {
		for j, change := range outcome.Changes {
			switch {
			case change.Action == network.Bind && isOneOf(claimed[i], change.Reservation):
				outcome.Changes[j] = network.Change{Action: network.Reserve, Reservation: change.Reservation, Reason: network.Reason{Kind: network.InUse}}
			case l.own != nil && change.Reason.Kind == network.Rescoped:
				outcome.Changes[j].Reason.Kind = network.Renamed
			}
		}
	}
	return outcomes, claimed, err
}

// isOneOf reports whether the list has a reservation of the same block.
func isOneOf(list []network.Reservation, r network.Reservation) bool {
	return slices.ContainsFunc(list, func(other network.Reservation) bool { return sameBlock(other, r) })
}

// claims returns those of the claimed addresses that the ledger can give to the
// instance: nobody holds them, and it holds none on their networks.
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

// Record records in one transaction that the VM of the instance has these
// reservations, and releases all others of the instance but those of the orphans:
// VMs that the instance no longer uses and that still exist. It returns what was
// released. A reservation that was released by force meanwhile is made again; if
// another instance has it, the error is a *network.Refused.
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

// Undo releases what the run reserved for instances of the deployment and no VM
// has. What they held before the run stays theirs.
func (l *Ledger) Undo(ctx context.Context, deployment, run string) ([]network.Reservation, error) {
	if deployment == "" || run == "" {
		return nil, nil
	}
	return l.release(ctx, Filter{Deployment: deployment, Run: run}, func(r network.Reservation) bool { return r.VM == "" })
}

// ReleaseVM releases what a VM of the deployment that was deleted has. Callers
// name VMs that an instance no longer uses: the addresses of one that it uses stay
// the instance's.
func (l *Ledger) ReleaseVM(ctx context.Context, deployment, vm string) ([]network.Reservation, error) {
	if deployment == "" || vm == "" {
		return nil, nil
	}
	return l.release(ctx, Filter{Deployment: deployment, VM: vm}, nil)
}

// ReleaseDeployment releases all that the instances of a deleted deployment hold.
func (l *Ledger) ReleaseDeployment(ctx context.Context, deployment string) ([]network.Reservation, error) {
	if deployment == "" {
		return nil, nil
	}
	return l.release(ctx, Filter{Deployment: deployment}, nil)
}

// Release releases the reservations that still have the same scope, block and
// owner, and returns them.
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

// Adopt records what running instances have, all or nothing. What the same
// instance holds already gets the VM, the network and the kind that are given.
// If another instance has one of the addresses, the error is a *network.Refused.
// It returns the reservations that are new.
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

// Filter selects reservations. Fields that are empty select all.
type Filter struct {
	Scope      string
	Deployment string // the installation id
	Instance   string
	Network    string
	VM         string
	Run        string
	Within     netip.Prefix // reservations with an address in this block
}

func ofOwner(owner network.Owner) Filter {
	return Filter{Deployment: owner.Deployment, Instance: owner.Instance}
}

// selects reports whether the reservation is one of those that the filter selects.
func (f Filter) selects(r network.Reservation) bool {
	for _, field := range []struct{ want, is string }{
		{f.Scope, r.Scope}, {f.Deployment, r.Owner.Deployment}, {f.Instance, r.Owner.Instance},
		{f.Network, r.Network}, {f.VM, r.VM}, {f.Run, r.Run},
	} {
		if field.want != "" && field.want != field.is {
			return false
		}
	}
	return !f.Within.IsValid() || f.Within.Overlaps(r.Block)
}

// List returns the reservations that the filter selects, by scope and address,
// IPv4 first.
func (l *Ledger) List(ctx context.Context, filter Filter) (list []network.Reservation, err error) {
	err = l.repository.transact(ctx, false, func(t records) error {
		list, err = t.list(filter)
		return err
	})
	return list, err
}

// Each calls do with all reservations, by scope and address, IPv4 first, without
// keeping them in memory. do does not use the ledger.
func (l *Ledger) Each(ctx context.Context, do func(network.Reservation)) error {
	return l.repository.transact(ctx, false, func(t records) error { return t.all(do) })
}

// Check returns what in the ledger contradicts itself: addresses that two
// instances hold, records that are damaged. A ledger that only this program
// changes has no defects.
func (l *Ledger) Check(ctx context.Context) (defects []string, err error) {
	err = l.repository.transact(ctx, false, func(t records) error {
		if defects, err = t.defects(); err != nil {
			return err
		}
		var a network.Reservation // the one before
		return t.all(func(b network.Reservation) {
			if a.Scope == b.Scope && a.Block.Overlaps(b.Block) {
				defects = append(defects, fmt.Sprintf("%s of %s and %s of %s overlap", a.Block, a.Owner, b.Block, b.Owner))
			}
			a = b
		})
	})
	return defects, err
}

// lastOf returns the last address of the block.
func lastOf(block netip.Prefix) netip.Addr { return netipx.PrefixLastIP(block) }

// family returns 4 or 6.
func family(addr netip.Addr) int {
	if addr.Is4() {
		return 4
	}
	return 6
}

// firstBlock returns the lowest block of the length that begins at the address or
// later and ends at the limit or before.
func firstBlock(from, limit netip.Addr, bits int) (netip.Prefix, bool) {
	block := netip.PrefixFrom(from, bits).Masked()
	if block.Addr() != from {
		next := lastOf(block).Next()
		if !next.IsValid() {
			return block, false
		}
		block = netip.PrefixFrom(next, bits)
	}
	return block, block.IsValid() && lastOf(block).Compare(limit) <= 0
}
