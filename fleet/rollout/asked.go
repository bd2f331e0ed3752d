package rollout

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Wish is a request to a running run.
type Wish string

// The wishes.
const (
	Pause  Wish = "pause"  // start no member
	Resume Wish = "resume" // start members again
	Abort  Wish = "abort"  // start no more members, and ask the running ones to end
)

// note is the file with a request.
type note struct {
	Wish Wish   `json:"wish"`
	By   string `json:"by"`
}

func askedPath(fleetFile string) string { return Path(fleetFile) + ".asked" }

// NotRunningError says that no run of the fleet is running.
type NotRunningError struct {
	Fleet  string
	Record *Record // record of the last run; nil: there was none
}

func (e *NotRunningError) Error() string {
	switch {
	case e.Record == nil:
		return fmt.Sprintf("no run of %s was ever started", e.Fleet)
	case e.Record.Ended == nil:
		return fmt.Sprintf("no run of %s is running: the last one, of %s, was killed", e.Fleet, report.Minute(e.Record.Started))
	}
	return fmt.Sprintf("no run of %s is running: the last one ended at %s (%s)", e.Fleet, report.Minute(*e.Record.Ended), e.Record.Result)
}

func (e *NotRunningError) Name() string { return "fleet-not-running" }

func (e *NotRunningError) Hint() string {
	if e.Record != nil && e.Record.Ended == nil {
		return fmt.Sprintf("%s continues it, and \"bootstrap fleet abort %s\" ends it", e.Record.again(), e.Fleet)
	}
	return fmt.Sprintf("\"bootstrap fleet deploy %s\" starts one", e.Fleet)
}

// Ask writes a request for the running run of a fleet. Abort also ends a run that was
// killed, so that the next command begins a new one. The error is a *NotRunningError if
// no run is running.
func Ask(fleetFile string, w Wish, by state.Holder) error {
	lock, err := file.LockFleet(lockPath(fleetFile), by)
	var locked *file.LockedError
	if errors.As(err, &locked) {
		data, err := json.Marshal(note{Wish: w, By: fmt.Sprintf("%s@%s", by.User, by.Host)})
		if err == nil {
			err = atomicfile.Replace(askedPath(fleetFile), append(data, '\n'))
		}
		if err != nil {
			return fmt.Errorf("cannot ask the running run: %w", err)
		}
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Remove()
	r, err := Load(fleetFile)
	if err != nil {
		return err
	}
	if w == Abort && r != nil && r.abort(by) {
		return r.save()
	}
	return &NotRunningError{Fleet: fleetFile, Record: r}
}

// takeAsked returns the request since the last call; empty: there is none.
func takeAsked(fleetFile string) (w Wish, by string, err error) {
	path := askedPath(fleetFile)
	data, err := regular.Read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", "", nil
	}
	if err == nil {
		err = os.Remove(path)
	}
	if err != nil {
		return "", "", fmt.Errorf("cannot read the requests to the run: %w", err)
	}
	var n note
	if json.Unmarshal(data, &n) != nil {
		return "", "", nil // it was not written by bootstrap
	}
	return n.Wish, n.By, nil
}
