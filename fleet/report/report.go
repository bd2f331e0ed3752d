// Package report makes reports from the record of a fleet's run: JSON for programs, JUnit
// XML for CI systems, and an HTML page for people. It is pure: the time and other facts
// come as arguments.
package report

import (
	"encoding/json"
	"math"
	"slices"
	"time"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/printable"
)

// Format is the format of a Report.
const Format = 1

// Status is the state of a run.
type Status string

// The statuses.
const (
	Ended   Status = "ended"
	Running Status = "running"
	Paused  Status = "paused"
	Killed  Status = "killed" // it has not ended, and no process continues it
)

// Report is the report of a run. Its JSON form is described in docs/fleet.md: keys are
// added to it, but none is removed or changed within a format.
type Report struct {
	Format  int             `json:"format"`
	Run     string          `json:"run"`   // its id
	Fleet   string          `json:"fleet"` // its name
	File    string          `json:"file"`  // path of the fleet file
	Action  string          `json:"action"`
	Errand  string          `json:"errand,omitempty"` // its name, if the run runs one
	Chosen  string          `json:"chosen,omitempty"` // flags that selected members
	By      By              `json:"by"`               // who started it, or continued it last
	Status  Status          `json:"status"`
	Result  rollout.Result  `json:"result,omitempty"` // result of a run that has ended
	Reason  string          `json:"reason,omitempty"` // why the run failed or was interrupted
	Made    time.Time       `json:"made"`             // when the report was made
	Started time.Time       `json:"started"`
	Ended   *time.Time      `json:"ended,omitempty"`
	Seconds float64         `json:"seconds"` // how long it took so far
	Numbers rollout.Numbers `json:"numbers"`
	Counts  map[string]int  `json:"counts"` // members by verdict, of all verdicts
	Logs    string          `json:"logs"`   // folder of the members' logs
	Members []Member        `json:"members"`
	// Removed are members that are not in the fleet file any more, but still deployed.
	Removed []rollout.Removed `json:"removed,omitempty"`
}

// By is who started a run.
type By struct {
	User string `json:"user"`
	Host string `json:"host"`
}

// Member is the result of a member. Members have the order in which they start.
type Member struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	Verdict  schedule.Verdict  `json:"verdict"`
	Reason   string            `json:"reason,omitempty"` // why it is blocked, failed, busy or unchanged
	Hint     string            `json:"hint,omitempty"`   // what to do about a failure
	ExitCode int               `json:"exit_code"`
	Changes  []string          `json:"changes,omitempty"` // changes in its plan
	Delete   bool              `json:"delete,omitempty"`  // it was no longer in the fleet file, and is deleted after the others
	Canary   bool              `json:"canary"`
	Wave     int               `json:"wave"`              // 0: none
	Attempts int               `json:"attempts"`          // how often it was started
	Busy     int               `json:"busy"`              // how often another run had locked it
	Started  *time.Time        `json:"started,omitempty"` // start of the last attempt
	Ended    *time.Time        `json:"ended,omitempty"`
	Seconds  float64           `json:"seconds"`           // duration of the last attempt so far
	Down     float64           `json:"down_seconds"`      // how long its service was down, in all attempts
	Outages  []rollout.Outage  `json:"outages,omitempty"` // when it was down
	Step     string            `json:"step,omitempty"`    // the step of its plan that runs
	Machine  string            `json:"machine,omitempty"` // where it ran, if not on the machine of the run
	Log      string            `json:"log,omitempty"`     // path

	// LogEnd is the end of its log, for pages and CI systems, if it did not end
	// well.
	LogEnd string `json:"-"`
}

// Input has the arguments of New.
type Input struct {
	Record *rollout.Record
	Now    time.Time
	Runs   bool // a process runs the run
	// Clean makes a text safe to show: it replaces secrets.
	Clean func(string) string
	// LogEnd returns the end of the log file at a path; empty: there is none.
	LogEnd func(path string) string
}

// maxLogEnds is how many members have the end of their log in a report.
const maxLogEnds = 100

