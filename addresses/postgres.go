package addresses

import (
	"context"
	"crypto/sha256"
	"database/sql"
	sqldriver "database/sql/driver"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"

	"bootstrap/internal/pgconnect"
	"bootstrap/internal/printable"
	"bootstrap/network"
)

// postgres is the dialect of a ledger that a team shares. Writers lock the row with the
// format, so that they write one after the other. If a program does not take that lock,
// an exclusion constraint refuses overlapping blocks, and the transaction is repeated.
type postgres struct {
	// secrets are texts that messages must not contain.
	secrets []string
	config  *pgconn.Config
}

func openPostgres(ctx context.Context, address string, before func(string)) (*store, error) {
	place, d := placeOf(address), &postgres{secrets: Secrets(address)}
	if _, rest, _ := strings.Cut(address, "://"); strings.Count(rest[:strings.IndexAny(rest+"/", "/?")], "@") > 1 {
		return nil, &Error{Ledger: place, Kind: Failed, Detail: "the user or the password contains @, which is written %40 in a URL"}
	}
	config, err := pgx.ParseConfig(address)
	if err != nil {
		// The error contains a part of the URL.
		return nil, &Error{Ledger: place, Kind: Failed, Detail: "it is not the URL of a PostgreSQL database, such as postgres://user@host/database"}
	}
	if err := pgconnect.Check(address, &config.Config); err != nil {
		return nil, &Error{Ledger: place, Kind: Failed, Detail: err.Error(), Err: err}
	}
	d.config = &config.Config
	if config.Password != "" {
		d.secrets = append(d.secrets, config.Password)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 15 * time.Second
	}
	if config.RuntimeParams["application_name"] == "" {
		config.RuntimeParams["application_name"] = "bootstrap"
	}
	db := stdlib.OpenDB(*config)
	db.SetMaxOpenConns(2)
	s := &store{db: db, dialect: d, place: place, patience: patience, before: before}
	if err := s.transact(ctx, false, func(records) error { return nil }); err != nil {
		db.Close()
		return nil, err
	}
	return s, nil
}

// Place returns the address of a ledger for people: a path as it is, and a URL
// without password and parameters.
func Place(address string) string {
	if !strings.Contains(address, "://") {
		return address
	}
	return placeOf(address)
}

// Argument returns the address of a ledger as an argument of commands. A URL with a
// user is replaced by an ellipsis, because it may contain a password.
func Argument(address string) string {
	if strings.Contains(address, "://") && (strings.Contains(address, "@") || len(Secrets(address)) > 0) {
		return "<…>"
	}
	return printable.ShellWord(address)
}

// Shared returns the address of a ledger in a form that is the same for all its users:
// Place without the user.
func Shared(address string) string {
	place := Place(address)
	if u, err := url.Parse(place); err == nil && u.User != nil {
		u.User = nil
		return u.String()
	}
	return place
}

// placeOf returns the URL without password and parameters.
func placeOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		scheme, _, _ := strings.Cut(address, "://")
		return scheme + "://..."
	}
	host := u.Host
	if host == "" {
		host = u.Query().Get("host")
	}
	place := u.Scheme + "://"
	if name := u.User.Username(); name != "" {
		place += url.User(name).String() + "@"
	}
	return place + host + u.Path
}

// Same reports whether two addresses name the same ledger. Passwords are not compared.
func Same(a, b string) bool { return a == b || withoutPassword(a) == withoutPassword(b) }

// withoutPassword returns the address of a ledger without passwords.
func withoutPassword(address string) string {
	u, err := url.Parse(address)
	if err != nil || !strings.Contains(address, "://") {
		return address
	}
	u.User = url.User(u.User.Username())
	query := u.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Del(name)
		}
	}
	u.RawQuery = query.Encode()
	return u.String()
}

