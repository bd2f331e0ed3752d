package queue

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"bootstrap/fleet/rollout"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/state/file"
)

// Coordinator hands members to workers. At most one coordinator of a fleet exists.
type Coordinator struct {
	db     *database
	fleet  string
	flags  []string // for the processes of members
	by     file.Holder
	client *river.Client[pgx.Tx]
	stop   context.Context // done when no member is to be started any more
	ended  chan struct{}   // closed by Close
	over   chan struct{}   // closed when the loop has ended
	dead   time.Duration   // when a worker that does not report has lost its members
	wake   chan struct{}

	mu      sync.Mutex
	tell    func(rollout.Progress)
	pending []*start
	asked   []string // members to be interrupted; empty name: all
	taken   error    // another coordinator has taken over

	// Only the loop uses these.
	conn    *pgx.Conn // holds the lock; nil: none
	backend uint32
	epoch   int64
	since   *time.Time // by the database's clock: since when it can be reached again
	beaten  time.Time
	watched map[string]*start
	idle    bool // it was said that no worker is running
}

// start is a member that was handed over.
type start struct {
	task     rollout.Task
	salt     []byte
	digest   []byte
	run      string // of the open task that is watched
	attempt  int    // 0: it has none
	job      int64
	host     string
	worker   string
	seen     int // how much of its progress was told
	since    time.Time
	waited   bool      // it was said that an earlier start is in the way
	lookedAt time.Time // when River was asked about its job
}

// TakenOverError says that another coordinator has taken over the fleet.
type TakenOverError struct {
	Fleet  string
	Holder file.Holder
}

func (e *TakenOverError) Error() string {
	return fmt.Sprintf("%s@%s has taken over the run of %s while this process could not reach the database; the members go on", e.Holder.User, e.Holder.Host, e.Fleet)
}

// Options contains what a Coordinator gets from outside.
type Options struct {
	Database string // postgres:// URL
	Fleet    string // absolute path of the fleet file
	Flags    []string
	By       file.Holder
	dead     time.Duration // in place of deadAfter, for tests; 0: deadAfter
}

// Coordinate becomes the coordinator of a fleet. The error is a *file.LockedError
// if there is one. When ctx ends, members that no worker has taken are not started
// any more.
func Coordinate(ctx context.Context, opts Options) (*Coordinator, error) {
	db, err := open(ctx, opts.Database)
	if err != nil {
		return nil, err
	}
	c := &Coordinator{
		db: db, fleet: opts.Fleet, flags: opts.Flags, by: opts.By, stop: ctx, dead: cmp.Or(opts.dead, deadAfter),
		ended: make(chan struct{}), over: make(chan struct{}), wake: make(chan struct{}, 1),
		tell: func(rollout.Progress) {}, watched: map[string]*start{},
	}
	c.client, err = river.NewClient(db.driver, &river.Config{Schema: schema, Logger: silent()})
	if err == nil {
		err = c.first(ctx)
	}
	if err != nil {
		c.disconnect()
		db.close()
		var locked *file.LockedError
		if !errors.As(err, &locked) {
			err = db.failed("use", err)
		}
		return nil, err
	}
	guard.Go(ctx, func() { c.loop(context.WithoutCancel(ctx)) })
	return c, nil
}

// noticed is how long a server may take to notice that the process of a
// coordinator was killed.
const noticed = 2 * time.Second

// first connects for the first time.
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

// Hands returns the coordinator as hands of a run; tell is called from another
// goroutine.
func (c *Coordinator) Hands(tell func(rollout.Progress)) rollout.Hands {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tell = tell
	if err := c.taken; err != nil {
		guard.Go(c.stop, func() { tell(rollout.Progress{Err: err}) })
	}
	return c
}

// Close gives up the fleet. Members that run go on.
func (c *Coordinator) Close() {
	close(c.ended)
	<-c.over
	c.disconnect()
	c.db.close()
}

// Start hands a member to a worker.
func (c *Coordinator) Start(_ context.Context, t rollout.Task) error {
	s := &start{task: t, salt: newSalt(), since: time.Now()}
	var err error
	if s.digest, err = digest(t.Member, s.salt); err != nil {
		return err
	}
	c.mu.Lock()
	c.pending = append(c.pending, s)
	c.mu.Unlock()
	c.hurry()
	return nil
}

// Interrupt asks a member, or all if name is empty, to end.
func (c *Coordinator) Interrupt(name string) {
	c.mu.Lock()
	c.asked = append(c.asked, name)
	c.mu.Unlock()
	c.hurry()
}

func (c *Coordinator) hurry() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *Coordinator) say(p rollout.Progress) {
	c.mu.Lock()
	tell := c.tell
	c.mu.Unlock()
	p.At = time.Now()
	tell(p)
}

