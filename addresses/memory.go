package addresses

import (
	"context"
	"maps"
	"net/netip"
	"slices"
	"sync"

	"go4.org/netipx"

	"bootstrap/network"
)

// memory is a repository for one run.
type memory struct {
	mu sync.Mutex
	// reservations are sorted by address, for each scope; the lists are replaced and
	// never changed.
	reservations map[string][]network.Reservation
	released     []network.Reservation // the oldest release first
}

func (m *memory) close() error { return nil }

func (m *memory) transact(ctx context.Context, _ bool, do func(records) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	reservations, released := maps.Clone(m.reservations), m.released
	err := do(m)
	if err != nil {
		m.reservations, m.released = reservations, released
	}
	return err
}

// position returns the index of the first reservation in the list that ends at or after
// the address.
func position(list []network.Reservation, addr netip.Addr) int {
	i, _ := slices.BinarySearchFunc(list, addr, func(r network.Reservation, addr netip.Addr) int {
		return lastOf(r.Block).Compare(addr)
	})
	return i
}

func (m *memory) Overlapping(scope string, first, last netip.Addr) (network.Reservation, bool, error) {
	list := m.reservations[scope]
	i := position(list, first)
	if i == len(list) || list[i].Block.Addr().Compare(last) > 0 {
		return network.Reservation{}, false, nil
	}
	return list[i], true, nil
}

func (m *memory) LowestFree(scope string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error) {
	// Released addresses are given out last, the oldest release first: the search first
	// treats all of them as used, and then fewer and fewer.
	for kept := range len(m.released) + 1 {
		var avoided []netip.Prefix
		for _, r := range m.released[kept:] {
			if r.Scope == scope {
				avoided = append(avoided, r.Block)
			}
		}
		if block, found := m.lowest(scope, in, bits, avoided); found {
			return block, true, nil
		}
	}
	return netip.Prefix{}, false, nil
}

func (m *memory) lowest(scope string, in []netipx.IPRange, bits int, avoided []netip.Prefix) (netip.Prefix, bool) {
	for _, r := range in {
		from := r.From()
		for {
			block, fits := firstBlock(from, r.To(), bits)
			if !fits {
				break
			}
			end := netip.Addr{}
			if held, found, _ := m.Overlapping(scope, block.Addr(), lastOf(block)); found {
				end = lastOf(held.Block)
			} else if i := slices.IndexFunc(avoided, block.Overlaps); i >= 0 {
				end = lastOf(avoided[i])
			} else {
				return block, true
			}
			if from = end.Next(); !from.IsValid() {
				break
			}
		}
	}
	return netip.Prefix{}, false
}

func (m *memory) list(filter Filter) ([]network.Reservation, error) {
	var all []network.Reservation
	for _, scope := range slices.Sorted(maps.Keys(m.reservations)) {
		for _, r := range m.reservations[scope] {
			if filter.selects(r) {
				all = append(all, r)
			}
		}
	}
	return all, nil
}

func (m *memory) all(do func(network.Reservation)) error {
	list, err := m.list(Filter{})
	for _, r := range list {
		do(r)
	}
	return err
}

func (m *memory) insert(r network.Reservation) error {
	m.add(r)
	m.released = slices.DeleteFunc(slices.Clone(m.released), func(old network.Reservation) bool {
		return old.Scope == r.Scope && old.Block.Overlaps(r.Block)
	})
	return nil
}

func (m *memory) add(r network.Reservation) {
	list := m.reservations[r.Scope]
	m.reservations[r.Scope] = slices.Insert(slices.Clone(list), position(list, r.Block.Addr()), r)
}

func (m *memory) update(r network.Reservation) error {
	list := slices.Clone(m.reservations[r.Scope])
	list[position(list, r.Block.Addr())] = r
	m.reservations[r.Scope] = list
	return nil
}

func (m *memory) remove(r network.Reservation) error {
	m.reservations[r.Scope] = slices.DeleteFunc(slices.Clone(m.reservations[r.Scope]), func(other network.Reservation) bool { return other.Block == r.Block })
	m.released = append(slices.Clip(m.released), r)
	return nil
}

func (m *memory) defects() ([]string, error) { return nil, nil }
