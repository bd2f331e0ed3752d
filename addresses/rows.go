package addresses

import (
	"cmp"
	"database/sql"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"go4.org/netipx"

	"bootstrap/network"
)

// number returns the number that is the result of a query.
func (t *transaction) number(text string, args ...any) (n int64, err error) {
	rows, err := t.rows(text, args...)
	if err != nil {
		return 0, err
	}
	defer rows.Close()
	if !rows.Next() {
		return 0, cmp.Or(rows.Err(), sql.ErrNoRows)
	}
	if err := rows.Scan(&n); err != nil {
		return 0, err
	}
	return n, rows.Close()
}

// columns are the columns of a row, without gap_after and the extra ones of the
// dialect.
func columns() []string {
	return []string{"scope", "family", "first", "last", "deployment", "deployment_name", "instance", "network", "kind", "vm", "since", "run"}
}

func (t *transaction) values(r network.Reservation) []any {
	d := t.store.dialect
	return append([]any{r.Scope, family(r.Block.Addr()), d.address(r.Block.Addr()), d.address(lastOf(r.Block)),
		r.Owner.Deployment, r.Owner.Name, r.Owner.Instance, r.Network, string(r.Kind), r.VM, d.time(r.Since), r.Run}, d.extras(r)...)
}

// query returns the reservations that a query selects. text is the rest of the query
// after the name of the table.
func (t *transaction) query(text string, args ...any) (list []network.Reservation, err error) {
	err = t.each(func(r network.Reservation) { list = append(list, r) }, text, args...)
	return list, err
}

// each calls do with each of the reservations that a query selects.
func (t *transaction) each(do func(network.Reservation), text string, args ...any) error {
	d := t.store.dialect
	names := append(columns(), d.extra()...)
	rows, err := t.rows("SELECT "+strings.Join(names, ", ")+" FROM {} "+text, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	extras := make([]any, len(d.extra()))
	var r network.Reservation
	var of int
	var first, last, since any
	into := []any{&r.Scope, &of, &first, &last, &r.Owner.Deployment, &r.Owner.Name, &r.Owner.Instance, &r.Network, &r.Kind, &r.VM, &since, &r.Run}
	for i := range extras {
		into = append(into, &extras[i])
	}
	for rows.Next() {
		if err := rows.Scan(into...); err != nil {
			return err
		}
		block, ok := netipx.IPRangeFrom(addressOf(first, of), addressOf(last, of)).Prefix()
		if !ok {
			return t.damaged(fmt.Errorf("the record from %v to %v is not a block", addressOf(first, of), addressOf(last, of)))
		}
		r.Block, r.Since = block, timeOf(since)
		if err := d.verify(r, extras); err != nil {
			return t.damaged(err)
		}
		do(r)
	}
	return rows.Err()
}

func (t *transaction) damaged(err error) error {
	return &Error{Ledger: t.store.place, Kind: Corrupt, Detail: err.Error(), Err: err}
}

// addressOf reads an address that a database returns as text or as 16 bytes.
func addressOf(value any, family int) netip.Addr {
	switch value := value.(type) {
	case []byte:
		addr, _ := netip.AddrFromSlice(value)
		if family == 4 && addr.Is4In6() {
			return addr.Unmap()
		}
		return addr
	case string:
		addr, _ := netip.ParseAddr(strings.TrimSuffix(strings.TrimSuffix(value, "/32"), "/128"))
		return addr
	}
	return netip.Addr{}
}

// timeOf reads a time that a database returns as a time or in milliseconds.
func timeOf(value any) time.Time {
	switch value := value.(type) {
	case int64:
		return time.UnixMilli(value).UTC()
	case time.Time:
		return value.UTC()
	}
	return time.Time{}
}

func (t *transaction) list(filter Filter) ([]network.Reservation, error) {
	var where []string
	var args []any
	for _, field := range []struct{ column, want string }{
		{"scope", filter.Scope}, {"deployment", filter.Deployment}, {"network", filter.Network},
		{"vm", filter.VM}, {"run", filter.Run},
	} {
		if field.want != "" {
			args = append(args, field.want)
			where = append(where, fmt.Sprintf("%s = ?%d", field.column, len(args)))
		}
	}
	if filter.Within.IsValid() {
		first, last := filter.Within.Masked().Addr(), lastOf(filter.Within)
		args = append(args, family(first), t.store.dialect.address(first), t.store.dialect.address(last))
		where = append(where, fmt.Sprintf("family = ?%d AND last >= ?%d AND first <= ?%d", len(args)-2, len(args)-1, len(args)))
	}
	text := ""
	if len(where) > 0 {
		text = "WHERE " + strings.Join(where, " AND ")
	}
	// Growing a slice, and copying each name for each reservation, would need twice the
	// memory.
	var list []network.Reservation
	if filter.Deployment == "" {
		n, err := t.number("SELECT count(*) FROM {} "+text, args...)
		if err != nil {
			return nil, err
		}
		list = make([]network.Reservation, 0, n)
	}
	names := map[string]string{}
	err := t.each(func(r network.Reservation) {
		for _, name := range []*string{&r.Scope, &r.Owner.Name, &r.Owner.Deployment, &r.Owner.Instance, &r.Network, (*string)(&r.Kind), &r.Run} {
			if known, ok := names[*name]; ok {
				*name = known
			} else if len(names) < 1000 {
				names[*name] = *name
			}
		}
		list = append(list, r)
	}, text+" ORDER BY scope, family, first", args...)
	return list, err
}

func (t *transaction) all(do func(network.Reservation)) error {
	return t.each(do, "ORDER BY scope, family, first")
}

func (t *transaction) insert(r network.Reservation) error {
	d := t.store.dialect
	first, last := r.Block.Addr(), lastOf(r.Block)
	if !d.excludes() {
		holder, found, err := t.Overlapping(r.Scope, first, last)
		if err != nil {
			return err
		}
		if found {
			return inUse(r, holder)
		}
	}
	gap := 1
	if next := last.Next(); !next.IsValid() {
		gap = 0
	} else if n, err := t.number("SELECT count(*) FROM {} WHERE scope = ?1 AND family = ?2 AND first = ?3", r.Scope, family(next), d.address(next)); err != nil {
		return err
	} else if n > 0 {
		gap = 0
	}
	names := append(append(columns(), d.extra()...), "gap_after")
	args := append(t.values(r), gap)
	numbers := make([]string, len(args))
	for i := range args {
		numbers[i] = fmt.Sprintf("?%d", i+1)
	}
	if err := t.exec("INSERT INTO {} ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(numbers, ", ")+")", args...); err != nil {
		return err
	}
	return t.gapBefore(r, 0)
}

