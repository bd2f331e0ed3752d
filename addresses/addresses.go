// Package addresses is the ledger of reserved addresses: which instance of which
// deployment holds which address. A ledger is in memory, in an SQLite database on
// this machine, or in a PostgreSQL database that a team shares; package network
// decides which addresses an instance gets.
package addresses

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"bootstrap/network"
)

// Ledger contains the reservations of all deployments that share it. Several goroutines
// may call its methods at the same time, and so may several programs unless it is in
// memory.
type Ledger struct {
	repository repository
	clock      func() time.Time
	// own is the repository of a ledger in memory, which no other deployment shares.
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

// records gives access to the reservations in a transaction.
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
	// defects returns the contradictions among the records.
	defects() ([]string, error)
}

// Open opens the ledger at the address: a postgres:// URL, or the path of an SQLite
// database, which is created if it does not exist. The errors of a database are of type
// *Error. clock returns the time of new reservations.
func Open(ctx context.Context, address string, clock func() time.Time) (*Ledger, error) {
	return open(ctx, address, clock, func(string) {})
}

// open is like Open, and calls before ahead of each statement.
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

// Memory returns a ledger of one deployment for one run. held are the reservations of the
// deployment's instances, according to its state and its agents; released are those that
// the instances have given up, the oldest release first. Each network is a scope of its
// own. Held addresses cannot be reserved again, not even by their instance. Released
// addresses are given out last.
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

// Released returns the reservations that were released and not made again, the oldest
// release first. Only a ledger in memory records released reservations.
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

// now returns the time in the precision of all ledgers: milliseconds.
func (l *Ledger) now() time.Time { return l.clock().UTC().Truncate(time.Millisecond) }

// List returns the selected reservations by scope and address, IPv4 first.
func (l *Ledger) List(ctx context.Context, filter Filter) (list []network.Reservation, err error) {
	err = l.repository.transact(ctx, false, func(t records) error {
		list, err = t.list(filter)
		return err
	})
	return list, err
}

// Each calls do with all reservations, by scope and address, IPv4 first, without
// keeping them in memory. do must not use the ledger.
func (l *Ledger) Each(ctx context.Context, do func(network.Reservation)) error {
	return l.repository.transact(ctx, false, func(t records) error { return t.all(do) })
}

// Check returns contradictions in the ledger: addresses that two instances hold, and
// damaged records. A ledger that only this program changes has no contradictions.
func (l *Ledger) Check(ctx context.Context) (defects []string, err error) {
	err = l.repository.transact(ctx, false, func(t records) error {
		if defects, err = t.defects(); err != nil {
			return err
		}
		var a network.Reservation // the previous reservation
		return t.all(func(b network.Reservation) {
			if a.Scope == b.Scope && a.Block.Overlaps(b.Block) {
				defects = append(defects, fmt.Sprintf("%s of %s and %s of %s overlap", a.Block, a.Owner, b.Block, b.Owner))
			}
			a = b
		})
	})
	return defects, err
}
