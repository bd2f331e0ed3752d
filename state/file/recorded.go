package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/internal/regular"
	"bootstrap/state"
	"bootstrap/state/team"
)

// Recorded is a deployment in this machine's records.
type Recorded struct {
	Installation string // its installation id
	Path         string // path of the state file
	Place        string // the store if the file is a copy; otherwise empty
	// State is the content of the state file. If that cannot be read, State has only the
	// CIDs and the program's own part from this machine's last record.
	State state.State
	Err   error // why the state file cannot be read; a *GoneError if it does not exist any more
}

// GoneError says that a recorded state file does not exist any more.
type GoneError struct {
	Path  string
	Other bool // the path contains the state of another installation
}

func (e *GoneError) Error() string {
	if e.Other {
		return fmt.Sprintf("the state file %s was replaced by that of another installation", e.Path)
	}
	return fmt.Sprintf("the state file %s is gone", e.Path)
}

// AllRecorded returns the deployments with a record in home, which is ~/.bosh: those that
// this machine deployed, and the copies of states in stores.
func AllRecorded(home string) ([]Recorded, error) {
	entries, err := os.ReadDir(home)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what this machine has recorded: %w", err)
	}
	var list []Recorded
	for _, entry := range entries {
		data, err := regular.Read(mirrorOf(home, entry.Name()))
		var m mirror
		if err != nil || json.Unmarshal(data, &m) != nil {
			continue
		}
		list = append(list, recordedOf(home, entry.Name(), m))
	}
	copies, _ := os.ReadDir(filepath.Join(home, "team")) // the folder need not exist
	var paths []string
	for _, entry := range copies {
		paths = append(paths, team.StatesIn(filepath.Join(home, "team", entry.Name()))...)
	}
	for _, path := range paths {
		listed := slices.ContainsFunc(list, func(r Recorded) bool { return r.Path == path && r.Err == nil })
		st, found, err := Read(path, home)
		if !listed && found && err == nil {
			list = append(list, Recorded{Installation: st.InstallationID, Path: path, Place: team.PlaceOf(path), State: st})
		}
	}
	return list, nil
}

// recordedOf reads the state file of a record.
func recordedOf(home, installation string, m mirror) Recorded {
	r := Recorded{Installation: installation, Path: m.State, Place: team.PlaceOf(m.State)}
	st, found, err := Read(m.State, home)
	switch {
	case err != nil:
		r.Err = err
	case !found:
		r.Err = &GoneError{Path: m.State}
	case st.InstallationID != installation:
		r.Err = &GoneError{Path: m.State, Other: true}
	default:
		r.State = st
		return r
	}
	r.State = state.State{InstallationID: installation, CurrentVMCID: m.VM, Own: m.Own}
	return r
}
