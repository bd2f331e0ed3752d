// Package rollout updates the members of a fleet on one machine. Each member is a
// child process of this program; fleet/schedule decides which one starts when. A
// record in the folder of the fleet file has the verdict of each, so that the same
// command continues after a kill.
package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/deployer/report"
	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/state"
)

// Format is the format of a Record.
const Format = 1

// Result is the result of a run.
type Result string

// The results. A run without a result has not ended, or was killed.
const (
	Done        Result = "done"
	Failed      Result = "failed"
	Busy        Result = "busy"        // some members could not be locked
	Interrupted Result = "interrupted" // somebody asked it to end
	Aborted     Result = "aborted"     // somebody asked it to end, and not to be continued
)

// Record is a run of a fleet. It is written after every verdict.
type Record struct {
	Format  int            `json:"format"`
	ID      string         `json:"id"`
	Fleet   string         `json:"fleet"` // absolute path of the fleet file
	Name    string         `json:"name"`
	Action  fleet.Strategy `json:"action"`
	Errand  string         `json:"errand,omitempty"` // its name, if the run runs one
	Chosen  string         `json:"chosen,omitempty"` // the selectors and flags of the command line
	By      state.Holder   `json:"by"`               // who started or last continued it
	Started time.Time      `json:"started"`
	Ended   *time.Time     `json:"ended,omitempty"`
	Result  Result         `json:"result,omitempty"`
	Reason  string         `json:"reason,omitempty"` // why it failed or was interrupted
	Paused  bool           `json:"paused,omitempty"`
	Numbers Numbers        `json:"numbers"`
	Logs    string         `json:"logs"`    // folder of the members' logs
	Members []*Member      `json:"members"` // in the order in which they start
	// Known lists the members of the fleet file, and removed members that were still
	// deployed.
	Known []Known `json:"known,omitempty"`
	// Removed lists members that were not in the fleet file any more when the run began,
	// and were still deployed.
	Removed []Removed `json:"removed,omitempty"`
}

// Numbers are the rules of a run, in members.
type Numbers struct {
	Members     int   `json:"members"` // number of selected members
	ToDo        int   `json:"to_do"`   // number of members with changes when the run began
	Canaries    int   `json:"canaries"`
	MaxInFlight int   `json:"max_in_flight"`
	Waves       []int `json:"waves,omitempty"` // the last size repeats
	MaxFailures int   `json:"max_failures"`
	ToDelete    int   `json:"to_delete,omitempty"` // number of members that are deleted after the others
}

// Member is a member in a Record.
type Member struct {
	Name     string            `json:"name"`
	Labels   map[string]string `json:"labels,omitempty"`
	Verdict  schedule.Verdict  `json:"verdict"`
	Reason   string            `json:"reason,omitempty"` // why it is blocked, failed, busy or unchanged
	Hint     string            `json:"hint,omitempty"`   // what to do about a failure
	ExitCode int               `json:"exit_code,omitempty"`
	Changes  []string          `json:"changes,omitempty"` // changes in its plan: "replace vm"
	Delete   bool              `json:"delete,omitempty"`  // it is no longer in the fleet file, and is deleted after the others
	Planned  []string          `json:"down,omitempty"`    // steps of its plan during which the service is down
	Canary   bool              `json:"canary,omitempty"`
	Wave     int               `json:"wave,omitempty"`
	Tries    int               `json:"tries,omitempty"`    // how often it was busy
	Attempts int               `json:"attempts,omitempty"` // how often it was started
	Started  *time.Time        `json:"started,omitempty"`  // start of the last attempt
	Ended    *time.Time        `json:"ended,omitempty"`
	Down     float64           `json:"down_seconds,omitempty"` // how long the service was down
	Outages  []Outage          `json:"outages,omitempty"`      // when it was down
	Step     string            `json:"step,omitempty"`         // the step of its plan that runs
	Since    *time.Time        `json:"since,omitempty"`        // when that step began
	Log      string            `json:"log,omitempty"`          // path
	Machine  string            `json:"machine,omitempty"`      // where it is running or was running last; empty: on this machine
	Process  int               `json:"process,omitempty"`

	Candidate bool `json:"candidate,omitempty"` // it may be a canary
	killed    bool // an earlier run was killed while it ran
	lost      int  // how often the machine on which it was running was lost

	heldBy *report.Holder  // holder of the address that its plan requested
	gives  map[string]bool // addresses that its plan gives up, as "10.0.0.5 of default"
}

