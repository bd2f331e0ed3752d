package queue

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"bootstrap/internal/failure"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/state/file"
)

// TakenOverError says that another coordinator has taken over the fleet.
type TakenOverError struct {
	Fleet  string
	Holder state.Holder
}

func (e *TakenOverError) Error() string {
	return fmt.Sprintf("%s@%s has taken over the run of %s while this process could not reach the database; the members continue", e.Holder.User, e.Holder.Host, e.Fleet)
}

func (e *TakenOverError) ExitCode() failure.Code { return failure.Locked }

func (e *TakenOverError) Hint() string {
	return `"bootstrap fleet status FLEET" shows what the other process does`
}

// noticed is how long a server may take to notice that a coordinator's process was
// killed.
const noticed = 2 * time.Second

// first makes the first connection.
func (c *Coordinator) first(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	begun := time.Now()
	return wait.Poll(ctx, lookEvery, func() (bool, error) {
		err := c.connect(ctx)
		var locked *file.LockedError
		if errors.As(err, &locked) && time.Since(begun) < noticed {
			c.disconnect()
			return false, nil
		}
		return true, err
	})
}

// key returns the number of the fleet's advisory lock.
func key(fleet string) int64 {
	sum := sha256.Sum256([]byte("bootstrap fleet\x00" + fleet))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// connect connects to the database and locks the fleet. The lock ends with the
// connection.
func (c *Coordinator) connect(ctx context.Context) (err error) {
	if c.conn, err = pgx.ConnectConfig(ctx, c.db.config.Copy()); err != nil {
		c.conn = nil
		return err
	}
	// The lock of a machine that lost its network must not last much longer than the
	// machine's connection.
	if _, err := c.conn.Exec(ctx, "SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"); err != nil {
		return err
	}
	if c.epoch != 0 {
		// The server may not know yet that our last connection is broken.
		_, err := c.conn.Exec(ctx, `SELECT pg_terminate_backend(l.pid) FROM pg_locks l
			JOIN `+schema+`.coordinators c ON c.fleet = $1 AND c.epoch = $2 AND c.backend = l.pid
			WHERE l.locktype = 'advisory' AND l.pid = $3 AND l.pid <> pg_backend_pid()`, c.fleet, c.epoch, int32(c.backend))
		if err != nil {
			return err
		}
	}
	var got bool
	if err := c.conn.QueryRow(ctx, "SELECT pg_try_advisory_lock($1)", key(c.fleet)).Scan(&got); err != nil {
		return err
	}
	holder, epoch, err := c.holder(ctx)
	switch {
	case err != nil:
		return err
	case c.epoch != 0 && epoch != c.epoch:
		return &TakenOverError{Fleet: c.fleet, Holder: holder}
	case !got && c.epoch != 0:
		return errors.New("the server still has the earlier connection of this process")
	case !got:
		return &file.LockedError{What: file.Fleet, Path: c.db.place, Holder: holder}
	}
	c.backend = c.conn.PgConn().PID()
	if c.epoch != 0 {
		var now time.Time
		if err := c.conn.QueryRow(ctx, "SELECT now()").Scan(&now); err != nil {
			return err
		}
		c.since = &now
		return c.beat(ctx)
	}
	return c.begin(ctx)
}

// holder returns who coordinates the fleet, or did so last.
func (c *Coordinator) holder(ctx context.Context) (state.Holder, int64, error) {
	var data []byte
	var epoch int64
	var h state.Holder
	err := c.conn.QueryRow(ctx, "SELECT holder, epoch FROM "+schema+".coordinators WHERE fleet = $1", c.fleet).Scan(&data, &epoch)
	if errors.Is(err, pgx.ErrNoRows) {
		return h, 0, nil
	}
	if err == nil {
		err = json.Unmarshal(data, &h)
	}
	return h, epoch, err
}

// keptTasks is how long the starts of earlier runs are kept.
const keptTasks = 30 * 24 * time.Hour

// begin records that this process is the coordinator, and withdraws queued starts of an
// earlier one.
func (c *Coordinator) begin(ctx context.Context) error {
	holder, err := json.Marshal(c.by)
	if err != nil {
		return err
	}
	err = c.conn.QueryRow(ctx, `INSERT INTO `+schema+`.coordinators (fleet, epoch, holder, backend, beat) VALUES ($1, 1, $2, $3, now())
		ON CONFLICT (fleet) DO UPDATE SET epoch = coordinators.epoch + 1, holder = excluded.holder, backend = excluded.backend, beat = now()
		RETURNING epoch`, c.fleet, holder, int32(c.backend)).Scan(&c.epoch)
	if err != nil {
		return err
	}
	c.beaten = time.Now()
	if _, err := c.conn.Exec(ctx, "DELETE FROM "+schema+".tasks WHERE ended < now() - $1::interval", keptTasks); err != nil {
		return err
	}
	_, err = c.withdraw(ctx, nil)
	return err
}

// beat reports that the coordinator is alive.
func (c *Coordinator) beat(ctx context.Context) error {
	tag, err := c.conn.Exec(ctx, "UPDATE "+schema+".coordinators SET beat = now(), backend = $3 WHERE fleet = $1 AND epoch = $2", c.fleet, c.epoch, int32(c.backend))
	if err == nil && tag.RowsAffected() == 0 {
		holder, _, _ := c.holder(ctx)
		return &TakenOverError{Fleet: c.fleet, Holder: holder}
	}
	c.beaten = time.Now()
	return err
}

func (c *Coordinator) disconnect() {
	if c.conn == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.conn.Close(ctx) // the lock ends with the connection
	c.conn = nil
}
