package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/health"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/wait"
	"bootstrap/manifest"
)

// steadyPolls is the number of consecutive answers in which all jobs must run: a process
// that ends at once runs for a moment.
const steadyPolls = 3

// Most jobs run within quickPolls; until then the pauses are at most quickPoll.
const (
	quickPoll  = 100 * time.Millisecond
	quickPolls = 10 * time.Second
)

// tailLines is how many lines of each log are shown for jobs that do not start.
const tailLines = 10

// waitForRunning waits until the agent has reported several times in a row that all jobs
// run: at least for the time least, at most for the longer one of update_watch_time. A process that
// was seen to crash must run for longer than it has ever lived before. A crash loop ends the
// wait, unless update.crash_loops is wait. The agent is asked often at first, and when the
// jobs run, and otherwise at intervals of up to a second. A monit that sleeps after starting
// the jobs is woken up.
func (j *jobs) waitForRunning(ctx context.Context, s *report.Stage, least time.Duration) error {
	watch := j.rec.About.WatchTime
	limit := max(watch.Max, time.Second)
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errWatchTime)
	defer cancel()
	waiting := s.Wait(ctx)
	defer waiting.End()
	began := time.Now()
	quickSince, seen := began, j.history()
	var last agent.State
	var unproven *Unproven
	steady, asleep := 0, agent.SleepSince(began)
	for quick, slow := quickPauses(), wait.Grow(2*quickPoll, time.Second, 2); ; {
		now, err := j.agent.GetState(ctx, false)
		if err == nil {
			last = now
			if err := j.refuseLost(now); err != nil {
				return err
			}
			if steady == 0 {
				seen.expect(plan.Unproven(j.rec.State.Get(), now))
				seen.expect(j.suspects)
			}
			crashing := seen.take(now, time.Now())
			if crashing != nil && j.rec.About.CrashLoops != manifest.WaitForCrashLoops {
				return j.notRunning(outer, last, seen, &NotRunningError{Crashing: crashing})
			}
			waiting.Say(cmp.Or(seen.words(now), "the jobs are "+now.JobState))
			slept := asleep.Begins(now, time.Now())
			if asleep.Lasts(time.Now()) {
				_ = j.agent.Start(ctx) // If this fails, monit wakes up later.
				slept = true
			}
			if slept {
				quick, quickSince = quickPauses(), time.Now()
			}
			// An agent reads the processes before the job state, so the two may differ.
			if plan.Runs(now, j.processes()) {
				steady++
			} else {
				steady = 0
			}
			unproven = seen.unproven(now, time.Now())
			if steady >= steadyPolls && unproven == nil && time.Since(began) >= least {
				return nil
			}
		}
		pauses := quick
		if steady == 0 && time.Since(quickSince) > quickPolls || steady > steadyPolls && unproven != nil {
			pauses = slow
		}
		if err := wait.For(ctx, pauses.Next()); errors.Is(err, errWatchTime) {
			return j.notRunning(outer, last, seen, &NotRunningError{Waited: limit, Unproven: unproven})
		} else if err != nil {
			return err
		}
	}
}

// history returns what the answers of the agent have shown since the jobs were started.
func (j *jobs) history() *crashes {
	if j.seen == nil {
		j.seen = watchCrashes(time.Now(), j.rec.About.Local != "")
	}
	return j.seen
}

// refuseLost returns an error if a VM has no jobs at all, because waiting for them would
// be useless.
func (j *jobs) refuseLost(now agent.State) error {
	if now.Deployment != "" {
		return nil
	}
	return &LostError{VM: j.vm, Bare: true, Instance: j.rec.About.Instance()}
}

func quickPauses() *wait.Growing { return wait.Grow(20*time.Millisecond, quickPoll, 2) }

var errWatchTime = errors.New("update_watch_time is over")

// notRunning adds the last lines of the logs to the error for jobs that do not run.
func (j *jobs) notRunning(ctx context.Context, last agent.State, seen *crashes, e *NotRunningError) error {
	e.State, e.Processes = last.JobState, processes(last, j.processes())
	e.Bare = last.JobState != "" && plan.Bare(last, j.processes())
	e.Logs = withoutRepeats(j.agents.Reached(j.agent, j.vm).TailLogs(ctx, j.begun, seen.names(last), tailLines))
	e.Previous = j.hasPrevious()
	return e
}

// checkHealth waits until the health checks of the instance group pass, in their
// order.
func (j *jobs) checkHealth(ctx context.Context, _ plan.Step) error {
	if n := j.rec.About.OtherChecks; n > 0 {
		j.rec.Out.Warning(fmt.Sprintf("health checks that run a program were skipped, because another machine recorded them: %d", n))
	}
	if len(j.rec.About.Health) == 0 {
		return nil
	}
	from := j.agents.HealthFrom(cmp.Or(j.address, j.rec.State.Get().Own.Address))
	return j.rec.Out.Do(fmt.Sprintf("Checking the health of instance '%s'", j.rec.About.Instance()), func(s *report.Stage) error {
		waiting := s.Wait(ctx)
		defer waiting.End()
		for _, c := range j.rec.About.Health {
			err := health.Wait(ctx, c, from, func(cause string) { waiting.Say(health.Name(c) + ": " + cause) })
			if failing, ok := errors.AsType[*health.UnhealthyError](err); ok {
				failing.Previous = j.hasPrevious()
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// processes lists the processes that are not running, with their states.
func processes(now agent.State, expected []string) []string {
	var list []string
	for _, why := range plan.NotRunning(now, expected) {
		list = append(list, why.String())
	}
	return list
}

// NotRunningError says that the jobs did not run in time, or cannot run.
type NotRunningError struct {
	State     string   // job_state in the agent's last answer; empty: no answer
	Processes []string // processes that are not running
	Bare      bool     // the agent runs no process, although the jobs have some
	Waited    time.Duration
	Crashing  *Crashing // the crash loop that ended the wait; nil: the time is over
	Unproven  *Unproven // a process that has crashed and runs for too short a time; nil: none
	Logs      []string  // the last lines of the processes' logs, without secrets
	Previous  bool      // deploy --previous can put back an earlier deploy
}

func (e *NotRunningError) Error() string {
	what := "the jobs are " + e.State
	switch {
	case e.Crashing != nil:
		what = e.Crashing.String()
	case e.State == "":
		what = "the agent did not report the state of the jobs"
	case e.Bare:
		what = "the agent runs no process, although the jobs have some"
	case len(e.Processes) == 0 && e.Unproven != nil:
		what = e.Unproven.String()
	case len(e.Processes) > 0:
		what = strings.ReplaceAll(strings.Join(e.Processes, ", "), " is failing", " keeps failing")
	}
	text := what + "; gave up, because update.crash_loops is not wait"
	if e.Crashing == nil {
		text = fmt.Sprintf("%s; gave up after %s (update.update_watch_time)", what, e.Waited)
	}
	text += "; the logs are in /var/vcap/sys/log on the VM"
	if len(e.Logs) > 0 {
		text += "; the last lines:\n" + strings.Join(e.Logs, "\n")
	}
	return text
}

func (e *NotRunningError) Name() string { return "jobs-not-running" }

func (e *NotRunningError) Hint() string { return health.Remedy(e.Previous) }
