package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/state/file"
)

// Work contains what a worker gets from outside.
type Work struct {
	Database string // postgres:// URL
	Width    int    // members at the same time
	By       file.Holder
	Program  rollout.Program // without flags, which each start brings
	Read     func(path string) (*fleet.Fleet, error)
	Redact   func(string) string
	Report   func(Event)
	// Urgent is closed when running members are asked to end at their next safe
	// step.
	Urgent <-chan struct{}
}

// Event is one message of a worker.
type Event struct {
	Time    time.Time        `json:"time"`
	Kind    string           `json:"kind"` // worker
	Status  string           `json:"status"`
	Fleet   string           `json:"fleet,omitempty"` // path
	Run     string           `json:"run,omitempty"`
	Member  string           `json:"member,omitempty"`
	Attempt int              `json:"attempt,omitempty"`
	Verdict schedule.Verdict `json:"-"`
	Reason  string           `json:"reason,omitempty"`
	Seconds float64          `json:"seconds,omitempty"`
	Log     string           `json:"log,omitempty"`
	Message string           `json:"message,omitempty"`
}

// The statuses of events that are not verdicts.
const (
	Ready   = "ready"
	Started = "started"
	Noticed = "notice"
	Ended   = "ended"
	Lost    = "lost" // the member does not belong to this worker any more
)

// worker runs members.
type worker struct {
	river.WorkerDefaults[job]
	opts Work
	db   *database
	id   string

	mu      sync.Mutex
	running map[job]*running
	leaving bool // running members were asked to end because this worker is
}

// running is a member that this worker has.
type running struct {
	job   job
	here  *rollout.Here
	asked int           // how often it was asked to end
	lost  chan struct{} // closed when it does not belong to this worker any more
}

// Run runs members until ctx ends and the members that then run have ended.
func Run(ctx context.Context, opts Work) error {
	db, err := open(ctx, opts.Database)
	if err != nil {
		return err
	}
	defer db.close()
	w := &worker{opts: opts, db: db, id: opts.By.Host + "-" + uuid.NewString(), running: map[job]*running{}}
	workers := river.NewWorkers()
	client, err := river.NewClient(db.driver, &river.Config{
		ID: w.id, Schema: schema, Logger: silent(), Workers: workers,
		Queues:     map[string]river.QueueConfig{line: {MaxWorkers: opts.Width}},
		JobTimeout: -1, // a member has the timeout of its fleet
	})
	if err == nil {
		err = river.AddWorkerSafely(workers, w)
	}
	lasting := context.WithoutCancel(ctx)
	if err == nil {
		err = w.enlist(ctx)
	}
	if err == nil {
		err = client.Start(lasting)
	}
	if err != nil {
		return db.failed("use", err)
	}
	w.say(Event{Status: Ready, Message: fmt.Sprintf("Waiting for members in %s, up to %d at the same time", db.place, opts.Width)})
	over := make(chan struct{})
	beating := guard.Start(ctx, func() error { w.beat(lasting, over); return nil })
	<-ctx.Done()
	stopped := guard.Start(ctx, func() error { return client.Stop(lasting) })
	if n := w.count(); n > 0 {
		w.say(Event{Status: Noticed, Message: fmt.Sprintf("Interrupted: no member is taken any more, and %d end; a second Ctrl-C asks these to end at their next safe step", n)})
	}
	select {
	case <-opts.Urgent:
		w.leave()
	case <-stopped:
	}
	<-stopped
	close(over)
	<-beating
	limited, cancel := context.WithTimeout(lasting, time.Second)
	defer cancel()
	_, _ = db.pool.Exec(limited, "DELETE FROM "+schema+".workers WHERE id = $1", w.id) // otherwise it is taken for dead
	return nil
}

func (w *worker) say(e Event) {
	e.Time, e.Kind = time.Now(), "worker"
	w.opts.Report(e)
}

func (w *worker) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.running)
}

// leave asks all members to end at their next safe step, for other workers to go
// on with them.
func (w *worker) leave() {
	w.mu.Lock()
	w.leaving = true
	for _, r := range w.running {
		r.here.Interrupt("")
	}
	w.mu.Unlock()
	w.say(Event{Status: Noticed, Message: "Interrupted: the running members end at their next safe step, and other workers go on with them; a third Ctrl-C leaves them alone and ends this process"})
}

