package addresses

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"go4.org/netipx"

	"bootstrap/internal/wait"
	"bootstrap/network"
)

// format is the number of the tables' format. A ledger with a higher one was
// written by a newer version of this program.
const format = 1

// patience is how long transactions wait for those of others, and longest how long
// they may take themselves.
const (
	patience = time.Minute
	longest  = 10 * time.Minute
)

// gapsAtOnce is how many gaps between reservations one query returns.
const gapsAtOnce = 256

// store is a repository in a database.
//
// A row of the table is a reservation: its first and last address, so that
// overlaps are found by numbers. gap_after is 1 if the address after the last one
// is free. An index of those rows leads from one gap to the next past all
// reservations in between, however many there are.
type store struct {
	db      *sql.DB
	dialect dialect
	place   string // for messages; without a password
	// patience is how long a transaction waits for those of others.
	patience time.Duration
	before   func(statement string) // called before each one
}

// dialect is what differs between the databases.
type dialect interface {
	// begin begins a transaction; a write transaction keeps others from writing.
	begin(t *transaction) error
	commit(t *transaction) error
	// ready reports why the database is not the ledger that was opened.
	ready(t *transaction) error
	table() string
	// prepares reports whether to prepare statements: those who keep prepared ones
	// by themselves need not.
	prepares() bool
	placeholder() string
	// excludes reports whether the database itself refuses blocks that overlap.
	excludes() bool
	address(netip.Addr) any
	time(time.Time) any
	// extra returns the names of more columns, and extras their values.
	extra() []string
	extras(network.Reservation) []any
	// verify reports whether the extra columns belong to the reservation.
	verify(r network.Reservation, extras []any) error
	// defects returns what the database itself finds wrong with its tables.
	defects(t *transaction) ([]string, error)
	// explain says what an error of the database means.
	explain(error) (Kind, string)
	// again reports whether a transaction that failed with the error is to be
	// tried again, because of another transaction.
	again(error) bool
}

func (s *store) close() error { return s.db.Close() }

func (s *store) transact(ctx context.Context, write bool, do func(records) error) error {
	limit, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	pauses := wait.Jitter(2*time.Millisecond, 100*time.Millisecond)
	for {
		err := s.once(ctx, limit, write, do)
		if err == nil || !s.dialect.again(err) || wait.For(limit, pauses.Next()) != nil {
			return s.failed(ctx, limit, err)
		}
	}
}

// failed makes an error of the database one for people.
func (s *store) failed(ctx, limit context.Context, err error) error {
	var refused *network.Refused
	var already *Error
	switch {
	case err == nil || errors.As(err, &refused) || errors.As(err, &already):
		return err
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.dialect.again(err), limit.Err() != nil && errors.Is(err, context.DeadlineExceeded):
		return &Error{Ledger: s.place, Kind: Busy, Detail: fmt.Sprintf("others have used it for %s", s.patience), Err: err}
	}
	kind, detail := s.dialect.explain(err)
	return &Error{Ledger: s.place, Kind: kind, Detail: detail, Err: err}
}

// once does the transaction; limit ends the wait for others.
func (s *store) once(ctx, limit context.Context, write bool, do func(records) error) (err error) {
	conn, err := s.db.Conn(limit)
	if err != nil {
		return err
	}
	defer conn.Close()
	t := &transaction{ctx: limit, conn: conn, store: s, write: write, prepared: map[string]*sql.Stmt{}}
	defer t.forget()
	if err := s.dialect.begin(t); err != nil {
		if !s.dialect.again(err) {
			t.rollback()
		}
		return err
	}
	// If do panics, the transaction must not stay open.
	ended := false
	defer func() {
		if !ended {
			t.rollback()
		}
	}()
	if err := s.dialect.ready(t); err != nil {
		return err
	}
	working, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	t.ctx = working
	if err := do(t); err != nil {
		return err
	}
	if err := s.dialect.commit(t); err != nil {
		return err
	}
	ended = true
	return nil
}

// transaction is the records of a store in a transaction.
type transaction struct {
	ctx   context.Context
	conn  *sql.Conn
	store *store
	write bool
	// prepared are its statements, by text.
	prepared map[string]*sql.Stmt
}