// Secrets returns the passwords in the address of a ledger, both as written and
// decoded. A path contains none.
func Secrets(address string) []string {
	if !strings.Contains(address, "://") {
		return nil
	}
	var secrets []string
	add := func(text string) {
		secrets = append(secrets, text)
		for _, unescape := range []func(string) (string, error){url.PathUnescape, url.QueryUnescape} {
			if plain, err := unescape(text); err == nil {
				secrets = append(secrets, plain)
			}
		}
	}
	_, rest, _ := strings.Cut(address, "://")
	before, query, _ := strings.Cut(rest, "?")
	if end := strings.LastIndex(before, "@"); end >= 0 {
		_, password, _ := strings.Cut(before[:end], ":")
		add(password)
	}
	for part := range strings.SplitSeq(query, "&") {
		if name, value, _ := strings.Cut(part, "="); strings.Contains(strings.ToLower(name), "password") {
			add(value)
		}
	}
	slices.Sort(secrets)
	return slices.DeleteFunc(slices.Compact(secrets), func(secret string) bool { return secret == "" })
}

func (d *postgres) begin(t *transaction) error {
	if !t.write {
		return t.exec("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
	}
	// A machine that is suspended during a transaction must not block the others.
	return t.exec("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE; SET LOCAL idle_in_transaction_session_timeout = '30s'")
}

func (d *postgres) commit(t *transaction) error {
	err := t.exec("COMMIT")
	if err != nil && state(err) == "" {
		return &Error{Ledger: t.store.place, Kind: Unreachable, Detail: "the connection broke during a commit; it is unknown whether the commit succeeded", Err: err}
	}
	return err
}

// ready creates the tables if they do not exist, waits for other writers, and reports
// whether this version can use the tables.
func (d *postgres) ready(t *transaction) error {
	var found int64
	exists, err := t.number("SELECT count(*) FROM pg_catalog.pg_class WHERE oid = to_regclass('bootstrap_address_format')")
	if err != nil {
		return err
	}
	if exists == 0 {
		return d.create(t)
	}
	lock := ""
	if t.write {
		lock = " FOR UPDATE"
	}
	if found, err = t.number("SELECT format FROM bootstrap_address_format" + lock); err != nil {
		return err
	}
	if found != Format {
		kind, detail := Newer, fmt.Sprintf("it has the format %d of a newer version of bootstrap, and this version knows the format %d", found, Format)
		if found < Format {
			kind, detail = Corrupt, "its tables are those of another program, or damaged"
		}
		return &Error{Ledger: t.store.place, Kind: kind, Detail: detail}
	}
	return nil
}

// create creates the tables in a transaction of its own; the caller then tries again.
func (d *postgres) create(t *transaction) error {
	t.rollback()
	if err := t.exec(fmt.Sprintf(`BEGIN;
		SELECT pg_advisory_xact_lock(%d);
		CREATE TABLE IF NOT EXISTS bootstrap_addresses (
			scope text NOT NULL,
			scope_key bigint NOT NULL,
			family smallint NOT NULL,
			first inet NOT NULL,
			last inet NOT NULL,
			block cidr NOT NULL,
			gap_after smallint NOT NULL,
			deployment text NOT NULL,
			deployment_name text NOT NULL,
			instance text NOT NULL,
			network text NOT NULL,
			kind text NOT NULL,
			vm text NOT NULL,
			since timestamptz NOT NULL,
			run text NOT NULL,
			PRIMARY KEY (scope, family, first),
			EXCLUDE USING gist (block inet_ops WITH &&, int8range(scope_key, scope_key, '[]') WITH &&)
		);
		CREATE INDEX IF NOT EXISTS bootstrap_addresses_by_gap ON bootstrap_addresses (scope, family, last) WHERE gap_after = 1;
		CREATE INDEX IF NOT EXISTS bootstrap_addresses_by_owner ON bootstrap_addresses (deployment, instance);
		CREATE TABLE IF NOT EXISTS bootstrap_address_format (one boolean PRIMARY KEY DEFAULT true CHECK (one), format integer NOT NULL);
		INSERT INTO bootstrap_address_format (format) VALUES (%d) ON CONFLICT DO NOTHING;
		COMMIT`, applicationID, Format)); err != nil {
		return err
	}
	return errAgain
}

// errAgain makes the caller repeat the transaction.
var errAgain = errors.New("the tables were just created")

func (d *postgres) prepares() bool      { return false }
func (d *postgres) excludes() bool      { return true }
func (d *postgres) table() string       { return "bootstrap_addresses" }
func (d *postgres) placeholder() string { return "$" }

func (d *postgres) address(addr netip.Addr) any { return addr }
func (d *postgres) time(t time.Time) any        { return t }

// extra are columns for the exclusion constraint. The number of the scope is a
// range there: equality of texts would need an extension, which not every user
// may install.
func (d *postgres) extra() []string { return []string{"scope_key", "block"} }

func (d *postgres) extras(r network.Reservation) []any {
	return []any{scopeKey(r.Scope), r.Block.String()}
}

func scopeKey(scope string) int64 {
	sum := sha256.Sum256([]byte(scope))
	return int64(binary.BigEndian.Uint64(sum[:8]) >> 2)
}

func (d *postgres) verify(network.Reservation, []any) error { return nil }

func (d *postgres) defects(*transaction) ([]string, error) { return nil, nil }

// state returns the SQLSTATE, or "".
func state(err error) string {
	var e *pgconn.PgError
	if !errors.As(err, &e) {
		return ""
	}
	return e.Code
}

func (d *postgres) again(err error) bool {
	switch state(err) {
	case "23P01", "23505", "40001", "40P01": // another transaction was faster: exclusion, unique, serialization, deadlock
		return true
	}
	return errors.Is(err, errAgain)
}

// stateKind is the meaning of all SQLSTATEs with a prefix.
type stateKind struct {
	prefix string
	kind   Kind
}

// kinds lists the prefixes; the first match counts.
var kinds = []stateKind{
	{"25006", ReadOnly},
	{"42501", Denied}, {"3D000", Denied}, {"28", Denied},
	{"53100", Full},
	{"XX", Corrupt},
	{"55P03", Busy},
	{"08", Unreachable}, {"57P", Unreachable}, {"53", Unreachable},
	{"", Failed},
}

func (d *postgres) explain(err error) (Kind, string) {
	if refused := pgconnect.Refused(err, d.config); refused != nil {
		return Failed, refused.Error()
	}
	if code := state(err); code != "" {
		i := slices.IndexFunc(kinds, func(k stateKind) bool { return strings.HasPrefix(code, k.prefix) })
		return kinds[i].kind, d.detail(err)
	}
	var network *net.OpError
	var connect *pgconn.ConnectError
	if broke(err) || errors.As(err, &connect) || errors.As(err, &network) || errors.Is(err, net.ErrClosed) || errors.Is(err, sql.ErrConnDone) {
		return Unreachable, d.detail(err)
	}
	return Failed, d.detail(err)
}

// broke reports whether a connection ended before its answer.
func broke(err error) bool {
	return errors.Is(err, sqldriver.ErrBadConn) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

// detail returns the cause on one line and without secrets.
func (d *postgres) detail(err error) string {
	if broke(err) {
		return "the connection broke"
	}
	if down := pgconnect.Unreachable(err, d.config); down != nil {
		return down.Error()
	}
	detail := err.Error()
	var e *pgconn.PgError
	if errors.As(err, &e) {
		detail = fmt.Sprintf("%s (SQLSTATE %s)", e.Message, e.Code)
	}
	for _, secret := range d.secrets {
		if len(secret) < 4 {
			continue // it is part of too many words
		}
		detail = strings.ReplaceAll(detail, secret, "xxxxx")
	}
	// It has a line for each attempt: with TLS and without, for each address.
	var lines []string
	for line := range strings.Lines(detail) {
		if line = strings.Join(strings.Fields(line), " "); !slices.Contains(lines, line) {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, " ")
}
