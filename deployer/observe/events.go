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
	Instance string    `json:"instance,omitempty"` // GROUP/INDEX, of several; empty: the whole deployment
	By       string    `json:"by,omitempty"`       // user@host; empty: unknown
	Command  string    `json:"command,omitempty"`  // without values of flags; empty: unknown
	// Status says how it ended; empty: another machine ran it, or it was killed.
	Status  timeline.Status `json:"status,omitempty"`
	Seconds float64         `json:"seconds,omitempty"`
	Error   string          `json:"error,omitempty"`
	Changes []string        `json:"changes"`
}

// SeenVersion is a kept version of a state, or of the record and states of a deployment with
// several instances.
type SeenVersion struct {
	First       bool // there was nothing before it
	Written     time.Time
	By, Command string   // of the run that has written it; empty: unknown
	Resources   []string // what it records in the cloud
}

// writtenLate is how much later than its run a version of the state may have been written.
const writtenLate = 5 * time.Second

// Events lists the commands that have changed the deployment of a state, the newest first:
// the runs on this machine, and those of others of which the versions of the state know.
// home is ~/.bosh.
func Events(home string, versions []file.Version) []SeenEvent {
	var runs []kept.Event
	var usable []SeenVersion
	read := map[string]bool{}
	for _, v := range versions {
		if v.Err != nil {
			continue
		}
		if id := v.State.InstallationID; id != "" && !read[id] {
			read[id] = true
			runs = append(runs, kept.At(filepath.Join(home, id)).Events()...)
		}
		usable = append(usable, SeenVersion{Written: v.Written, By: v.By, Command: v.Command, Resources: v.State.Resources()})
	}
	return eventsOf(runs, usable)
}

// EventsOfSeveral is like Events, for a deployment with several instances as a whole. dir
// is the folder of its record, and known are the events of its instances: they are not
// listed again. Versions of an unknown command contain the changes of commands about one
// instance.
func EventsOfSeveral(home, dir string, versions []SeenVersion, known []SeenEvent) []SeenEvent {
	if n := len(versions); n > 0 && !versions[n-1].First {
		versions[n-1].By = "" // What it has changed is unknown: the version before it was removed.
	}
	return slices.DeleteFunc(eventsOf(kept.OfSeveral(home, dir).Events(), versions), func(e SeenEvent) bool {
		return e.By == "" || e.Status == "" && slices.ContainsFunc(known, func(k SeenEvent) bool {
			return wrote(kept.Event{Began: k.Time, Seconds: k.Seconds, Command: k.Command}, e.Time, e.Command)
		})
	})
}

// eventsOf lists runs, and those of the versions that belong to none of the runs.
func eventsOf(runs []kept.Event, versions []SeenVersion) []SeenEvent {
	list := []SeenEvent{}
	for _, e := range runs {
		list = append(list, SeenEvent{
			Time: e.Began.UTC(), By: e.By, Command: e.Command, Status: e.Status, Seconds: e.Seconds, Error: e.Error, Changes: nonNil(e.Changes),
		})
	}
	for i, v := range versions {
		if slices.ContainsFunc(runs, func(e kept.Event) bool { return wrote(e, v.Written, v.Command) }) {
			continue
		}
		var before []string
		if i+1 < len(versions) {
			before = versions[i+1].Resources
		}
		list = append(list, SeenEvent{
			Time: v.Written.UTC(), By: v.By, Command: v.Command, Changes: nonNil(plan.Resources(before, v.Resources)),
		})
	}
	slices.SortStableFunc(list, func(a, b SeenEvent) int { return b.Time.Compare(a.Time) })
	return list
}

// wrote reports whether a run has written the version of a time and command.
func wrote(e kept.Event, written time.Time, command string) bool {
	return e.Command == command && !written.Before(e.Began.Truncate(time.Second)) && !written.After(e.End().Add(writtenLate))
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
