package addresses

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"time"

	"bootstrap/internal/pgconnect"
	"bootstrap/internal/wait"
	"bootstrap/network"
)

// Format is the number of the tables' format. A ledger with a higher one was
// written by a newer version of this program.
const Format = 1

// patience is how long a transaction waits for other transactions, and longest how long
// it may take itself.
const (
	patience = time.Minute
	longest  = 10 * time.Minute
)

// store is a repository in a database. Each row is a reservation with its first and
// last address, so that overlaps are found by comparing numbers. gap_after is 1 if the
// address after the last one is free: an index of these rows leads from gap to gap,
// past any number of reservations in between.
type store struct {
	db      *sql.DB
	dialect dialect
	place   string // address for messages; without a password
	// patience is how long a transaction waits for other transactions.
	patience time.Duration
	before   func(statement string) // called before each statement
}

// dialect contains the differences between the databases.
type dialect interface {
	// begin begins a transaction; a write transaction keeps others from writing.
	begin(t *transaction) error
	commit(t *transaction) error
	// ready returns an error if the database is not the ledger that was opened.
	ready(t *transaction) error
	table() string
	// prepares reports whether the store must prepare statements; some drivers do it
	// themselves.
	prepares() bool
	placeholder() string
	// excludes reports whether the database itself refuses blocks that overlap.
	excludes() bool
	address(netip.Addr) any
	time(time.Time) any
	// extra returns the names of additional columns, and extras their values.
	extra() []string
	extras(network.Reservation) []any
	// verify reports whether the extra columns belong to the reservation.
	verify(r network.Reservation, extras []any) error
	// defects returns the damage that the database itself finds in its tables.
	defects(t *transaction) ([]string, error)
	// explain translates an error of the database.
	explain(error) (Kind, string)
	// again reports whether a transaction failed with the error only because of another
	// transaction, and must be repeated.
	again(error) bool
}

func (s *store) close() error { return s.db.Close() }

func (s *store) transact(ctx context.Context, write bool, do func(records) error) error {
	limit, cancel := context.WithTimeout(ctx, s.patience)
	defer cancel()
	pauses := wait.Jitter(2*time.Millisecond, 100*time.Millisecond)
	for {
		err := s.attempt(ctx, limit, write, do)
		if err == nil || !s.dialect.again(err) || wait.For(limit, pauses.Next()) != nil {
			return s.failed(ctx, limit, err)
		}
	}
}

// failed translates an error of the database for people.
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
	if d, ok := s.dialect.(*postgres); ok {
		if refused := pgconnect.Refused(err, d.config); refused != nil {
			err = refused
		}
	}
	return &Error{Ledger: s.place, Kind: kind, Detail: detail, Err: err}
}

// attempt runs the transaction; limit ends the wait for others.
func (s *store) attempt(ctx, limit context.Context, write bool, do func(records) error) (err error) {
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
	// If do panics, the transaction must be rolled back.
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

// transaction gives access to the records of a store within a transaction.
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

// rollback rolls the transaction back. If that fails, the connection is discarded.
func (t *transaction) rollback() {
	t.forget()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), 5*time.Second)
	defer cancel()
	if _, err := t.conn.ExecContext(ctx, t.statement("ROLLBACK")); err != nil {
		_ = t.conn.Raw(func(any) error { return driver.ErrBadConn })
	}
}

// statement replaces {} by the table's name, and ?1, ?2, … by the database's
// placeholders.
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
