// Package queue updates the members of a fleet on several machines. One coordinator
// decides which member starts next; workers on any number of machines start them. They
// share a PostgreSQL database: River assigns each start to one worker, and a table of
// this package records its worker, its progress and its result.
//
// A start belongs to its worker only while the worker reports in time. After that the
// member is started again elsewhere, and later reports of the first worker are refused:
// each start has a number, and only one start of a member is open at a time.
package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"bootstrap/addresses"
	"bootstrap/internal/pgconnect"
)

// The times of a run on several machines. Only the database's clock is compared between
// machines.
const (
	// beatEvery is how often coordinators and workers report that they are alive.
	beatEvery = 10 * time.Second
	// deadAfter is how long after its last report a worker loses its members. A worker
	// that is killed is noticed within a minute.
	deadAfter = 55 * time.Second
	// lookEvery is how often a coordinator looks at the state of its members.
	lookEvery = 200 * time.Millisecond
	// askEvery is how often a worker looks for requests to end.
	askEvery = time.Second
	// patience limits each exchange with the database.
	patience = 15 * time.Second
	// longestPause is the longest time between two attempts to reach it.
	longestPause = 10 * time.Second
)

// database is a PostgreSQL database with the tables of this package.
type database struct {
	pool    *pgxpool.Pool
	driver  *riverpgxv5.Driver
	config  *pgx.ConnConfig
	place   string   // the address without password and parameters, for messages
	secrets []string // texts that no message may contain
}

// IsDatabase reports whether this package can use the address.
func IsDatabase(address string) bool {
	scheme, _, found := strings.Cut(address, "://")
	return found && (scheme == "postgres" || scheme == "postgresql")
}

// open connects to a database, and creates the tables if they do not exist.
func open(ctx context.Context, address string) (*database, error) {
	d := &database{place: addresses.Place(address), secrets: addresses.Secrets(address)}
	if !IsDatabase(address) {
		return nil, fmt.Errorf("%s is not a PostgreSQL URL; the workers of several machines need one: postgres://user@host/database", d.place)
	}
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		// The error contains a part of the URL.
		return nil, fmt.Errorf("%s is not the URL of a PostgreSQL database, such as postgres://user@host/database", d.place)
	}
	if err := pgconnect.Check(address, &config.ConnConfig.Config); err != nil {
		return nil, fmt.Errorf("cannot use the database %s: %w", d.place, err)
	}
	if config.ConnConfig.Password != "" {
		d.secrets = append(d.secrets, config.ConnConfig.Password)
	}
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = patience
	}
	if config.ConnConfig.RuntimeParams["application_name"] == "" {
		config.ConnConfig.RuntimeParams["application_name"] = "bootstrap fleet"
	}
	config.MaxConns = max(config.MaxConns, 8)
	d.config = config.ConnConfig.Copy()
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, d.failed("use", err)
	}
	d.driver = riverpgxv5.New(d.pool)
	if err := d.migrate(ctx); err != nil {
		d.close()
		return nil, err
	}
	return d, nil
}

func (d *database) close() { d.pool.Close() }

// silent returns the log for River, which discards everything: this package reports what
// people need to know.
func silent() *slog.Logger { return slog.New(slog.DiscardHandler) }

// migrate creates the tables, and refuses those of a newer version.
func (d *database) migrate(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	conn, err := d.pool.Acquire(ctx)
	if err != nil {
		return d.failed("use", err)
	}
	defer conn.Release()
	if current, err := d.current(ctx, conn); err != nil || current {
		return err
	}
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", migrationLock); err != nil {
		return d.failed("use", err)
	}
	defer func() { _, _ = conn.Exec(ctx, "SELECT pg_advisory_unlock($1)", migrationLock) }()
	if current, err := d.current(ctx, conn); err != nil || current {
		return err
	}
	var exists bool
	err = conn.QueryRow(ctx, "SELECT to_regnamespace('"+schema+"') IS NOT NULL").Scan(&exists)
	if err == nil && !exists {
		_, err = conn.Exec(ctx, "CREATE SCHEMA "+schema)
	}
	var migrator *rivermigrate.Migrator[pgx.Tx]
	if err == nil {
		migrator, err = rivermigrate.New(d.driver, &rivermigrate.Config{Schema: schema, Logger: silent()})
	}
	if err == nil {
		_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	}
	if err == nil {
		_, err = conn.Exec(ctx, tables)
	}
	if err != nil {
		return d.failed("create the tables of fleets in", err)
	}
	return nil
}

// current reports whether the tables are those of this version. It refuses those
// of a newer one.
func (d *database) current(ctx context.Context, conn *pgxpool.Conn) (bool, error) {
	var exists bool
	if err := conn.QueryRow(ctx, "SELECT to_regclass('"+schema+".format') IS NOT NULL").Scan(&exists); err != nil || !exists {
		return false, d.failed("use", err)
	}
	var found int
	if err := conn.QueryRow(ctx, "SELECT format FROM "+schema+".format").Scan(&found); err != nil {
		return false, d.failed("use", err)
	}
	if found > Format {
		return false, fmt.Errorf("the tables of fleets in %s have the format %d of a newer version of bootstrap, and this version knows the format %d: use the same version on all machines", d.place, found, Format)
	}
	return found == Format, nil
}

// failed describes an error of the database for people, without secrets; nil for nil.
func (d *database) failed(verb string, err error) error {
	if err == nil {
		return nil
	}
	if refused := pgconnect.Refused(err, &d.config.Config); refused != nil {
		return fmt.Errorf("cannot %s the database %s: %w", verb, d.place, refused)
	}
	text := fmt.Sprintf("cannot %s the database %s: %s", verb, d.place, d.explain(err))
	var network *net.OpError
	if errors.As(err, &network) {
		text += "; start the server, or correct its address"
	}
	return errors.New(text)
}

// explain returns the cause of an error of the database, without secrets.
func (d *database) explain(err error) string {
	detail := err.Error()
	var server *pgconn.PgError
	var network *net.OpError
	switch {
	case errors.As(err, &server) && server.Code == "42501":
		detail = fmt.Sprintf("%s; its owner can allow it: CREATE SCHEMA %s AUTHORIZATION %q", server.Message, schema, d.config.User)
	case errors.As(err, &server):
		detail = fmt.Sprintf("%s (SQLSTATE %s)", server.Message, server.Code)
	case errors.As(err, &network):
		detail = network.Err.Error()
	case errors.Is(err, context.DeadlineExceeded):
		detail = fmt.Sprintf("no answer within %s", patience)
	}
	for _, secret := range d.secrets {
		if len(secret) < 4 {
			continue // it is part of too many words
		}
		detail = strings.ReplaceAll(detail, secret, "xxxxx")
		detail = strings.ReplaceAll(detail, url.QueryEscape(secret), "xxxxx")
	}
	return strings.Join(strings.Fields(detail), " ")
}
