package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
)

// close ends an open task whose worker has not reported its end.
func (c *Coordinator) close(ctx context.Context, tx pgx.Tx, run, member string, attempt int, id int64, e ended) error {
	outcome, err := json.Marshal(c.key.proven(job{Fleet: c.fleet, Run: run, Member: member, Attempt: attempt}, e))
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE `+schema+`.tasks SET ended = now(), outcome = $5
		WHERE fleet = $1 AND run = $2 AND member = $3 AND attempt = $4 AND ended IS NULL`, c.fleet, run, member, attempt, outcome); err != nil {
		return err
	}
	return c.cancel(ctx, tx, id)
}

// seen is the present state of a watched task.
type seen struct {
	member   string
	worker   *string
	host     *string
	progress []byte
	outcome  []byte
	dead     bool
}

// look reports what the workers have written about the members.
func (c *Coordinator) look(ctx context.Context) error {
	if len(c.watched) == 0 {
		return nil
	}
	var members, runs []string
	var attempts []int32
	for name, s := range c.watched {
		members, runs, attempts = append(members, name), append(runs, s.run), append(attempts, int32(s.attempt))
	}
	rows, err := c.conn.Query(ctx, `SELECT t.member, t.worker, t.host, t.progress, t.outcome, t.ended IS NULL AND t.worker IS NOT NULL AND `+workerDead+`
		FROM `+schema+`.tasks t JOIN unnest($4::text[], $5::text[], $6::int[]) AS w (member, run, attempt)
		ON t.member = w.member AND t.run = w.run AND t.attempt = w.attempt WHERE t.fleet = $3`, c.since, c.dead(), c.fleet, members, runs, attempts)
	if err != nil {
		return err
	}
	var list []seen
	var one seen
	if _, err := pgx.ForEachRow(rows, []any{&one.member, &one.worker, &one.host, &one.progress, &one.outcome, &one.dead}, func() error {
		list = append(list, one)
		one = seen{}
		return nil
	}); err != nil {
		return err
	}
	for _, now := range list {
		if err := c.follow(ctx, c.watched[now.member], now); err != nil {
			return err
		}
	}
	return nil
}

// follow reports what a worker has written about one member.
func (c *Coordinator) follow(ctx context.Context, s *start, now seen) error {
	name := now.member
	if now.worker != nil {
		s.worker, s.host = *now.worker, *now.host
	}
	var all []progressRow
	if err := json.Unmarshal(now.progress, &all); err != nil {
		return err
	}
	c.mu.Lock()
	notify := c.notify
	c.mu.Unlock()
	for ; s.seen < len(all); s.seen++ {
		p := all[s.seen]
		notify(rollout.Progress{Member: name, Step: p.Step, Down: p.Down, Changes: p.Changes, Process: p.Process, Machine: s.host, At: p.At})
	}
	switch {
	case now.outcome != nil:
		var e ended
		if err := json.Unmarshal(now.outcome, &e); err != nil {
			return err
		}
		id := job{Fleet: c.fleet, Run: s.run, Member: name, Attempt: s.attempt}
		byUs := e.Verdict == schedule.Waiting && holds(e.Proof, c.key.ofEnd(job{Fleet: c.fleet}, e))
		if !byUs && !holds(e.Proof, c.key.ofEnd(id, e)) {
			e = ended{
				Verdict: schedule.Failed, ExitCode: failure.Failed, Error: "the database says that it has ended, but no worker with the key of this coordinator has reported that",
				Hint: "who can write to the database? The worker that has the member may still run it: see what it prints",
			}
		}
		c.end(s, e)
	case now.dead:
		return c.lose(ctx, s, fmt.Sprintf("its worker on %s does not report any more", s.host))
	case s.worker == "" && time.Since(s.since) > usuallyTaken && time.Since(s.lookedAt) > c.beats:
		s.lookedAt = time.Now()
		return c.nobody(ctx, s)
	}
	return nil
}

// usuallyTaken is the longest usual time until a worker with free capacity takes a
// member.
const usuallyTaken = 2 * time.Second

// lose ends a task whose worker is dead, unless the worker reports at this moment.
func (c *Coordinator) lose(ctx context.Context, s *start, why string) error {
	e := lost(why)
	err := pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		return c.close(ctx, tx, s.run, s.task.Member.Name, s.attempt, s.job, e)
	})
	return err // The next look reports the outcome, which may be that of the worker.
}

// nobody finds out why no worker has taken a member: none is running, all are busy, or
// the one that took it from River was killed at that moment.
func (c *Coordinator) nobody(ctx context.Context, s *start) error {
	var workers int
	if err := c.conn.QueryRow(ctx, "SELECT count(*) FROM "+schema+".workers t WHERE NOT ("+workerDead+")", c.since, c.dead()).Scan(&workers); err != nil {
		return err
	}
	if workers == 0 && !c.idle {
		c.say(rollout.Progress{Notice: fmt.Sprintf("No worker is running: start \"bootstrap fleet worker --database ...\" with %s on the machines that are to update members", c.db.place)})
	}
	c.idle = workers == 0
	row, err := c.client.JobGet(ctx, s.job)
	gone := errors.Is(err, rivertype.ErrNotFound)
	switch {
	case err != nil && !gone:
		return err
	case gone, row.FinalizedAt != nil, row.State == rivertype.JobStateRunning && row.AttemptedAt != nil && time.Since(*row.AttemptedAt) > c.dead() && time.Since(s.since) > c.dead():
		return c.lose(ctx, s, "its worker was lost before it was started")
	}
	return nil
}
