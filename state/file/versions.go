package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/state"
)

// Version is a backup and its content.
type Version struct {
	Backup
	State state.State
	Err   error // why it cannot be read
	// Present is true if the state file is still this version.
	Present bool
	// Only lists resources of which this version is the only record, and which were
	// neither deleted nor removed with a command: "VM vm-1". A version with such
	// resources is not pruned.
	Only []string
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
	return versionsOf(path, serial, present.current.Resources(), readGone(path)), nil
}

func versionsOf(path string, present int, resources []string, gone map[string]bool) []Version {
	later := map[string]bool{}
	for _, resource := range resources {
		later[resource] = true
	}
	var list []Version
	for _, b := range backupsOf(path) {
		v := Version{Backup: b, Present: b.Serial == present}
		v.State, v.Err = b.read()
		if v.Err == nil {
			for _, resource := range v.State.Resources() {
				if !later[resource] && !gone[resource] {
					v.Only = append(v.Only, resource)
				}
				later[resource] = true
			}
		}
		list = append(list, v)
	}
	return list
}

// pruneBackups removes the oldest backups, except those that are the only record of
// something.
func (s *Store) pruneBackups() error {
	list := versionsOf(s.path, s.current.Own.Serial, s.current.Resources(), s.readGone())
	var errs []error
	needed := map[string]bool{}
	earlier := 0
	for _, v := range list {
		if !v.Present {
			earlier++
		}
		if earlier > keptBackups && len(v.Only) == 0 {
			errs = append(errs, os.Remove(v.Path))
			continue
		}
		for _, resource := range v.State.Resources() {
			needed[resource] = true
		}
	}
	// The list needs only resources that a backup records.
	gone := maps.Clone(s.gone)
	maps.DeleteFunc(gone, func(resource string, _ bool) bool { return !needed[resource] })
	return errors.Join(append(errs, s.writeGone(gone))...)
}

// removeBackups removes the backups of a deleted state file, except those that record a
// resource which was not deleted.
func (s *Store) removeBackups() error {
	var errs []error
	kept := 0
	for _, v := range versionsOf(s.path, -1, nil, s.readGone()) {
		if len(v.Only) > 0 {
			kept++
			s.warn(fmt.Errorf("%s was never deleted, and only the backup %s records it: `bootstrap state backups MANIFEST` lists it", v.Only[0], v.Path))
			continue
		}
		errs = append(errs, os.Remove(v.Path))
	}
	if kept == 0 {
		errs = append(errs, os.RemoveAll(s.backups()))
	}
	if err := errors.Join(errs...); err != nil {
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

// dropped is the name of a file in the folder of the backups. It lists resources that
// were removed from the state on purpose: they were deleted, or the user removed the
// record with a command. A resource that is in a backup, but neither in the state nor in
// this list, was lost with the file or by a restore.
type dropped struct {
	Gone []string `json:"gone"`
}

func goneFile(path string) string { return filepath.Join(backupDir(path), "gone.json") }

// readGone reads the list; a damaged one counts as empty.
func readGone(path string) map[string]bool {
	var d dropped
	if data, err := regular.Read(goneFile(path)); err == nil {
		_ = json.Unmarshal(data, &d)
	}
	gone := map[string]bool{}
	for _, resource := range d.Gone {
		gone[resource] = true
	}
	return gone
}

// readGone reads the list at the first call. If there are backups and no list, earlier
// versions of the program made the backups: resources that they record and the state
// lacks count as deleted.
func (s *Store) readGone() map[string]bool {
	if s.gone != nil {
		return s.gone
	}
	s.gone = readGone(s.path)
	if _, err := os.Stat(goneFile(s.path)); errors.Is(err, fs.ErrNotExist) && s.found {
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
	for _, b := range backupsOf(s.path) {
		was, err := b.read()
		if err != nil {
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
	same := maps.Equal(s.gone, gone)
	s.gone = gone
	if !fileExists(s.backups()) || same && fileExists(goneFile(s.path)) {
		return nil
	}
	data, err := json.MarshalIndent(dropped{Gone: slices.Sorted(maps.Keys(gone))}, "", "    ")
	if err == nil {
		atomicfile.RemoveStale(goneFile(s.path))
		err = atomicfile.Replace(goneFile(s.path), data)
	}
	if err != nil {
		return fmt.Errorf("cannot record what was deleted among the backups of the deployment state: %w", err)
	}
	atomicfile.Match(goneFile(s.path), s.path)
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
