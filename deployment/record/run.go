package record

import (
	"slices"
	"strings"
	"time"
)

// Run is a command about several instances that has not ended well. The same command
// continues it, if no other one ran in between.
type Run struct {
	Command  string    `json:"command"`            // recreate, stop, start, restart or deploy --previous
	Selected string    `json:"selected,omitempty"` // names of the selected instances; empty: all
	Begun    time.Time `json:"begun"`
	Done     []string  `json:"done,omitempty"`   // ids of the instances for which it has succeeded
	Inputs   string    `json:"inputs,omitempty"` // deploy --previous: the key of the inputs of the earlier deploy
}

// Continue makes a command the run of the record, and reports whether it continues the
// last run. Otherwise the run begins at the given time.
func (r *Record) Continue(command, selected string, begun time.Time) (again bool) {
	words := strings.Split(selected, ",")
	slices.Sort(words)
	selected = strings.Join(words, ",")
	if r.Run != nil && r.Run.Command == command && r.Run.Selected == selected {
		return true
	}
	r.Run = &Run{Command: command, Selected: selected, Begun: begun}
	return false
}