// loop does what was asked for and tells what happens, until Close.
func (c *Coordinator) loop(ctx context.Context) {
	defer close(c.over)
	pauses := wait.Jitter(lookEvery, longestPause)
	away := false
	for {
		next := lookEvery
		err := c.round(ctx)
		var taken *TakenOverError
		switch {
		case errors.As(err, &taken):
			c.mu.Lock()
			c.taken = err
			c.mu.Unlock()
			c.say(rollout.Progress{Err: err})
			return
		case err != nil:
			if !away {
				c.say(rollout.Progress{Notice: fmt.Sprintf("Cannot reach the database %s: %s; members that run go on, and none is started until it answers", c.db.place, c.db.explain(err))})
			}
			away = true
			c.disconnect()
			next = pauses.Next()
		case away:
			c.say(rollout.Progress{Notice: fmt.Sprintf("The database %s answers again", c.db.place)})
			away = false
			pauses.Reset()
		}
		timer := time.NewTimer(next)
		select {
		case <-c.ended:
			timer.Stop()
			return
		case <-c.wake:
			if away {
				<-timer.C
			}
			timer.Stop()
		case <-timer.C:
		}
	}
}

// round does everything once.
func (c *Coordinator) round(ctx context.Context) error {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if c.conn == nil {
		if err := c.connect(limited); err != nil {
			return err
		}
	}
	if time.Since(c.beaten) >= beatEvery {
		if err := c.beat(limited); err != nil {
			return err
		}
	}
	if err := c.interrupt(limited); err != nil {
		return err
	}
	if err := c.enqueue(limited); err != nil {
		return err
	}
	return c.look(limited)
}

// key returns the advisory lock of a fleet.
func key(fleet string) int64 {
	sum := sha256.Sum256([]byte("bootstrap fleet\x00" + fleet))
	return int64(binary.BigEndian.Uint64(sum[:8]))
}

