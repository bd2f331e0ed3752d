package queue

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"bootstrap/fleet/rollout"
)

// start is a queued start of a member.
type start struct {
	task     rollout.Task
	salt     []byte
	digest   []byte
	run      string // run of the watched open task
	attempt  int    // 0: it has no task
	job      int64
	host     string
	worker   string
	seen     int // number of reported progress entries
	since    time.Time
	waited   bool      // it was reported that an earlier start still runs
	lookedAt time.Time // when the state of its job was last read
}

// withdraw ends open tasks that no worker has taken, of one member, or of all if
// members is nil. It returns their members.
func (c *Coordinator) withdraw(ctx context.Context, members []string) ([]string, error) {
	outcome, err := json.Marshal(c.key.proven(job{Fleet: c.fleet}, withdrawn()))
	if err != nil {
		return nil, err
	}
	var names []string
	err = pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		names = nil
		rows, err := tx.Query(ctx, `UPDATE `+schema+`.tasks SET ended = now(), outcome = $2
			WHERE fleet = $1 AND ended IS NULL AND worker IS NULL AND ($3::text[] IS NULL OR member = ANY($3)) RETURNING member, job`, c.fleet, outcome, members)
		if err != nil {
			return err
		}
		var jobs []int64
		var name string
		var id int64
		if _, err := pgx.ForEachRow(rows, []any{&name, &id}, func() error {
			names, jobs = append(names, name), append(jobs, id)
			return nil
		}); err != nil {
			return err
		}
		for _, id := range jobs {
			if err := c.cancel(ctx, tx, id); err != nil {
				return err
			}
		}
		return nil
	})
	return names, err
}

// cancel cancels a job in River, also if a worker has it.
func (c *Coordinator) cancel(ctx context.Context, tx pgx.Tx, id int64) error {
	_, err := c.client.JobCancelTx(ctx, tx, id)
	if errors.Is(err, rivertype.ErrNotFound) {
		return nil
	}
	return err
}

// interrupt passes on requests to end.
func (c *Coordinator) interrupt(ctx context.Context) error {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	var members []string // members whose tasks are withdrawn if no worker has them
	stop := c.stop.Err() != nil
	for _, name := range asked {
		if name == "" {
			stop = true
		} else {
			members = append(members, name)
		}
		_, err := c.conn.Exec(ctx, `UPDATE `+schema+`.tasks SET asked = least(asked + 1, 2)
			WHERE fleet = $1 AND ended IS NULL AND worker IS NOT NULL AND ($2 = '' OR member = $2)`, c.fleet, name)
		if err != nil {
			return err
		}
		c.mu.Lock()
		c.asked = c.asked[1:]
		c.mu.Unlock()
	}
	if stop {
		members = nil
		c.mu.Lock()
		pending := c.pending
		c.pending = nil
		c.mu.Unlock()
		for _, s := range pending {
			c.end(s, withdrawn())
		}
	}
	if !stop && len(members) == 0 || len(c.watched) == 0 {
		return nil
	}
	names, err := c.withdraw(ctx, members)
	if err != nil {
		return err
	}
	for _, name := range names {
		if s := c.watched[name]; s != nil {
			c.end(s, withdrawn())
		}
	}
	return nil
}

func (c *Coordinator) end(s *start, e ended) {
	if c.watched[s.task.Member.Name] == s {
		delete(c.watched, s.task.Member.Name)
	}
	o := e.outcome()
	c.say(rollout.Progress{Member: s.task.Member.Name, Machine: s.host, Ended: &o})
}

// enqueue queues the members that must be started.
func (c *Coordinator) enqueue(ctx context.Context) error {
	c.mu.Lock()
	pending := c.pending
	c.mu.Unlock()
	for _, s := range pending {
		done, err := c.enqueueOne(ctx, s)
		if err != nil {
			return err
		}
		if !done {
			continue
		}
		c.watched[s.task.Member.Name] = s
		c.mu.Lock()
		for i, other := range c.pending {
			if other == s {
				c.pending = append(c.pending[:i:i], c.pending[i+1:]...)
				break
			}
		}
		c.mu.Unlock()
	}
	return nil
}

// enqueueOne queues one member. It returns false if an earlier start is still running, of
// another run or with other files or variables.
func (c *Coordinator) enqueueOne(ctx context.Context, s *start) (done bool, err error) {
	name := s.task.Member.Name
	err = pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		var epoch int64
		if err := tx.QueryRow(ctx, "SELECT epoch FROM "+schema+".coordinators WHERE fleet = $1 FOR SHARE", c.fleet).Scan(&epoch); err != nil {
			return err
		}
		if epoch != c.epoch {
			holder, _, err := c.holder(ctx)
			return errors.Join(&TakenOverError{Fleet: c.fleet, Holder: holder}, err)
		}
		var run, action, host string
		var attempt int
		var id int64
		var dead bool
		var salt, sum []byte
		err := tx.QueryRow(ctx, `SELECT t.run, t.attempt, t.action, t.job, t.salt, t.digest, coalesce(t.host, ''), t.worker IS NULL OR `+workerDead+`
			FROM `+schema+`.tasks t WHERE t.fleet = $3 AND t.member = $4 AND t.ended IS NULL FOR UPDATE`, c.since, c.dead(), c.fleet, name).
			Scan(&run, &attempt, &action, &id, &salt, &sum, &host, &dead)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case bytes.Equal(salt, s.salt): // queued already, by a commit whose answer was lost
			s.run, s.attempt, s.job, done = run, attempt, id, true
			return nil
		case dead:
			if err := c.close(ctx, tx, run, name, attempt, id, lost("its worker was lost")); err != nil {
				return err
			}
			s.task.Killed = true
		case !s.waited && run == s.task.Run && action == string(s.task.Action) && matches(s.task.Member, salt, sum):
			s.run, s.attempt, s.job, done = run, attempt, id, true
			return nil
		default:
			if !s.waited {
				s.waited = true
				how := "started by the run " + run
				if run == s.task.Run && action == string(s.task.Action) {
					how = "with other files or variables"
				}
				c.say(rollout.Progress{Notice: fmt.Sprintf("%s is still running on %s (%s); it will be started again when that run ends", name, host, how)})
			}
			return nil
		}
		if err := tx.QueryRow(ctx, "SELECT coalesce(max(attempt), 0) + 1 FROM "+schema+".tasks WHERE fleet = $1 AND run = $2 AND member = $3", c.fleet, s.task.Run, name).Scan(&attempt); err != nil {
			return err
		}
		handed := job{Fleet: c.fleet, Run: s.task.Run, Member: name, Attempt: attempt}
		inserted, err := c.client.InsertTx(ctx, tx, handed, nil)
		if err != nil {
			return err
		}
		s.run, s.attempt, s.job, done = s.task.Run, attempt, inserted.Job.ID, true
		t := taken{Action: string(s.task.Action), Watch: s.task.Watch, Logs: s.task.Logs, Waits: s.task.Killed, Flags: append([]string{}, c.flags...), Salt: s.salt, Digest: s.digest}
		_, err = tx.Exec(ctx, `INSERT INTO `+schema+`.tasks (fleet, run, member, attempt, job, action, watch, waits, logs, flags, salt, digest, proof, queued)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, now())`,
			c.fleet, s.run, name, attempt, s.job, t.Action, t.Watch, t.Waits, t.Logs, t.Flags, t.Salt, t.Digest, c.key.ofStart(handed, t))
		return err
	})
	return done && err == nil, err
}