// New returns the report of a run.
func New(in Input) *Report {
	r := in.Record
	v := &Report{
		Format: Format, Run: r.ID, Fleet: in.Clean(r.Name), File: in.Clean(r.Fleet), Action: string(r.Action), Errand: in.Clean(r.Errand), Chosen: in.Clean(r.Chosen),
		By: By{User: in.Clean(r.By.User), Host: in.Clean(r.By.Host)}, Status: status(r, in.Runs), Result: r.Result, Reason: in.Clean(r.Reason),
		Made: rounded(in.Now), Started: rounded(r.Started), Ended: inUTC(r.Ended), Numbers: r.Numbers, Logs: in.Clean(r.Logs),
		Counts: map[string]int{}, Members: make([]Member, len(r.Members)),
	}
	if v.Status == Ended && v.Ended == nil {
		v.Ended = &v.Made
	}
	end := v.end(r)
	v.Seconds = seconds(v.Started, end)
	for _, verdict := range schedule.Verdicts() {
		v.Counts[verdict.String()] = 0
	}
	for _, one := range r.Removed {
		one.Name, one.State, one.VM, one.Problem = in.Clean(one.Name), in.Clean(one.State), in.Clean(one.VM), in.Clean(one.Problem)
		one.Disks = slices.Clone(one.Disks)
		for i, cid := range one.Disks {
			one.Disks[i] = in.Clean(cid)
		}
		v.Removed = append(v.Removed, one)
	}
	ends := 0
	for i, m := range r.Members {
		v.Counts[m.Verdict.String()]++
		one := newMember(m, end, in.Clean)
		if wrong(m.Verdict) && m.Log != "" && ends < maxLogEnds && in.LogEnd != nil {
			one.LogEnd = in.Clean(in.LogEnd(m.Log))
			ends++
		}
		v.Members[i] = one
	}
	return v
}

func newMember(m *rollout.Member, end time.Time, clean func(string) string) Member {
	v := Member{
		Name: clean(m.Name), Verdict: m.Verdict, Reason: clean(m.Reason), Hint: clean(m.Hint), ExitCode: m.ExitCode,
		Delete: m.Delete, Canary: m.Canary, Wave: m.Wave, Attempts: m.Attempts, Busy: m.Tries, Started: inUTC(m.Started), Ended: inUTC(m.Ended),
		Down: math.Round(m.Down*1000) / 1000, Step: clean(m.Step), Machine: clean(m.Machine), Log: clean(m.Log),
	}
	for _, o := range m.Outages {
		v.Outages = append(v.Outages, rollout.Outage{From: rounded(o.From), To: rounded(o.To)})
	}
	for _, change := range m.Changes {
		v.Changes = append(v.Changes, clean(change))
	}
	if len(m.Labels) > 0 {
		v.Labels = map[string]string{}
	}
	for name, value := range m.Labels {
		v.Labels[clean(name)] = clean(value)
	}
	switch {
	case v.Started == nil:
	case v.Ended != nil:
		v.Seconds = seconds(*v.Started, *v.Ended)
	case v.Verdict == schedule.Running:
		v.Seconds = seconds(*v.Started, end)
	}
	return v
}

func status(r *rollout.Record, runs bool) Status {
	switch {
	case r.Ended != nil || r.Result != "":
		return Ended
	case !runs:
		return Killed
	case r.Paused:
		return Paused
	}
	return Running
}

// end returns when the run ended; without an end, the time of the last known event.
func (v *Report) end(r *rollout.Record) time.Time {
	switch v.Status {
	case Ended:
		return *v.Ended
	case Running, Paused:
		return v.Made
	}
	last := v.Started
	for _, m := range r.Members {
		for _, at := range []*time.Time{m.Started, m.Ended, m.Since} {
			if at != nil && at.After(last) {
				last = rounded(*at)
			}
		}
	}
	return last
}

// until returns the end of the time in the report.
func (v *Report) until() time.Time {
	return v.Started.Add(time.Duration(v.Seconds * float64(time.Second)))
}

// seconds returns the time between two moments, in whole milliseconds.
func seconds(from, to time.Time) float64 {
	return float64(max(to.Sub(from), 0).Round(time.Millisecond)/time.Millisecond) / 1000
}

func inUTC(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	utc := rounded(*at)
	return &utc
}

// rounded returns a moment in UTC, to the millisecond.
func rounded(at time.Time) time.Time { return at.UTC().Round(time.Millisecond) }

// wrong reports whether somebody should look at a member with that verdict.
func wrong(v schedule.Verdict) bool {
	return v == schedule.Failed || v == schedule.Busy || v == schedule.Interrupted
}

// word returns the word for a verdict of a member of this run.
func (v *Report) word(verdict schedule.Verdict) string {
	if v.Status == Killed && verdict == schedule.Running {
		return "running when the run was killed"
	}
	return verdict.String()
}

// JSON returns the report as JSON.
func (v *Report) JSON() ([]byte, error) {
	data, err := json.MarshalIndent(v, "", "  ")
	return append(printable.JSON(data), '\n'), err
}
