package queue

// schema contains the tables of River and of this package.
const schema = "bootstrap_fleet"

// Format is the format of the tables. It grows with each change of those below, and with
// each version of River with more migrations.
const Format = 2

// riverMigration is the last migration of River in this format.
const riverMigration = 8

// migrationLock is the advisory lock of those who create the tables.
const migrationLock = 0x626f6f7473666c74

// tables creates the tables of this package.
//
// coordinators has a row for each fleet. Its epoch grows with each coordinator, so that a
// replaced one notices that.
//
// tasks has a row for each start of a member. A task is open until it has ended, and
// belongs to its worker from the first beat on. asked grows with each request to end: 1
// for the next safe step, 2 for at once. proof shows that the coordinator wrote the row;
// outcome has a proof of the one who ended it: see Key.
const tables = `BEGIN;
CREATE TABLE IF NOT EXISTS ` + schema + `.coordinators (
	fleet text PRIMARY KEY,
	epoch bigint NOT NULL,
	holder jsonb NOT NULL,
	backend integer NOT NULL,
	beat timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS ` + schema + `.workers (
	id text PRIMARY KEY,
	holder jsonb NOT NULL,
	width integer NOT NULL,
	beat timestamptz NOT NULL
);
CREATE TABLE IF NOT EXISTS ` + schema + `.tasks (
	fleet text NOT NULL,
	run text NOT NULL,
	member text NOT NULL,
	attempt integer NOT NULL,
	job bigint NOT NULL,
	action text NOT NULL,
	watch text NOT NULL,
	waits boolean NOT NULL,
	logs text NOT NULL,
	flags text[] NOT NULL,
	salt bytea NOT NULL,
	digest bytea NOT NULL,
	proof bytea NOT NULL DEFAULT '',
	queued timestamptz NOT NULL,
	worker text,
	host text,
	beat timestamptz,
	asked smallint NOT NULL DEFAULT 0,
	progress jsonb NOT NULL DEFAULT '[]',
	ended timestamptz,
	outcome jsonb,
	PRIMARY KEY (fleet, run, member, attempt)
);
ALTER TABLE ` + schema + `.tasks ADD COLUMN IF NOT EXISTS proof bytea NOT NULL DEFAULT '';
CREATE UNIQUE INDEX IF NOT EXISTS tasks_open ON ` + schema + `.tasks (fleet, member) WHERE ended IS NULL;
CREATE INDEX IF NOT EXISTS tasks_worker ON ` + schema + `.tasks (worker) WHERE ended IS NULL;
CREATE TABLE IF NOT EXISTS ` + schema + `.format (one boolean PRIMARY KEY DEFAULT true CHECK (one), format integer NOT NULL);
INSERT INTO ` + schema + `.format (format) VALUES (2) ON CONFLICT (one) DO UPDATE SET format = excluded.format;
COMMIT`

// These expressions compare times of the database's clock. After an outage of the server,
// no worker counts as dead before the server has run for a while again.
const (
	sinceServer = `pg_postmaster_start_time()`
	workerDead  = `greatest(t.beat, ` + sinceServer + `, $1) < now() - $2::interval`
)
