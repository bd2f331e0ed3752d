package team

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"bootstrap/internal/pgconnect"
)

// database keeps documents as rows of a PostgreSQL table. The version of a document is
// a number of a sequence, so that all versions differ.
type database struct {
	pool        *pgxpool.Pool // several connections, because the lease is renewed during other requests
	environment string
	secrets     []string
	config      *pgconn.Config
}

// EnvironmentParameter is the parameter of a postgres:// URL that names the environment
// of the state.
const EnvironmentParameter = "environment"

func openDatabase(ctx context.Context, u *url.URL, secrets []string) (Documents, error) {
	query := u.Query()
	environment := query.Get(EnvironmentParameter)
	if environment == "" {
		return nil, fmt.Errorf("it names no environment: add ?%s=NAME, the same for all who work on it", EnvironmentParameter)
	}
	query.Del(EnvironmentParameter)
	of := *u
	of.RawQuery = query.Encode()
	config, err := pgxpool.ParseConfig(of.String())
	if err != nil { // the error contains a part of the URL
		return nil, errors.New("it is not the URL of a PostgreSQL database, such as postgres://user@host/database?environment=NAME")
	}
	connection := config.ConnConfig
	if err := pgconnect.Check(of.String(), &connection.Config); err != nil {
		return nil, err
	}
	if connection.ConnectTimeout == 0 {
		connection.ConnectTimeout = requestTime
	}
	if connection.RuntimeParams["application_name"] == "" {
		connection.RuntimeParams["application_name"] = "bootstrap"
	}
	// Two connections are used at the same time. A dead one counts until it is closed.
	config.MaxConns, config.MinConns, config.PingTimeout = 4, 0, 2*time.Second
	d := &database{environment: environment, secrets: append(secrets, connection.Password), config: &connection.Config}
	if d.pool, err = pgxpool.NewWithConfig(ctx, config); err != nil {
		return nil, d.failed(err)
	}
	if err := d.makeTable(ctx); err != nil {
		d.Close()
		return nil, err
	}
	return d, nil
}

const table = `CREATE SEQUENCE IF NOT EXISTS bootstrap_document_versions;
CREATE TABLE IF NOT EXISTS bootstrap_documents (
	environment text NOT NULL,
	name text NOT NULL,
	version bigint NOT NULL DEFAULT nextval('bootstrap_document_versions'),
	written timestamptz NOT NULL DEFAULT clock_timestamp(),
	data bytea NOT NULL,
	PRIMARY KEY (environment, name))`

// makeTable creates the table if it does not exist.
func (d *database) makeTable(ctx context.Context) error {
	var exists bool
	if err := d.pool.QueryRow(ctx, `SELECT to_regclass('bootstrap_documents') IS NOT NULL`).Scan(&exists); err != nil || exists {
		return d.failed(err)
	}
	_, err := d.pool.Exec(ctx, table)
	if other, ok := errors.AsType[*pgconn.PgError](err); ok && (other.Code == "23505" || other.Code == "42P07") { // another process created it at the same time
		_, err = d.pool.Exec(ctx, table)
	}
	return d.failed(err)
}

func (d *database) failed(err error) error {
	if refused := pgconnect.Refused(err, d.config); refused != nil {
		return &RefusedError{refused}
	}
	if down := pgconnect.Unreachable(err, d.config); down != nil {
		return fmt.Errorf("%w; is PostgreSQL running there?", down)
	}
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch refused.Code[:2] {
		case "28", "3D", "42": // problems of login, of the database's name, of privileges
			return &RefusedError{redact(err, d.secrets)}
		}
	}
	return redact(err, d.secrets)
}

func (d *database) Get(ctx context.Context, name string) (Document, error) {
	var data []byte
	var version int64
	var age float64
	err := d.pool.QueryRow(ctx, `SELECT data, version, extract(epoch FROM clock_timestamp() - written)::float8 FROM bootstrap_documents WHERE environment = $1 AND name = $2`,
		d.environment, name).Scan(&data, &version, &age)
	if errors.Is(err, pgx.ErrNoRows) {
		return Document{}, fs.ErrNotExist
	}
	return Document{Data: data, Version: strconv.FormatInt(version, 10), Age: max(0, time.Duration(age*float64(time.Second)))}, d.failed(err)
}

func (d *database) Put(ctx context.Context, name string, data []byte, was string) (string, error) {
	const insert = `INSERT INTO bootstrap_documents (environment, name, data) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING RETURNING version`
	const update = `UPDATE bootstrap_documents SET data = $3, version = nextval('bootstrap_document_versions'), written = clock_timestamp()
		WHERE environment = $1 AND name = $2 AND version = $4 RETURNING version`
	statement, values := insert, []any{d.environment, name, data}
	if was != "" {
		number, err := strconv.ParseInt(was, 10, 64)
		if err != nil {
			return "", ErrChanged // the version comes from another kind of place
		}
		statement, values = update, append(values, number)
	}
	var version int64
	err := d.pool.QueryRow(ctx, statement, values...).Scan(&version)
	if errors.Is(err, pgx.ErrNoRows) {
		return "", ErrChanged
	}
	return strconv.FormatInt(version, 10), d.failed(err)
}

func (d *database) Remove(ctx context.Context, name string) error {
	_, err := d.pool.Exec(ctx, `DELETE FROM bootstrap_documents WHERE environment = $1 AND name = $2`, d.environment, name)
	return d.failed(err)
}

func (d *database) Close() { d.pool.Close() }