// enlist records that this worker is alive.
func (w *worker) enlist(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	holder, err := json.Marshal(w.opts.By)
	if err == nil {
		_, err = w.db.pool.Exec(ctx, `INSERT INTO `+schema+`.workers (id, holder, width, beat) VALUES ($1, $2, $3, now())
			ON CONFLICT (id) DO UPDATE SET beat = now()`, w.id, holder, w.opts.Width)
	}
	if err == nil {
		_, err = w.db.pool.Exec(ctx, "DELETE FROM "+schema+".workers WHERE beat < now() - $1::interval", keptTasks)
	}
	return err
}

// beat reports that this worker is alive, and passes on what is asked of its
// members, until over is closed.
func (w *worker) beat(ctx context.Context, over <-chan struct{}) {
	pauses := wait.Jitter(askEvery, longestPause)
	var beaten time.Time
	away := false
	for {
		next := askEvery
		err := w.obey(ctx)
		if err == nil && time.Since(beaten) >= beatEvery {
			if err = w.enlist(ctx); err == nil {
				err = w.keep(ctx)
			}
			beaten = time.Now()
		}
		switch {
		case err != nil:
			if !away {
				w.say(Event{Status: Noticed, Message: fmt.Sprintf("Cannot reach the database %s: %s; members that run go on", w.db.place, w.db.explain(err))})
			}
			away, beaten = true, time.Time{}
			next = pauses.Next()
		case away:
			w.say(Event{Status: Noticed, Message: fmt.Sprintf("The database %s answers again", w.db.place)})
			away = false
			pauses.Reset()
		}
		if wait.Event(ctx, next, over) != nil {
			return
		}
		select {
		case <-over:
			return
		default:
		}
	}
}

// list returns the members that this worker has.
func (w *worker) list() []*running {
	w.mu.Lock()
	defer w.mu.Unlock()
	var list []*running
	for _, r := range w.running {
		if !r.isGone() {
			list = append(list, r)
		}
	}
	return list
}

// obey passes on what is asked of the members.
func (w *worker) obey(ctx context.Context) error {
	if len(w.list()) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := w.db.pool.Query(ctx, "SELECT fleet, run, member, attempt, asked FROM "+schema+".tasks WHERE worker = $1 AND ended IS NULL AND asked > 0", w.id)
	if err != nil {
		return err
	}
	var id job
	var asked int
	_, err = pgx.ForEachRow(rows, []any{&id.Fleet, &id.Run, &id.Member, &id.Attempt, &asked}, func() error {
		w.mu.Lock()
		defer w.mu.Unlock()
		for r := w.running[id]; r != nil && r.asked < asked; r.asked++ {
			r.here.Interrupt("")
		}
		return nil
	})
	return err
}

// keep keeps the members for this worker, and finds out which it has lost.
func (w *worker) keep(ctx context.Context) error {
	list := w.list()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rows, err := w.db.pool.Query(ctx, "UPDATE "+schema+".tasks SET beat = now() WHERE worker = $1 AND ended IS NULL RETURNING fleet, run, member, attempt", w.id)
	if err != nil {
		return err
	}
	mine := map[job]bool{}
	var id job
	if _, err := pgx.ForEachRow(rows, []any{&id.Fleet, &id.Run, &id.Member, &id.Attempt}, func() error { mine[id] = true; return nil }); err != nil {
		return err
	}
	for _, r := range list {
		if !mine[r.job] {
			w.lose(r)
		}
	}
	return nil
}

// lose records that a member does not belong to this worker any more. Its process
// goes on, and whoever has the member now waits for its end.
func (w *worker) lose(r *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.isGone() {
		close(r.lost)
	}
}

// taken is a start as the coordinator wrote it.
type taken struct {
	Action, Watch, Logs string
	Waits               bool
	Flags               []string
	Salt, Digest        []byte
}

// Work runs a member that River hands out.
func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	return guard.Do(ctx, func() error { return w.work(ctx, j) })
}