// connect connects to the database and takes the lock of the fleet, which ends
// with the connection.
func (c *Coordinator) connect(ctx context.Context) (err error) {
	if c.conn, err = pgx.ConnectConfig(ctx, c.db.config.Copy()); err != nil {
		c.conn = nil
		return err
	}
	// The lock of a machine that is cut off must not outlive it for long.
	if _, err := c.conn.Exec(ctx, "SET tcp_keepalives_idle = 20; SET tcp_keepalives_interval = 10; SET tcp_keepalives_count = 3"); err != nil {
		return err
	}
	if c.epoch != 0 {
		// The server may not know yet that our own last connection is broken.
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
		return &file.LockedError{What: rollout.LockName, Path: c.db.place, Holder: holder}
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
func (c *Coordinator) holder(ctx context.Context) (file.Holder, int64, error) {
	var data []byte
	var epoch int64
	var h file.Holder
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

// begin records that this process is the coordinator, and withdraws what an
// earlier one has left in the queue.
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

// withdraw ends open tasks that no worker has taken: of one member, or of all if
// members is nil. It returns their members.
func (c *Coordinator) withdraw(ctx context.Context, members []string) ([]string, error) {
	outcome, err := json.Marshal(withdrawn())
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

// cancel has River forget a job, whether a worker has it or not.
func (c *Coordinator) cancel(ctx context.Context, tx pgx.Tx, id int64) error {
	_, err := c.client.JobCancelTx(ctx, tx, id)
	if errors.Is(err, rivertype.ErrNotFound) {
		return nil
	}
	return err
}

// interrupt passes on the requests to end.
func (c *Coordinator) interrupt(ctx context.Context) error {
	c.mu.Lock()
	asked := c.asked
	c.mu.Unlock()
	var members []string // whose tasks are withdrawn if nobody has them
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

// enqueue hands over the members that are to be started.
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

// enqueueOne hands over one member. It returns false if an earlier start of
// another run still runs.
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
		err := tx.QueryRow(ctx, `SELECT t.run, t.attempt, t.action, t.job, coalesce(t.host, ''), t.worker IS NULL OR `+workerDead+`
			FROM `+schema+`.tasks t WHERE t.fleet = $3 AND t.member = $4 AND t.ended IS NULL FOR UPDATE`, c.since, c.dead, c.fleet, name).
			Scan(&run, &attempt, &action, &id, &host, &dead)
		switch {
		case errors.Is(err, pgx.ErrNoRows):
		case err != nil:
			return err
		case dead:
			if err := c.close(ctx, tx, run, name, attempt, id, lost("its worker was lost")); err != nil {
				return err
			}
			s.task.Cut = true
		case run == s.task.Run && action == string(s.task.Action):
			s.run, s.attempt, s.job, done = run, attempt, id, true
			return nil
		default:
			if !s.waited {
				s.waited = true
				c.say(rollout.Progress{Notice: fmt.Sprintf("%s still runs on %s, where the run %s has started it: it is started again when that has ended", name, host, run)})
			}
			return nil
		}
		if err := tx.QueryRow(ctx, "SELECT coalesce(max(attempt), 0) + 1 FROM "+schema+".tasks WHERE fleet = $1 AND run = $2 AND member = $3", c.fleet, s.task.Run, name).Scan(&attempt); err != nil {
			return err
		}
		inserted, err := c.client.InsertTx(ctx, tx, job{Fleet: c.fleet, Run: s.task.Run, Member: name, Attempt: attempt}, nil)
		if err != nil {
			return err
		}
		s.run, s.attempt, s.job, done = s.task.Run, attempt, inserted.Job.ID, true
		_, err = tx.Exec(ctx, `INSERT INTO `+schema+`.tasks (fleet, run, member, attempt, job, action, watch, waits, logs, flags, salt, digest, queued)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, now())`,
			c.fleet, s.run, name, attempt, s.job, string(s.task.Action), s.task.Watch, s.task.Cut, s.task.Logs, append([]string{}, c.flags...), s.salt, s.digest)
		return err
	})
	return done && err == nil, err
}

// close ends an open task of which its worker has not reported the end.
func (c *Coordinator) close(ctx context.Context, tx pgx.Tx, run, member string, attempt int, id int64, e ended) error {
	outcome, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, `UPDATE `+schema+`.tasks SET ended = now(), outcome = $5
		WHERE fleet = $1 AND run = $2 AND member = $3 AND attempt = $4 AND ended IS NULL`, c.fleet, run, member, attempt, outcome); err != nil {
		return err
	}
	return c.cancel(ctx, tx, id)
}

// seen is a watched task as it is now.
type seen struct {
	member   string
	worker   *string
	host     *string
	progress []byte
	outcome  []byte
	dead     bool
}

// look tells what became of the members.
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
		ON t.member = w.member AND t.run = w.run AND t.attempt = w.attempt WHERE t.fleet = $3`, c.since, c.dead, c.fleet, members, runs, attempts)
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

// follow tells what became of one member.
func (c *Coordinator) follow(ctx context.Context, s *start, now seen) error {
	name := now.member
	if now.worker != nil {
		s.worker, s.host = *now.worker, *now.host
	}
	var all []told
	if err := json.Unmarshal(now.progress, &all); err != nil {
		return err
	}
	c.mu.Lock()
	tell := c.tell
	c.mu.Unlock()
	for ; s.seen < len(all); s.seen++ {
		p := all[s.seen]
		tell(rollout.Progress{Member: name, Step: p.Step, Down: p.Down, Changes: p.Changes, Process: p.Process, Machine: s.host, At: p.At})
	}
	switch {
	case now.outcome != nil:
		var e ended
		if err := json.Unmarshal(now.outcome, &e); err != nil {
			return err
		}
		c.end(s, e)
	case now.dead:
		return c.lose(ctx, s, fmt.Sprintf("its worker on %s does not report any more", s.host))
	case s.worker == "" && time.Since(s.since) > usuallyTaken && time.Since(s.lookedAt) > beatEvery:
		s.lookedAt = time.Now()
		return c.nobody(ctx, s)
	}
	return nil
}

// usuallyTaken is how long it takes at most until a worker has taken a member, if
// one is running and has room.
const usuallyTaken = 2 * time.Second

// lose ends a task whose worker is gone, unless it reports in this moment.
func (c *Coordinator) lose(ctx context.Context, s *start, why string) error {
	e := lost(why)
	err := pgx.BeginFunc(ctx, c.conn, func(tx pgx.Tx) error {
		return c.close(ctx, tx, s.run, s.task.Member.Name, s.attempt, s.job, e)
	})
	return err // the next look tells the outcome, which may be that of the worker
}

// nobody finds out why nobody has taken a member: no worker is running, all are
// busy, or the one that took it from River was killed at that moment.
func (c *Coordinator) nobody(ctx context.Context, s *start) error {
	var workers int
	if err := c.conn.QueryRow(ctx, "SELECT count(*) FROM "+schema+".workers t WHERE NOT ("+workerDead+")", c.since, c.dead).Scan(&workers); err != nil {
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
	case gone, row.FinalizedAt != nil, row.State == rivertype.JobStateRunning && row.AttemptedAt != nil && time.Since(*row.AttemptedAt) > c.dead && time.Since(s.since) > c.dead:
		return c.lose(ctx, s, "its worker was lost before it was started")
	}
	return nil
}
