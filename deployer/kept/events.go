package kept

import (
	"fmt"
	"strings"
	"time"

	"bootstrap/deployer/timeline"
)

// mostEvents is the number of runs that are remembered.
const mostEvents = 200

// Event is a run that has changed something: who ran what, and how it ended.
type Event struct {
	Began   time.Time       `json:"began"`
	Seconds float64         `json:"seconds"`
	By      string          `json:"by,omitempty"` // user@host
	Command string          `json:"command"`      // with the names of its flags, but without their values
	Status  timeline.Status `json:"status"`
	Error   string          `json:"error,omitempty"` // without secrets
	Changes []string        `json:"changes,omitempty"`
}

// End returns when the run ended.
func (e Event) End() time.Time { return e.Began.Add(time.Duration(e.Seconds * float64(time.Second))) }

// events is the file of the events, the newest run first.
type events struct {
	Runs []Event `json:"runs"`
}

// maxError limits the error of an event, in bytes.
const maxError = 500

// AddEvent records a run that has changed something.
func (f Folder) AddEvent(e Event) error {
	e.Error = strings.ToValidUTF8(e.Error[:min(len(e.Error), maxError)], "")
	list := append([]Event{e}, f.Events()...)
	if err := f.write(eventsFile, events{list[:min(len(list), mostEvents)]}); err != nil {
		return fmt.Errorf("cannot record this run for `bootstrap events`: %w", err)
	}
	return nil
}

// Events returns the last runs on this machine that have changed something, the newest
// first.
func (f Folder) Events() []Event {
	var all events
	f.read(eventsFile, &all)
	return all.Runs
}