func (t *transaction) update(r network.Reservation) error {
	names := append(columns(), t.store.dialect.extra()...)
	args := t.values(r)
	var set []string
	for i, name := range names {
		set = append(set, fmt.Sprintf("%s = ?%d", name, i+1))
	}
	return t.exec("UPDATE {} SET "+strings.Join(set[4:], ", ")+" WHERE "+strings.Join(set[:4], " AND "), args...)
}

func (t *transaction) remove(r network.Reservation) error {
	if err := t.exec("DELETE FROM {} WHERE scope = ?1 AND family = ?2 AND first = ?3", r.Scope, family(r.Block.Addr()), t.store.dialect.address(r.Block.Addr())); err != nil {
		return err
	}
	return t.gapBefore(r, 1)
}

func (t *transaction) defects() ([]string, error) {
	defects, err := t.store.dialect.defects(t)
	if err != nil {
		return nil, err
	}
	rows, err := t.rows("SELECT scope, family, first, last, gap_after FROM {} ORDER BY scope, family, first")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	type row struct {
		scope       string
		family      int
		first, last netip.Addr
		gap         bool
	}
	var last *row
	check := func(next *row) {
		if last == nil || !last.last.Next().IsValid() {
			return
		}
		gap := next == nil || next.scope != last.scope || next.family != last.family || next.first != last.last.Next()
		if gap != last.gap {
			defects = append(defects, fmt.Sprintf("the record of %s says wrongly whether the next address is free", last.first))
		}
	}
	for rows.Next() {
		var r row
		var first, end any
		var gap int
		if err := rows.Scan(&r.scope, &r.family, &first, &end, &gap); err != nil {
			return nil, err
		}
		r.first, r.last, r.gap = addressOf(first, r.family), addressOf(end, r.family), gap == 1
		check(&r)
		last = &r
	}
	check(nil)
	return defects, rows.Err()
}