func (w *worker) work(ctx context.Context, j *river.Job[job]) error {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // River cancels it when the coordinator gives the member to another worker
	defer end()
	asked := time.Now().Round(0) // by the clock that goes on while the machine sleeps
	t, err := w.claim(ctx, j)
	if err != nil || t == nil {
		return err
	}
	progress := make(chan rollout.Progress)
	over := make(chan struct{})
	defer close(over)
	program := w.opts.Program
	program.Flags = t.Flags
	r := &running{job: j.Args, lost: make(chan struct{}), here: rollout.NewHere(program, w.opts.Width, func(p rollout.Progress) {
		select {
		case progress <- p:
		case <-over:
		}
	})}
	w.mu.Lock()
	w.running[j.Args] = r
	leaving := w.leaving
	w.mu.Unlock()
	defer func() {
		w.mu.Lock()
		delete(w.running, j.Args)
		w.mu.Unlock()
	}()
	if leaving {
		return w.finish(ctx, j, r, asked, lost("its worker was asked to end"))
	}
	m, refusal := w.member(j.Args, t)
	if refusal != nil {
		return w.finish(ctx, j, r, asked, *refusal)
	}
	// A machine that slept may have lost the member meanwhile.
	if time.Now().Round(0).Sub(asked) > deadAfter/4 {
		if err := w.keep(ctx); err != nil || r.isGone() {
			return w.finish(ctx, j, r, asked, lost("its worker was away"))
		}
	}
	task := rollout.Task{Member: m, Action: fleet.Strategy(t.Action), Watch: t.Watch, Cut: t.Waits, Logs: t.Logs, Run: j.Args.Run}
	w.say(w.event(j.Args, Event{Status: Started, Log: filepath.Join(t.Logs, m.Name+".log")}))
	if err := r.here.Start(ctx, task); err != nil {
		return w.finish(ctx, j, r, asked, w.notStarted(r, err))
	}
	return w.finish(ctx, j, r, asked, w.follow(ctx, r, progress))
}

// notStarted returns the outcome of a member that could not be started.
func (w *worker) notStarted(r *running, err error) ended {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.leaving:
		return lost("its worker was asked to end")
	case r.asked > 0:
		return ended{Verdict: schedule.Interrupted, ExitCode: exitInterrupted, Error: "it was asked to end before it was started"}
	}
	return ended{Verdict: schedule.Failed, ExitCode: exitFailed, Error: w.opts.Redact(err.Error()), Hint: w.hint()}
}

func (w *worker) event(id job, e Event) Event {
	e.Fleet, e.Run, e.Member, e.Attempt = id.Fleet, id.Run, id.Member, id.Attempt
	return e
}

func (w *worker) hint() string {
	return fmt.Sprintf("the worker on %s needs the fleet file and all files of its members at the same paths as the coordinator, and the same -v, -l, --var-file and --vars-env", w.opts.By.Host)
}

