package state

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
)

// rescue is what was made in the cloud while the state could not be written.
// It stands beside the state and in the folder of the installation, 0600, in
// the one of them that could be written or in both.
type rescue struct {
	DirectorID     string    `json:"director_id"`
	InstallationID string    `json:"installation_id"`
	Made           []rescued `json:"made"`
}

type rescued struct {
	Intent Intent `json:"intent"`
	CID    string `json:"cid"`
}

func rescueBeside(path string) string { return path + ".rescue.json" }

func rescueIn(home, installation string) string {
	return filepath.Join(home, installation, "rescue.json")
}

// Rescue keeps what a CPI call created under cid when Update could not: the
// next Open records it. It returns the path of the file it stands in.
func (f *File) Rescue(in Intent, cid string) (string, error) {
	var path string
	var errs []error
	for _, file := range f.rescueFiles() {
		if err := f.addRescued(file, rescued{Intent: in, CID: cid}); err != nil {
			errs = append(errs, err)
		} else if path == "" {
			path = file
		}
	}
	if path == "" {
		return "", fmt.Errorf("cannot write down that %s made %s: %w", in.Method, cid, errors.Join(errs...))
	}
	return path, nil
}

func (f *File) rescueFiles() []string {
	files := []string{rescueBeside(f.path)}
	if f.opts.Home != "" {
		files = append(files, rescueIn(f.opts.Home, f.current.InstallationID))
	}
	return files
}

func (f *File) addRescued(file string, made rescued) error {
	r, err := readRescue(file)
	if err != nil || r.InstallationID != f.current.InstallationID {
		r = rescue{DirectorID: f.current.DirectorID, InstallationID: f.current.InstallationID}
	}
	r.Made = append(r.Made, made)
	data, err := json.MarshalIndent(r, "", "    ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(file, data)
}

func readRescue(file string) (rescue, error) {
	var r rescue
	data, err := os.ReadFile(file)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return r, err
	}
	return r, r.check()
}

func (r *rescue) check() error {
	var p problems
	for i, made := range r.Made {
		where := fmt.Sprintf("made[%d]", i)
		made.Intent.check(&p, where, map[string]bool{})
		if strings.TrimSpace(made.CID) == "" {
			p.add("%s has no cid", where)
		}
	}
	return errors.Join(p...)
}

// recover records what an earlier run made and could not.
func (l *loaded) recover(path, home string) {
	s := &l.current
	beside, err := readRescue(rescueBeside(path))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		l.warnings = append(l.warnings, fmt.Errorf("cannot read what an earlier run made and could not record: %s: %w", rescueBeside(path), err))
	}
	// Without a state, the file beside it tells whose it was.
	if err == nil && !l.found && l.legacy == "" && beside.InstallationID != "" {
		s.DirectorID, s.InstallationID = beside.DirectorID, beside.InstallationID
	}
	var all []rescue
	if err == nil {
		all = append(all, beside)
	}
	if home != "" {
		// A copy: the one beside the state is the one people are told of.
		if in, err := readRescue(rescueIn(home, s.InstallationID)); err == nil {
			all = append(all, in)
		}
	}
	var done []string
	for _, r := range all {
		if len(r.Made) == 0 {
			continue
		}
		if r.InstallationID != s.InstallationID {
			l.warnings = append(l.warnings, fmt.Errorf("%s is not of this deployment state and was left alone", rescueBeside(path)))
			continue
		}
		for _, made := range r.Made {
			if !slices.Contains(done, made.Intent.ID) {
				done = append(done, made.Intent.ID)
				l.recordRescued(made)
			}
		}
		l.rescued = true
	}
}

// recordRescued settles what was rescued. What cannot be recorded as what it
// is becomes a leftover: it is not forgotten, and nothing deletes it.
func (l *loaded) recordRescued(made rescued) {
	s := &l.current
	changed := made.CID == made.Intent.Disk // in its place
	if s.Owns(made.CID) && !changed || slices.ContainsFunc(s.Own.Leftovers, func(o Leftover) bool { return o.ID == made.Intent.ID }) {
		_ = s.Settle(made.Intent, "") // nothing to record, which never fails
		return
	}
	if err := s.Settle(made.Intent, made.CID); err != nil {
		left := made.Intent
		left.CID = made.CID
		s.Own.Leftovers = append(s.Own.Leftovers, Leftover{Intent: left, Why: err.Error()})
		l.note("An earlier run could not record that %s made %s; it is a leftover: %v", made.Intent.Method, made.CID, err)
		return
	}
	l.note("An earlier run could not record that %s made %s; it goes into the state", made.Intent.Method, made.CID)
}

// dropRescue removes the files whose content is in the state now.
func (f *File) dropRescue() {
	for _, file := range f.rescueFiles() {
		if r, err := readRescue(file); err == nil && r.InstallationID == f.current.InstallationID {
			f.warn(os.Remove(file))
			for _, made := range r.Made {
				if reply := made.Intent.Reply; filepath.Dir(reply) == filepath.Join(f.dir(), "replies") {
					_ = os.Remove(reply) // the state tells now what it told
					_ = os.Remove(reply + ".child")
				}
			}
		}
	}
}
