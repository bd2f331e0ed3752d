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
	"bootstrap/deployer/target"
	"bootstrap/internal/wait"
)

// steadyPolls is how many answers in a row must report that all jobs run: a
// process that dies at once runs for a moment.
const steadyPolls = 3

// Most jobs run within quickPolls; until then the pauses are at most quickPoll.
const (
	quickPoll  = 100 * time.Millisecond
	quickPolls = 10 * time.Second
)

// tailLines is how many lines of each log are shown for jobs that do not start.
const tailLines = 10

// waitForRunning waits until the agent has reported several times in a row that
// all jobs run: at least the shorter time of update_watch_time, at most its
// longer time. It asks at once, and often while most jobs start and when they
// run: otherwise later up to a second apart. It wakes a monit that sleeps over what it started.
func (j *jobs) waitForRunning(ctx context.Context) error {
	watch := j.t.About.WatchTime
	limit := max(watch.Max, time.Second)
	outer := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errWatchTime)
	defer cancel()
	began := time.Now()
	quickSince := began
	var last agent.State
	steady, asleep := 0, agent.SleepSince(began)
	for quick, slow := quickPauses(), wait.Grow(2*quickPoll, time.Second, 2); ; {
		now, err := j.agent.GetState(ctx, false)
		if err == nil {
			last = now
			slept := asleep.Begins(now, time.Now())
			if asleep.Lasts(time.Now()) {
				_ = j.agent.Start(ctx) // if it fails, monit wakes by itself
				slept = true
			}
			if slept {
				quick, quickSince = quickPauses(), time.Now()
			}
			// An agent reads the processes before the job state, so the two may
			// disagree.
			if plan.Runs(now, j.processes()) {
				steady++
			} else {
				steady = 0
			}
			if steady >= steadyPolls && time.Since(began) >= watch.Min {
				return nil
			}
		}
		pauses := quick
		if steady == 0 && time.Since(quickSince) > quickPolls {
			pauses = slow
		}
		if err := wait.For(ctx, pauses.Next()); errors.Is(err, errWatchTime) {
			return j.notRunning(outer, last, limit)
		} else if err != nil {
			return err
		}
	}
}

func quickPauses() *wait.Growing { return wait.Grow(20*time.Millisecond, quickPoll, 2) }

var errWatchTime = errors.New("update_watch_time is over")

// notRunning returns the error of jobs that did not start, with the last lines
// of their logs.
func (j *jobs) notRunning(ctx context.Context, last agent.State, waited time.Duration) error {
	var failing []string
	for _, p := range last.Processes {
		if p.State != "running" {
			failing = append(failing, p.Name)
		}
	}
	return &NotRunningError{
		State: last.JobState, Processes: processes(last), Bare: last.JobState != "" && plan.Bare(last, j.processes()), Waited: waited,
		Logs: j.t.Reached(j.agent, j.t.State.Get().CurrentVMCID).TailLogs(ctx, failing, tailLines), Previous: j.hasPrevious(),
	}
}

// checkHealth waits until the health checks of the instance group pass, in their
// order.
func (j *jobs) checkHealth(ctx context.Context) error {
	if len(j.t.About.Health) == 0 {
		return nil
	}
	from := target.HealthFrom(j.t, cmp.Or(j.address, j.t.State.Get().Own.Address))
	return j.t.Out.Do(fmt.Sprintf("Checking the health of instance '%s/0'", j.t.About.Group), func(s *report.Stage) error {
		told := s.Wait(ctx)
		defer told.End()
		for _, c := range j.t.About.Health {
			err := health.Wait(ctx, c, from, func(cause string) { told.Say(health.Name(c) + ": " + cause) })
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
func processes(now agent.State) []string {
	var list []string
	for _, why := range plan.NotRunning(now) {
		list = append(list, why.String())
	}
	return list
}

// NotRunningError says that the jobs did not run in time.
type NotRunningError struct {
	State     string   // job_state in the agent's last answer; empty: none
	Processes []string // those that are not running
	Bare      bool     // the agent has none, although the jobs have some
	Waited    time.Duration
	Logs      []string // the last lines of their logs, without secrets
	Previous  bool     // deploy --previous can put back an earlier deploy
}

func (e *NotRunningError) Error() string {
	what := "the jobs are " + e.State
	if e.State == "" {
		what = "the agent did not report the state of the jobs"
	}
	if e.Bare {
		what = "the agent has no process, although the jobs have some"
	}
	if len(e.Processes) > 0 {
		what += " (" + strings.Join(e.Processes, ", ") + ")"
	}
	text := fmt.Sprintf("%s after %s, which is the end of update.update_watch_time; their logs are in /var/vcap/sys/log on the VM", what, e.Waited)
	if len(e.Logs) > 0 {
		text += "; the last lines:\n" + strings.Join(e.Logs, "\n")
	}
	return text
}
