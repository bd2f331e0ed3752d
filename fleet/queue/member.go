package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// running is a member of this worker.
type running struct {
	job   job
	here  *rollout.Here
	asked int           // how often it was asked to end
	lost  chan struct{} // closed when the member does not belong to this worker any more
}

// taken is a start in the form in which the coordinator wrote it.
type taken struct {
	Action, Watch, Logs string
	Waits               bool
	Flags               []string
	Salt, Digest, Proof []byte
}

// Work runs a member that River hands out.
func (w *worker) Work(ctx context.Context, j *river.Job[job]) error {
	return guard.Do(ctx, func() error { return w.work(ctx, j) })
}

func (w *worker) work(ctx context.Context, j *river.Job[job]) error {
	ctx, end := context.WithCancel(context.WithoutCancel(ctx)) // River cancels ctx when the coordinator gives the member to another worker
	defer end()
	t, asked, err := w.take(ctx, j)
	if err != nil || t == nil {
		return err
	}
	progress := make(chan rollout.Progress)
	over := make(chan struct{})
	defer close(over)
	program := w.opts.Program
	program.Flags = append(slices.Clip(program.Flags), t.Flags...)
	if w.opts.Next != nil {
		program.Fleet = w.opts.Next(j.Args.Fleet)
	}
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
		return w.finish(ctx, j, asked, lost("its worker was asked to end"))
	}
	if refusal := w.unproven(ctx, j.Args, t); refusal != nil {
		return w.finish(ctx, j, asked, *refusal)
	}
	m, refusal := w.member(j.Args, t)
	if refusal != nil {
		return w.finish(ctx, j, asked, *refusal)
	}
	// This worker may have lost the member while the machine slept.
	if time.Now().Round(0).Sub(asked) > deadAfter/4 {
		if err := w.keep(ctx); err != nil || r.isGone() {
			return w.finish(ctx, j, asked, lost("its worker was away"))
		}
	}
	task := rollout.Task{Member: m, Action: fleet.Strategy(t.Action), Watch: t.Watch, Killed: t.Waits, Logs: t.Logs, Run: j.Args.Run}
	if refusal := w.madeBefore(j.Args, t); refusal != nil {
		return w.finish(ctx, j, asked, *refusal)
	}
	w.say(w.event(j.Args, Event{Status: Started, Log: filepath.Join(t.Logs, m.Name+".log")}))
	if err := r.here.Start(ctx, task); err != nil {
		return w.finish(ctx, j, asked, w.notStarted(r, err))
	}
	return w.finish(ctx, j, asked, w.follow(ctx, r, progress))
}

// notStarted returns the outcome of a member that could not be started.
func (w *worker) notStarted(r *running, err error) ended {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.leaving:
		return lost("its worker was asked to end")
	case r.asked > 0:
		return ended{Verdict: schedule.Interrupted, ExitCode: failure.Interrupted, Error: "it was asked to end before it was started"}
	}
	return ended{Verdict: schedule.Failed, ExitCode: failure.Failed, Error: w.opts.Redact(err.Error()), Hint: w.hint()}
}

func (w *worker) event(id job, e Event) Event {
	e.Fleet, e.Run, e.Member, e.Attempt = id.Fleet, id.Run, id.Member, id.Attempt
	return e
}

func (w *worker) hint() string {
	return fmt.Sprintf("the worker on %s needs the fleet file and all files of its members at the same paths as the coordinator, and the same -v, -l, --var-file and --vars-env", w.opts.By.Host)
}

// take claims a start. It tries again until the database answers or this worker ends. It
// returns the time of its request, by the clock that also runs while the machine sleeps.
func (w *worker) take(ctx context.Context, j *river.Job[job]) (*taken, time.Time, error) {
	pauses := wait.Jitter(askEvery, longestPause)
	for {
		if w.ending.Err() != nil {
			return nil, time.Time{}, river.JobSnooze(0) // another worker gets the job
		}
		asked := time.Now().Round(0)
		t, err := w.claim(ctx, j)
		var later *river.JobSnoozeError
		if err == nil || errors.As(err, &later) {
			return t, asked, err
		}
		if wait.For(w.ending, pauses.Next()) != nil {
			return nil, asked, err
		}
	}
}