// forget closes the prepared statements, while their connection is open.
func (t *transaction) forget() {
	for _, stmt := range t.prepared {
		stmt.Close()
	}
	clear(t.prepared)
}

// rollback ends the transaction. If that fails the connection is not used again.
func (t *transaction) rollback() {
	t.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 5*time.Second)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, t.statement("ROLLBACK")); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// statement replaces {} and ?1, ?2, … by what the database wants.
func (t *transaction) statement(text string) string {
	d := t.store.dialect
	text = strings.NewReplacer("{}", d.table(), "?", d.placeholder()).Replace(text)
	t.store.before(text)
	return text
}

func (t *transaction) exec(text string, args ...any) error {
	text = t.statement(text)
	if len(args) == 0 || !t.store.dialect.prepares() {
		_, err := t.conn.ExecContext(t.ctx, text, args...)
		return err
	}
	stmt, err := t.prepare(text)
	if err == nil {
		_, err = stmt.ExecContext(t.ctx, args...)
	}
	return err
}

// rows begins a query.
func (t *transaction) rows(text string, args ...any) (*sql.Rows, error) {
	text = t.statement(text)
	if len(args) == 0 || !t.store.dialect.prepares() {
		return t.conn.QueryContext(t.ctx, text, args...)
	}
	stmt, err := t.prepare(text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(t.ctx, args...)
}

// prepare returns a statement that is prepared once in a transaction.
func (t *transaction) prepare(text string) (*sql.Stmt, error) {
	if stmt, ok := t.prepared[text]; ok {
		return stmt, nil
	}
	stmt, err := t.conn.PrepareContext(t.ctx, text)
	if err == nil {
		t.prepared[text] = stmt
	}
	return stmt, err
}

// number returns the number that a query answers with.
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

// columns are those of a row, but for gap_after and those of the dialect.
func columns() []string {
	return []string{"scope", "family", "first", "last", "deployment", "deployment_name", "instance", "network", "kind", "vm", "since", "run"}
}

func (t *transaction) values(r network.Reservation) []any {
	d := t.store.dialect
	return append([]any{r.Scope, family(r.Block.Addr()), d.address(r.Block.Addr()), d.address(lastOf(r.Block)),
		r.Owner.Deployment, r.Owner.Name, r.Owner.Instance, r.Network, string(r.Kind), r.VM, d.time(r.Since), r.Run}, d.extras(r)...)
}

// query returns the reservations that a query selects; text is what follows the
// name of the table.
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
			return t.damaged(fmt.Errorf("the record of %v to %v is not of a block", addressOf(first, of), addressOf(last, of)))
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

// addressOf returns the address that a database has as text or as 16 bytes.
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

// timeOf returns the time that a database has as such or in milliseconds.
func timeOf(value any) time.Time {
	switch value := value.(type) {
	case int64:
		return time.UnixMilli(value).UTC()
	case time.Time:
		return value.UTC()
	}
	return time.Time{}
}

func (t *transaction) Overlapping(scope string, first, last netip.Addr) (network.Reservation, bool, error) {
	d := t.store.dialect
	// Reservations do not overlap each other: of those that begin before, only the
	// last one can.
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

// gaps returns the next ranges without reservations that begin behind a
// reservation which ends at from or later; they end at the limit. more is where to
// go on, or the zero Addr.
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
		// A record that another program made may be marked wrongly.
		if gap := netipx.IPRangeFrom(begin, to); gap.IsValid() {
			gaps = append(gaps, gap)
		}
		if n == gapsAtOnce {
			more = begin
		}
	}
	return gaps, more, rows.Err()
}

func (t *transaction) list(filter Filter) ([]network.Reservation, error) {
	var where []string
	var args []any
	for _, field := range []struct{ column, want string }{
		{"scope", filter.Scope}, {"deployment", filter.Deployment}, {"instance", filter.Instance},
		{"network", filter.Network}, {"vm", filter.VM}, {"run", filter.Run},
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
	// A slice that grows, and a copy of each name for each reservation, would need
	// twice the memory.
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

// gapBefore records whether the address before the reservation is free, if the
// one before that belongs to another reservation.
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
			defects = append(defects, fmt.Sprintf("the record of %s says whether the next address is free, and is wrong", last.first))
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
