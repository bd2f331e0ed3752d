package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/state"
)

// rescue lists objects that CPI calls created while the state could not be written. It is
// a file, 0600, next to the state file, in the folder of the installation, or both.
type rescue struct {
	DirectorID     string    `json:"director_id"`
	InstallationID string    `json:"installation_id"`
	Made           []rescued `json:"made"`
}

type rescued struct {
	Intent state.Intent `json:"intent"`
	CID    string       `json:"cid"`
}

func rescueBeside(path string) string { return path + ".rescue.json" }

func rescueIn(home, installation string) string {
	return filepath.Join(home, installation, "rescue.json")
}

// Rescue stores the CID of a created object in a file if Update failed; the next Open
// records it. It returns the path of the file.
func (s *Store) Rescue(in state.Intent, cid string) (string, error) {
	var path string
	var errs []error
	for _, file := range s.rescueFiles() {
		if err := s.addRescued(file, rescued{Intent: in, CID: cid}); err != nil {
			errs = append(errs, err)
		} else if path == "" {
			path = file
		}
	}
	if path == "" {
		return "", fmt.Errorf("cannot record that %s made %s: %w", in.Method, cid, errors.Join(errs...))
	}
	return path, nil
}

func (s *Store) rescueFiles() []string {
	files := []string{rescueBeside(s.path)}
	if s.opts.Home != "" {
		files = append(files, rescueIn(s.opts.Home, s.current.InstallationID))
	}
	return files
}

func (s *Store) addRescued(file string, made rescued) error {
	r, err := readRescue(file)
	if err != nil || r.InstallationID != s.current.InstallationID {
		r = rescue{DirectorID: s.current.DirectorID, InstallationID: s.current.InstallationID}
	}
	r.Made = append(r.Made, made)
	data, err := json.MarshalIndent(r, "", "    ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(file, data)
}

func readRescue(file string) (rescue, error) {
	var r rescue
	data, err := regular.Read(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	return r, r.check()
}

func (r *rescue) check() error {
	var errs []error
	for i, made := range r.Made {
		where := fmt.Sprintf("made[%d]", i)
		errs = append(errs, made.Intent.Check(where))
		if strings.TrimSpace(made.CID) == "" {
			errs = append(errs, fmt.Errorf("%s has no cid", where))
		}
	}
	return errors.Join(errs...)
}

// recover records the objects in rescue files of earlier runs.
func (l *loaded) recover(path, home string) {
	st := &l.current
	beside, err := readRescue(rescueBeside(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.warnings = append(l.warnings, fmt.Errorf("cannot read %s, where an earlier run recorded what it could not add to the state: %w", rescueBeside(path), err))
	}
	// If there is no state, the rescue file at its path contains the id of the
	// installation.
	if err == nil && !l.found && l.legacy == "" && beside.InstallationID != "" {
		st.DirectorID, st.InstallationID = beside.DirectorID, beside.InstallationID
	}
	var all []rescue
	if err == nil {
		all = append(all, beside)
	}
	if home != "" {
		// This file is a copy; messages name only the file next to the state.
		if in, err := readRescue(rescueIn(home, st.InstallationID)); err == nil {
			all = append(all, in)
		}
	}
	var done []string // ids of intents
	for _, r := range all {
		if len(r.Made) == 0 {
			continue
		}
		if r.InstallationID != st.InstallationID {
			l.warnings = append(l.warnings, fmt.Errorf("%s belongs to another deployment state and was left alone", rescueBeside(path)))
			continue
		}
		for _, made := range r.Made {
			if slices.Contains(done, made.Intent.ID) {
				continue
			}
			done = append(done, made.Intent.ID)
			if note := st.Recover(made.Intent, made.CID); note != "" {
				l.note("%s", note)
			}
		}
		l.rescued = true
	}
}

// removeRescue removes rescue files whose content is in the state, and the CPI's
// replies with the same content.
func (s *Store) removeRescue() {
	for _, file := range s.rescueFiles() {
		r, err := readRescue(file)
		if err != nil || r.InstallationID != s.current.InstallationID {
			continue
		}
		s.warn(os.Remove(file))
		for _, made := range r.Made {
			if reply := made.Intent.Reply; filepath.Dir(reply) == filepath.Join(s.dir(), "replies") {
				_ = os.Remove(reply)
				_ = os.Remove(reply + ".child")
			}
		}
	}
}
