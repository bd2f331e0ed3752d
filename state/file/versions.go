package file

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"

	"bootstrap/state"
	"bootstrap/state/versions"
)

// Version is an earlier version of a state file: the last one that a run wrote.
type Version struct {
	// Version has in Only resources of which this version is the only record, and which were
	// neither deleted nor removed with a command: "VM vm-1". A version with such resources
	// is not removed.
	versions.Version
	Path  string
	State state.State
	Err   error // why it cannot be read
	// Present is true if the state file is still this version.
	Present bool
	// Forgotten is true if a command has removed the state with its VM: state rm.
	Forgotten bool
}

// Versions lists the backups of the state file at path, newest first.
func Versions(path string) ([]Version, error) {
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	present, err := load(path, Options{})
	if isMoved(err) {
		return nil, err
	}
	if err != nil {
		present = loaded{} // a damaged file is treated like an empty one
	}
	serial := -1
	if present.found {
		serial = present.current.Own.Serial
	}
	list := versionsOf(path, serial, present.current.Resources(), readGone(path))
	l, _ := archiveOf(path).List(context.Background())
	for i := range list {
		list[i].Forgotten = slices.Contains(l.Forgotten, "VM "+list[i].State.CurrentVMCID)
	}
	return list, nil
}

// versionsOf reads the versions of a state file. present is the serial number of the file,
// resources are what it records.
func versionsOf(path string, present int, resources []string, gone map[string]bool) []Version {
	a := archiveOf(path)
	l, _ := a.List(context.Background()) // A folder that cannot be read has none.
	l.Gone = goneList(gone)
	list := make([]Version, len(l.Versions))
	recorded := map[int][]string{}
	for i, of := range l.Versions {
		v := Version{Version: of, Path: a.Path(of.Serial, versions.Snapshot), Present: of.Serial == present}
		if v.State, v.Err = readVersion(v.Path); v.Err == nil {
			recorded[v.Serial] = v.State.Resources()
		}
		list[i] = v
	}
	only := l.Only(resources, func(serial int) []string { return recorded[serial] })
	for i := range list {
		list[i].Only = only[list[i].Serial]
	}
	return list
}

// readVersion reads and checks a version.
func readVersion(path string) (state.State, error) {
	l, err := load(path, Options{})
	if err == nil && !l.found {
		err = fmt.Errorf("cannot read the backup %s: it was removed", path)
	}
	return l.current, err
}

// trimGone removes resources from the list of deleted ones that no version records.
func (s *Store) trimGone() error {
	needed := map[string]bool{}
	for _, v := range versionsOf(s.path, s.current.Own.Serial, nil, nil) {
		for _, resource := range v.State.Resources() {
			needed[resource] = true
		}
	}
	gone := maps.Clone(s.readGone())
	maps.DeleteFunc(gone, func(resource string, _ bool) bool { return !needed[resource] })
	return s.writeGone(gone)
}

// removeBackups removes the backups of a deleted state file, except those that record a
// resource which was not deleted.
func (s *Store) removeBackups() error {
	var kept []int
	for _, v := range versionsOf(s.path, -1, nil, s.readGone()) {
		if len(v.Only) > 0 {
			kept = append(kept, v.Serial)
			s.warn(fmt.Errorf("%s was never deleted, and only the backup %s records it: `bootstrap state backups MANIFEST` lists it", v.Only[0], v.Path))
		}
	}
	err := versions.Clear(context.Background(), s.archive(), kept)
	if len(kept) == 0 {
		err = errors.Join(err, os.RemoveAll(s.archive().Dir))
	}
	if err != nil {
		return fmt.Errorf("cannot remove the backups of the deployment state: %w", err)
	}
	return nil
}

// neededBackups returns the serial numbers of the backups that record something not
// deleted.
func (s *Store) neededBackups() (serials []int) {
	for _, v := range versionsOf(s.path, -1, nil, s.readGone()) {
		if len(v.Only) > 0 {
			serials = append(serials, v.Serial)
		}
	}
	return serials
}

// readGone reads the list of resources that were removed on purpose; a damaged one counts as
// empty.
func readGone(path string) map[string]bool {
	l, _ := archiveOf(path).List(context.Background())
	gone := map[string]bool{}
	for _, resource := range l.Gone {
		gone[resource] = true
	}
	return gone
}

func goneList(gone map[string]bool) []string {
	return append([]string{}, slices.Sorted(maps.Keys(gone))...)
}

// readGone reads the list at the first call. If there are backups and no list, earlier
// versions of the program made the backups: resources that they record and the state
// lacks count as deleted.
func (s *Store) readGone() map[string]bool {
	if s.gone != nil {
		return s.gone
	}
	s.gone = readGone(s.path)
	if l, _ := archiveOf(s.path).List(context.Background()); l.Gone == nil && s.found {
		for _, v := range versionsOf(s.path, s.current.Own.Serial, s.current.Resources(), nil) {
			for _, resource := range v.Only {
				s.gone[resource] = true
			}
		}
	}
	return s.gone
}

// acceptReplaced adds the resources that create-env has replaced since the last backup to
// the list of deleted ones: create-env deletes what it replaces, and removes this program's
// keys from the state file.
func (s *Store) acceptReplaced() error {
	if !s.foreign {
		return nil
	}
	for _, v := range versionsOf(s.path, s.current.Own.Serial, nil, nil) {
		was := v.State
		if v.Err != nil {
			continue
		}
		if was.InstallationID != s.current.InstallationID {
			return nil
		}
		was.Own = state.Own{} // create-env does not know the resources in it
		gone, present := maps.Clone(s.readGone()), s.current.Resources()
		for _, resource := range was.Resources() {
			if !slices.Contains(present, resource) {
				gone[resource] = true
			}
		}
		return s.writeGone(gone)
	}
	return nil
}

// recordDropped adds resources to the list that a write has removed from the state.
func (s *Store) recordDropped(before, after []string) error {
	gone := maps.Clone(s.readGone())
	for _, resource := range before {
		gone[resource] = true
	}
	for _, resource := range after {
		delete(gone, resource)
	}
	return s.writeGone(gone)
}

func (s *Store) writeGone(gone map[string]bool) error {
	s.gone = gone
	a := s.archive()
	if !fileExists(a.Dir) {
		return nil
	}
	present := s.current.Resources()
	l, err := a.List(context.Background())
	if err == nil {
		l.Gone = goneList(gone)
		l.Forgotten = slices.DeleteFunc(l.Forgotten, func(r string) bool { return slices.Contains(present, r) })
		err = a.SetList(context.Background(), l)
	}
	if err != nil {
		return fmt.Errorf("cannot record what was deleted among the backups of the deployment state: %w", err)
	}
	return nil
}

// forget adds what the backups are the only record of to the list of forgotten resources,
// after a command has removed the state. It returns false if there is nothing.
func (s *Store) forget() (bool, error) {
	a := s.archive()
	l, err := a.List(context.Background())
	if err != nil || len(l.Versions) == 0 {
		return false, err
	}
	gone, before := readGone(s.path), len(l.Forgotten)
	for _, v := range versionsOf(s.path, -1, nil, gone) {
		for _, r := range v.Only {
			if !slices.Contains(l.Forgotten, r) {
				l.Forgotten = append(l.Forgotten, r)
			}
		}
	}
	if len(l.Forgotten) == before {
		return false, nil
	}
	l.Gone = goneList(gone)
	return true, a.SetList(context.Background(), l)
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
