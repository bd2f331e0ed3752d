package queue

import (
	"time"

	"github.com/riverqueue/river"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/failure"
)

// job is what River gives to a worker. It is unique, and contains no secrets.
type job struct {
	Fleet   string `json:"fleet"` // path of the fleet file
	Run     string `json:"run"`
	Member  string `json:"member"`
	Attempt int    `json:"attempt"`
}

// Kind returns River's name for such jobs.
func (job) Kind() string { return "bootstrap_member" }

// InsertOpts makes River give a job to a worker only once: the coordinator, not River,
// repeats a start that failed.
func (job) InsertOpts() river.InsertOpts {
	return river.InsertOpts{Queue: line, MaxAttempts: 1, UniqueOpts: river.UniqueOpts{ByArgs: true}}
}

// line is River's queue.
const line = "members"

// progressRow is one rollout.Progress in the table.
type progressRow struct {
	Step    string    `json:"step,omitempty"`
	Down    bool      `json:"down,omitempty"`
	Changes []string  `json:"changes,omitempty"`
	Process int       `json:"process,omitempty"`
	At      time.Time `json:"at"`
}

// ended is a rollout.Outcome in the table.
type ended struct {
	Verdict  schedule.Verdict `json:"verdict"`
	ExitCode failure.Code     `json:"exit_code"`
	Error    string           `json:"error,omitempty"`
	Hint     string           `json:"hint,omitempty"`
	Killed   bool             `json:"killed,omitempty"`
	Lost     bool             `json:"lost,omitempty"`
	Proof    []byte           `json:"proof,omitempty"` // proves that the writer has the key
}

func (e ended) outcome() rollout.Outcome {
	return rollout.Outcome{Verdict: e.Verdict, ExitCode: e.ExitCode, Error: e.Error, Hint: e.Hint, Killed: e.Killed, Lost: e.Lost}
}

// endOf returns an outcome for the table.
func endOf(o rollout.Outcome) ended {
	return ended{Verdict: o.Verdict, ExitCode: o.ExitCode, Error: o.Error, Hint: o.Hint, Killed: o.Killed, Lost: o.Lost}
}

// lost returns the outcome for a member that must be started again.
func lost(why string) ended {
	return ended{Verdict: schedule.Interrupted, ExitCode: failure.Interrupted, Error: why, Lost: true}
}

// withdrawn returns the outcome for a member that was never started.
func withdrawn() ended { return ended{Verdict: schedule.Waiting} }