// claim claims a start for this worker. It returns nil if the member must not be
// started. It may be repeated: if the first answer was lost, the start is this worker's
// already.
func (w *worker) claim(ctx context.Context, j *river.Job[job]) (*taken, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	a, t := j.Args, &taken{}
	err := w.db.pool.QueryRow(ctx, `UPDATE `+schema+`.tasks t SET worker = $5, host = $6, beat = now()
		FROM `+schema+`.coordinators c
		WHERE t.fleet = $1 AND t.run = $2 AND t.member = $3 AND t.attempt = $4 AND coalesce(t.worker, $5) = $5 AND t.ended IS NULL
		AND c.fleet = t.fleet AND c.beat > now() - $7::interval
		RETURNING t.action, t.watch, t.logs, t.waits, t.flags, t.salt, t.digest, t.proof`,
		a.Fleet, a.Run, a.Member, a.Attempt, w.id, w.opts.By.Host, deadAfter).
		Scan(&t.Action, &t.Watch, &t.Logs, &t.Waits, &t.Flags, &t.Salt, &t.Digest, &t.Proof)
	if err == nil {
		return t, nil
	}
	if !errors.Is(err, pgx.ErrNoRows) {
		return nil, err
	}
	var open bool
	err = w.db.pool.QueryRow(ctx, `SELECT count(*) > 0 FROM `+schema+`.tasks t
		WHERE t.fleet = $1 AND t.run = $2 AND t.member = $3 AND t.attempt = $4 AND coalesce(t.worker, $5) = $5 AND t.ended IS NULL`, a.Fleet, a.Run, a.Member, a.Attempt, w.id).Scan(&open)
	if err == nil && open {
		return nil, river.JobSnooze(beatEvery) // The coordinator is away; without it, nothing starts.
	}
	return nil, err
}

// refused returns the outcome for a start that this worker refuses.
func (w *worker) refused(hint, format string, args ...any) *ended {
	return &ended{Verdict: schedule.Failed, ExitCode: failure.Manifest, Error: w.opts.Redact(fmt.Sprintf(format, args...)), Hint: hint}
}

// unproven returns the outcome for a start whose row the coordinator has not written, or
// has written for an earlier start; nil: the row is valid. No value of the row is used
// before this check.
func (w *worker) unproven(ctx context.Context, id job, t *taken) *ended {
	if !holds(t.Proof, w.opts.Key.ofStart(id, *t)) {
		return w.refused(fmt.Sprintf("coordinator and workers need the same %s in their ~/.bosh; if they have it, somebody else has written to the database", keyFile),
			"the worker on %s refuses the start of %s: no coordinator with its key has written it", w.opts.By.Host, id.Member)
	}
	for _, flag := range t.Flags {
		if !Sent(flag) {
			name, _, _ := strings.Cut(flag, "=")
			return w.refused("give that flag to the workers", "the worker on %s refuses the start of %s: a coordinator may not send the flag %s", w.opts.By.Host, id.Member, name)
		}
	}
	if a := fleet.Strategy(t.Action); a != fleet.UpdateStrategy && a != fleet.RecreateStrategy {
		return w.refused("use the same version of bootstrap on all machines", "the worker on %s refuses the start of %s: it does not know the action %q", w.opts.By.Host, id.Member, t.Action)
	}
	if w.opts.Current == nil {
		return nil
	}
	if err := w.opts.Current(ctx, id.Fleet, id.Run, id.Member); err != nil {
		return w.refused("if a coordinator is running, this machine does not see its files beside the fleet file; otherwise somebody has written an old row to the database",
			"the worker on %s refuses the start of %s: %v", w.opts.By.Host, id.Member, err)
	}
	return nil
}

// madeBefore returns the outcome for a start that was carried out already; nil: it is
// new.
func (w *worker) madeBefore(id job, t *taken) *ended {
	path := filepath.Join(t.Logs, fmt.Sprintf("%s.%s-%d.taken", id.Member, id.Run, id.Attempt))
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	switch {
	case errors.Is(err, fs.ErrExist):
		return w.refused("each start has a number and is carried out once, so somebody else has written to the database", "the worker on %s refuses the start of %s: its start number %d was carried out before", w.opts.By.Host, id.Member, id.Attempt)
	case err != nil:
		return w.refused(w.hint(), "the worker on %s cannot write to the folder of the run's logs: %v", w.opts.By.Host, err)
	}
	_ = f.Close() // only the file's name is needed
	return nil
}