// claim takes a start for this worker. It returns nil if it is not to be started.
func (w *worker) claim(ctx context.Context, j *river.Job[job]) (*taken, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, t := j.Args, &taken{}
	err := w.db.pool.QueryRow(ctx, `UPDATE `+schema+`.tasks t SET worker = $5, host = $6, beat = now()
		FROM `+schema+`.coordinators c
		WHERE t.fleet = $1 AND t.run = $2 AND t.member = $3 AND t.attempt = $4 AND t.worker IS NULL AND t.ended IS NULL
		AND c.fleet = t.fleet AND c.beat > now() - $7::interval
		RETURNING t.action, t.watch, t.logs, t.waits, t.flags, t.salt, t.digest`,
		a.Fleet, a.Run, a.Member, a.Attempt, w.id, w.opts.By.Host, deadAfter).
		Scan(&t.Action, &t.Watch, &t.Logs, &t.Waits, &t.Flags, &t.Salt, &t.Digest)
	if err == nil {
		return t, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	var open bool
	err = w.db.pool.QueryRow(ctx, `SELECT count(*) > 0 FROM `+schema+`.tasks t
		WHERE t.fleet = $1 AND t.run = $2 AND t.member = $3 AND t.attempt = $4 AND t.worker IS NULL AND t.ended IS NULL`, a.Fleet, a.Run, a.Member, a.Attempt).Scan(&open)
	if err == nil && open {
		return nil, river.JobSnooze(beatEvery) // its coordinator is away: without one, nothing starts
	}
	return nil, err
}

// member returns the member as the coordinator meant it, or why it is not started.
func (w *worker) member(id job, t *taken) (fleet.Member, *ended) {
	refuse := func(format string, args ...any) (fleet.Member, *ended) {
		return fleet.Member{}, &ended{Verdict: schedule.Failed, ExitCode: exitManifest, Error: w.opts.Redact(fmt.Sprintf(format, args...)), Hint: w.hint()}
	}
	f, err := w.opts.Read(id.Fleet)
	if err != nil {
		return refuse("the worker on %s cannot read the fleet file: %v", w.opts.By.Host, err)
	}
	i := slices.IndexFunc(f.Members, func(m fleet.Member) bool { return m.Name == id.Member })
	if i < 0 {
		return refuse("the fleet file that the worker on %s reads, %s, has no such member", w.opts.By.Host, id.Fleet)
	}
	m := f.Members[i]
	sum, err := digest(m, t.Salt)
	if err != nil {
		return refuse("the worker on %s %v", w.opts.By.Host, err)
	}
	if !same(sum, t.Digest) {
		return refuse("the worker on %s reads other files or variables than the coordinator, or the fleet file was changed since the coordinator read it", w.opts.By.Host)
	}
	return m, nil
}

// follow records what a member's process does, until it has ended.
func (w *worker) follow(ctx context.Context, r *running, progress <-chan rollout.Progress) ended {
	var all []told
	var again <-chan time.Time // when to try to write what was not written
	pauses := wait.Jitter(askEvery, longestPause)
	for {
		select {
		case p := <-progress:
			if p.Ended != nil {
				return w.judge(r, ended(*p.Ended))
			}
			all = append(all, told{Step: p.Step, Down: p.Down, Changes: p.Changes, Process: p.Process, At: p.At})
		case <-again:
		}
		again = nil
		if err := w.write(ctx, r, all); err != nil {
			again = time.After(pauses.Next())
		} else {
			pauses.Reset()
		}
	}
}

// judge returns the outcome for the coordinator: a member that ended because this
// worker does is to be started again elsewhere.
func (w *worker) judge(r *running, e ended) ended {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving && r.asked == 0 && (e.Verdict == schedule.Interrupted || e.Killed) {
		return lost("its worker was asked to end")
	}
	return e
}

// write writes the progress of a member.
func (w *worker) write(ctx context.Context, r *running, all []told) error {
	if r.isGone() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	data, err := json.Marshal(all)
	if err != nil {
		return err
	}
	id := r.job
	tag, err := w.db.pool.Exec(ctx, `UPDATE `+schema+`.tasks SET progress = $6, beat = now()
		WHERE fleet = $1 AND run = $2 AND member = $3 AND attempt = $4 AND worker = $5 AND ended IS NULL`, id.Fleet, id.Run, id.Member, id.Attempt, w.id, data)
	if err == nil && tag.RowsAffected() == 0 {
		w.lose(r)
	}
	return err
}

func (r *running) isGone() bool {
	select {
	case <-r.lost:
		return true
	default:
		return false
	}
}

// finish records how a member ended, together with the end of River's job, and
// tries that until the database answers. Of a member that this worker has lost it
// records nothing.
func (w *worker) finish(ctx context.Context, j *river.Job[job], r *running, since time.Time, e ended) error {
	pauses := wait.Jitter(askEvery, longestPause)
	for !r.isGone() {
		err := w.record(ctx, j, r, e)
		if err == nil {
			break
		}
		if err := wait.Event(ctx, pauses.Next(), r.lost); err != nil {
			return err
		}
	}
	event := Event{Status: Ended, Verdict: e.Verdict, Reason: e.Error, Seconds: time.Now().Round(0).Sub(since).Seconds()}
	switch {
	case r.isGone():
		event.Status, event.Reason = Lost, "this worker did not reach the database in time, and the member was given to another one"
	case e.Lost:
		event.Status = Lost
	}
	w.say(w.event(j.Args, event))
	return nil
}

// record writes the outcome of a member and the end of River's job, both or none.
func (w *worker) record(ctx context.Context, j *river.Job[job], r *running, e ended) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	outcome, err := json.Marshal(e)
	if err != nil {
		return err
	}
	id := j.Args
	return pgx.BeginFunc(ctx, w.db.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE `+schema+`.tasks SET ended = now(), outcome = $6
			WHERE fleet = $1 AND run = $2 AND member = $3 AND attempt = $4 AND worker = $5 AND ended IS NULL`, id.Fleet, id.Run, id.Member, id.Attempt, w.id, outcome)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			w.lose(r)
			return nil
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
		if errors.Is(err, rivertype.ErrNotFound) { // somebody has removed it, for example in River's web page
			return nil
		}
		return err
	})
}
