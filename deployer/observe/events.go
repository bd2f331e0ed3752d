package observe

import (
	"path/filepath"
	"slices"
	"time"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/timeline"
	"bootstrap/state/file"
)

// SeenEvent is a command that has changed a deployment.
type SeenEvent struct {
	Time     time.Time `json:"time"`
	Instance string    `json:"instance,omitempty"` // GROUP/INDEX, of several
	By       string    `json:"by,omitempty"`       // user@host; empty: unknown
	Command  string    `json:"command,omitempty"`  // without values of flags; empty: unknown
	// Status says how it ended; empty: another machine ran it, or it was killed.
	Status  timeline.Status `json:"status,omitempty"`
	Seconds float64         `json:"seconds,omitempty"`
	Error   string          `json:"error,omitempty"`
	Changes []string        `json:"changes"`
}

// writtenLate is how much later than its run a version of the state may have been written.
const writtenLate = 5 * time.Second

// Events lists the commands that have changed the deployment of a state, the newest first:
// the runs on this machine, and those of others of which the versions of the state know.
// home is ~/.bosh.
func Events(home string, versions []file.Version) []SeenEvent {
	list := []SeenEvent{}
	var runs []kept.Event
	read := map[string]bool{}
	for _, v := range versions {
		if id := v.State.InstallationID; v.Err == nil && id != "" && !read[id] {
			read[id] = true
			runs = append(runs, kept.At(filepath.Join(home, id)).Events()...)
		}
	}
	for _, e := range runs {
		list = append(list, SeenEvent{
			Time: e.Began.UTC(), By: e.By, Command: e.Command, Status: e.Status, Seconds: e.Seconds, Error: e.Error, Changes: nonNil(e.Changes),
		})
	}
	for i, v := range versions {
		of := func(e kept.Event) bool {
			return e.Command == v.Writer.Command && !v.Written.Before(e.Began.Truncate(time.Second)) && !v.Written.After(e.End().Add(writtenLate))
		}
		if v.Err != nil || slices.ContainsFunc(runs, of) {
			continue
		}
		var before []string
		if i+1 < len(versions) {
			before = versions[i+1].State.Resources()
		}
		list = append(list, SeenEvent{
			Time: v.Written.UTC(), By: v.Writer.By, Command: v.Writer.Command,
			Changes: nonNil(plan.Resources(before, v.State.Resources())),
		})
	}
	slices.SortStableFunc(list, func(a, b SeenEvent) int { return b.Time.Compare(a.Time) })
	return list
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
