package addresses

import (
	"net/netip"

	"go4.org/netipx"

	"bootstrap/network"
)

// gapsAtOnce is how many gaps between reservations one query returns.
const gapsAtOnce = 256

func (t *transaction) Overlapping(scope string, first, last netip.Addr) (network.Reservation, bool, error) {
	d := t.store.dialect
	// Reservations do not overlap: of those that begin before the address, only the
	// last one can contain it.
	list, err := t.query("WHERE scope = ?1 AND family = ?2 AND first <= ?3 ORDER BY scope DESC, family DESC, first DESC LIMIT 1", scope, family(first), d.address(first))
	if err != nil {
		return network.Reservation{}, false, err
	}
	if len(list) == 0 || lastOf(list[0].Block).Less(first) {
		list, err = t.query("WHERE scope = ?1 AND family = ?2 AND first > ?3 AND first <= ?4 ORDER BY scope, family, first LIMIT 1", scope, family(first), d.address(first), d.address(last))
	}
	if err != nil || len(list) == 0 {
		return network.Reservation{}, false, err
	}
	return list[0], true, nil
}

func (t *transaction) LowestFree(scope string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error) {
	for _, r := range in {
		block, found, err := t.lowestFree(scope, r, bits)
		if err != nil || found {
			return block, found, err
		}
	}
	return netip.Prefix{}, false, nil
}

func (t *transaction) lowestFree(scope string, in netipx.IPRange, bits int) (netip.Prefix, bool, error) {
	block, fits := firstBlock(in.From(), in.To(), bits)
	if !fits {
		return netip.Prefix{}, false, nil
	}
	_, taken, err := t.Overlapping(scope, block.Addr(), lastOf(block))
	if err != nil || !taken {
		return block, !taken, err
	}
	for from := block.Addr(); ; {
		gaps, more, err := t.gaps(scope, from, in.To())
		if err != nil {
			return netip.Prefix{}, false, err
		}
		for _, gap := range gaps {
			if block, fits := firstBlock(gap.From(), gap.To(), bits); fits {
				return block, true, nil
			}
		}
		if !more.IsValid() {
			return netip.Prefix{}, false, nil
		}
		from = more
	}
}

// gaps returns the next unreserved ranges, up to limit, that follow a reservation which
// ends at or after from. more is the address to continue from, or the zero Addr.
func (t *transaction) gaps(scope string, from, limit netip.Addr) (gaps []netipx.IPRange, more netip.Addr, err error) {
	d := t.store.dialect
	rows, err := t.rows(`SELECT last, (SELECT first FROM {} AS n
		WHERE n.scope = e.scope AND n.family = e.family AND n.first > e.last ORDER BY n.scope, n.family, n.first LIMIT 1)
		FROM {} AS e WHERE scope = ?1 AND family = ?2 AND gap_after = 1 AND last >= ?3 AND last < ?4 ORDER BY scope, family, last LIMIT ?5`, scope, family(from), d.address(from), d.address(limit), gapsAtOnce)
	if err != nil {
		return nil, more, err
	}
	defer rows.Close()
	for n := 1; rows.Next(); n++ {
		var end, next any
		if err := rows.Scan(&end, &next); err != nil {
			return nil, more, err
		}
		to := limit
		if next != nil {
			if to = addressOf(next, family(from)).Prev(); limit.Less(to) {
				to = limit
			}
		}
		begin := addressOf(end, family(from)).Next()
		// Another program may have marked a record wrongly.
		if gap := netipx.IPRangeFrom(begin, to); gap.IsValid() {
			gaps = append(gaps, gap)
		}
		if n == gapsAtOnce {
			more = begin
		}
	}
	return gaps, more, rows.Err()
}

// gapBefore records whether the address before the reservation is free, in the
// reservation that ends before that address.
func (t *transaction) gapBefore(r network.Reservation, gap int) error {
	before := r.Block.Addr().Prev()
	if !before.IsValid() {
		return nil
	}
	d := t.store.dialect
	return t.exec(`UPDATE {} SET gap_after = ?1 WHERE scope = ?2 AND family = ?3 AND last = ?4 AND first =
		(SELECT first FROM {} AS b WHERE b.scope = ?2 AND b.family = ?3 AND b.first <= ?4 ORDER BY b.scope DESC, b.family DESC, b.first DESC LIMIT 1)`,
		gap, r.Scope, family(before), d.address(before))
}