// Outage is a time during which the service of a member was down.
type Outage struct {
	From time.Time `json:"from"`
	To   time.Time `json:"to"`
}

// Path returns the path of the record of a fleet file.
func Path(fleetFile string) string {
	return strings.TrimSuffix(fleetFile, filepath.Ext(fleetFile)) + "-run.json"
}

// maxRecord limits the size of a record.
const maxRecord = 512 << 20

// Load reads the record of a fleet file; nil if there is none.
func Load(fleetFile string) (*Record, error) {
	path := Path(fleetFile)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err == nil && !info.Mode().IsRegular(): // opening a pipe would wait for its writer
		err = errors.New("it is not a regular file")
	case err == nil && info.Size() > maxRecord:
		err = fmt.Errorf("it is larger than %d MiB", maxRecord>>20)
	}
	var data []byte
	if err == nil {
		data, err = regular.ReadUpTo(path, maxRecord)
	}
	var r Record
	if err == nil {
		err = json.Unmarshal(data, &r)
	}
	if err == nil && (r.Format == Format && r.ID == "" || slices.Contains(r.Members, nil)) {
		err = errors.New("it is damaged")
	}
	if failure, ok := errors.AsType[*fs.PathError](err); ok {
		err = failure.Err
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the record of the last run, %s: %w; move it away to begin a new run", path, err)
	case r.Format != Format:
		return nil, fmt.Errorf("the record of the last run, %s, has the format %d, and this bootstrap reads format %d: use the version that wrote it, or move it away to begin a new run", path, r.Format, Format)
	}
	r.Fleet = fleetFile // the folder may have been moved or copied
	return &r, nil
}

func (r *Record) save() error {
	data, err := json.MarshalIndent(r, "", " ")
	if err == nil {
		err = atomicfile.Write(Path(r.Fleet), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write the record of the run: %w", err)
	}
	return nil
}

// Deletes reports whether the run deletes members.
func (r *Record) Deletes() bool { return r.Action == fleet.DeleteStrategy }

// Count returns the number of members for each verdict.
func (r *Record) Count() map[schedule.Verdict]int {
	counts := map[schedule.Verdict]int{}
	for _, m := range r.Members {
		counts[m.Verdict]++
	}
	return counts
}

// Summary returns these numbers as text: "3 done, 1 failed".
func (r *Record) Summary() string {
	counts := r.Count()
	var words []string
	for _, v := range schedule.Verdicts() {
		if counts[v] > 0 {
			words = append(words, fmt.Sprintf("%d %s", counts[v], v))
		}
	}
	return strings.Join(words, ", ")
}

// Find returns the member with that name, or nil.
func (r *Record) Find(name string) *Member {
	if r == nil {
		return nil
	}
	for _, m := range r.Members {
		if m.Name == name {
			return m
		}
	}
	return nil
}

// abort marks a run that was killed or failed as aborted, so that it is not continued. It
// reports whether it was such a run.
func (r *Record) abort(by state.Holder) bool {
	if r.Result == Done || r.Result == Aborted {
		return false
	}
	now := time.Now().UTC()
	r.Ended, r.Result, r.Reason, r.Paused = &now, Aborted, fmt.Sprintf("it was aborted by %s@%s", by.User, by.Host), false
	for _, m := range r.Members {
		switch m.Verdict {
		case schedule.Waiting:
			m.Verdict = schedule.NotStarted
		case schedule.Running:
			m.Verdict = schedule.Interrupted
		}
	}
	return true
}
