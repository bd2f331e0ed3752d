package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"

	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/state"
)

// Work contains the inputs of a worker.
type Work struct {
	Database string // postgres:// a postgres:// URL
	Width    int    // how many members run at the same time
	By       state.Holder
	Program  rollout.Program           // with the flags that this worker gives to every member
	Next     func(fleet string) string // returns the arguments that name a fleet in a command; nil: none
	Key      Key
	Read     func(path string) (*fleet.Fleet, error)
	// Current returns an error unless the record beside the fleet file says that the
	// run has started the member and is running.
	Current func(ctx context.Context, fleet, run, member string) error
	Redact  func(string) string
	Report  func(Event)
	// Urgent is closed when running members are asked to end at their next safe
	// step.
	Urgent <-chan struct{}
}

// Event is one message of a worker.
type Event struct {
	Time    time.Time        `json:"time"`
	Kind    string           `json:"kind"` // always "worker"
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
	Lost    = "lost" // the database has given the member to another worker
)

// worker runs members.
type worker struct {
	river.WorkerDefaults[job]
	opts   Work
	db     *database
	id     string
	ending context.Context // done when this worker takes no more members

	mu      sync.Mutex
	running map[job]*running
	leaving bool // running members were asked to end because this worker ends
}

// Run runs members until ctx ends, and then waits for the running members.
func Run(ctx context.Context, opts Work) error {
	db, err := open(ctx, opts.Database)
	if err != nil {
		return err
	}
	defer db.close()
	w := &worker{opts: opts, db: db, id: opts.By.Host + "-" + uuid.NewString(), ending: ctx, running: map[job]*running{}}
	workers := river.NewWorkers()
	client, err := river.NewClient(db.driver, &river.Config{
		ID: w.id, Schema: schema, Logger: silent(), Workers: workers,
		Queues:     map[string]river.QueueConfig{line: {MaxWorkers: opts.Width}},
		JobTimeout: -1, // the fleet file has the timeout of members
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
		w.say(Event{Status: Noticed, Message: fmt.Sprintf("Interrupted: no other member is taken, and %d are still running; a second Ctrl-C asks these to end at their next safe step", n)})
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
	_, _ = db.pool.Exec(limited, "DELETE FROM "+schema+".workers WHERE id = $1", w.id) // otherwise the others wait until it counts as dead
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

// leave asks all members to end at their next safe step, so that other workers continue
// them.
func (w *worker) leave() {
	w.mu.Lock()
	w.leaving = true
	for _, r := range w.running {
		r.here.Interrupt("")
	}
	w.mu.Unlock()
	w.say(Event{Status: Noticed, Message: "Interrupted: the running members end at their next safe step, and other workers continue with them; a third Ctrl-C leaves them alone and ends this process"})
}

// enlist records that this worker is running.
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

// beat reports that this worker is running and passes requests on to its members, until
// over is closed.
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
				w.say(Event{Status: Noticed, Message: fmt.Sprintf("Cannot reach the database %s: %s; running members continue", w.db.place, w.db.explain(err))})
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

// obey passes requests on to the members.
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

// keep renews this worker's hold on its members, and finds out which ones it has lost.
func (w *worker) keep(ctx context.Context) error {
	list := w.list()
	if len(list) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	var fleets, runs, members []string
	var attempts []int32
	for _, r := range list {
		fleets, runs = append(fleets, r.job.Fleet), append(runs, r.job.Run)
		members, attempts = append(members, r.job.Member), append(attempts, int32(r.job.Attempt))
	}
	// If the answer to a claim was lost, the database has a start as this worker's that
	// it does not run. Such a start is not renewed.
	rows, err := w.db.pool.Query(ctx, `UPDATE `+schema+`.tasks t SET beat = now() FROM unnest($2::text[], $3::text[], $4::text[], $5::int[]) AS r (fleet, run, member, attempt)
		WHERE t.worker = $1 AND t.ended IS NULL AND t.fleet = r.fleet AND t.run = r.run AND t.member = r.member AND t.attempt = r.attempt
		RETURNING t.fleet, t.run, t.member, t.attempt`, w.id, fleets, runs, members, attempts)
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
// continues to run, and the worker that has the member now waits for its end.
func (w *worker) lose(r *running) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !r.isGone() {
		close(r.lost)
	}
}