// member returns the coordinator's member, or an outcome that says why it is not started.
func (w *worker) member(id job, t *taken) (fleet.Member, *ended) {
	refuse := func(format string, args ...any) (fleet.Member, *ended) {
		return fleet.Member{}, &ended{Verdict: schedule.Failed, ExitCode: failure.Manifest, Error: w.opts.Redact(fmt.Sprintf(format, args...)), Hint: w.hint()}
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

// follow writes the progress of a member's process, until the process has ended.
func (w *worker) follow(ctx context.Context, r *running, progress <-chan rollout.Progress) ended {
	var all []progressRow
	var again <-chan time.Time // when to try again after a failed write
	pauses := wait.Jitter(askEvery, longestPause)
	for {
		select {
		case p := <-progress:
			if p.Ended != nil {
				return w.judge(r, endOf(*p.Ended))
			}
			all = append(all, progressRow{Step: p.Step, Down: p.Down, Changes: p.Changes, Process: p.Process, At: p.At})
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

// judge returns the outcome for the coordinator. If a member ended because this worker
// ends, it must be started elsewhere.
func (w *worker) judge(r *running, e ended) ended {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.leaving && r.asked == 0 && (e.Verdict == schedule.Interrupted || e.Killed) {
		return lost("its worker was asked to end")
	}
	return e
}

// write writes the progress of a member.
func (w *worker) write(ctx context.Context, r *running, all []progressRow) error {
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

// finish records how a member ended, together with the end of River's job, and repeats
// that until the database answers. It records nothing about a member that this worker
// has lost.
func (w *worker) finish(ctx context.Context, j *river.Job[job], since time.Time, e ended) error {
	pauses := wait.Jitter(askEvery, longestPause)
	recorded, err := w.record(ctx, j, e)
	for err != nil {
		if err := wait.For(ctx, pauses.Next()); err != nil {
			return err
		}
		recorded, err = w.record(ctx, j, e)
	}
	event := Event{Status: Ended, Verdict: e.Verdict, Reason: e.Error, Seconds: math.Round(time.Now().Round(0).Sub(since).Seconds()*1000) / 1000}
	switch {
	case !recorded:
		event.Status, event.Reason = Lost, "this worker did not reach the database in time, and the member was given to another one"
	case e.Lost:
		event.Status = Lost
	}
	w.say(w.event(j.Args, event))
	return nil
}

// record writes the outcome of a member and the end of River's job in one transaction.
// It returns false if the member does not belong to this worker any more. It may be
// repeated if an answer was lost.
func (w *worker) record(ctx context.Context, j *river.Job[job], e ended) (recorded bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	id := j.Args
	outcome, err := json.Marshal(w.opts.Key.proven(id, e))
	if err != nil {
		return false, err
	}
	err = pgx.BeginFunc(ctx, w.db.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, `UPDATE `+schema+`.tasks SET ended = now(), outcome = $6
			WHERE fleet = $1 AND run = $2 AND member = $3 AND attempt = $4 AND worker = $5 AND ended IS NULL`, id.Fleet, id.Run, id.Member, id.Attempt, w.id, outcome)
		if err != nil {
			return err
		}
		if recorded = tag.RowsAffected() > 0; !recorded {
			return tx.QueryRow(ctx, `SELECT count(*) > 0 FROM `+schema+`.tasks
				WHERE fleet = $1 AND run = $2 AND member = $3 AND attempt = $4 AND worker = $5 AND outcome = $6`, id.Fleet, id.Run, id.Member, id.Attempt, w.id, outcome).Scan(&recorded)
		}
		_, err = river.JobCompleteTx[*riverpgxv5.Driver](ctx, tx, j)
		if errors.Is(err, rivertype.ErrNotFound) { // somebody has removed the job, for example in River's web page
			return nil
		}
		return err
	})
	return recorded && err == nil, err
}
