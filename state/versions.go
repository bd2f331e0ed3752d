package state

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
)

// Version is a backup and what is known of it.
type Version struct {
	Backup
	State State
	Err   error // why it cannot be read
	// Present tells that the state file is still this version.
	Present bool
	// Only lists what neither a later version nor the state file records, and
	// nobody has deleted or forgotten: "VM vm-1". Such a version is not dropped.
	Only []string
}

// Versions lists the backups of the state file at path, newest first.
func Versions(path string) ([]Version, error) {
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	present, err := load(path, Options{})
	if err != nil {
		present = loaded{} // damaged: it records nothing
	}
	serial := -1
	if present.found {
		serial = present.current.Own.Serial
	}
	return versionsOf(path, serial, present.current.things(), readGone(path)), nil
}

func versionsOf(path string, present int, things []string, gone map[string]bool) []Version {
	later := map[string]bool{}
	for _, thing := range things {
		later[thing] = true
	}
	var list []Version
	for _, b := range backupsOf(path) {
		v := Version{Backup: b, Present: b.Serial == present}
		v.State, v.Err = b.Load()
		if v.Err == nil {
			for _, thing := range v.State.things() {
				if !later[thing] && !gone[thing] {
					v.Only = append(v.Only, thing)
				}
				later[thing] = true
			}
		}
		list = append(list, v)
	}
	return list
}

// pruneBackups drops the oldest backups, but none that alone records something.
func (f *File) pruneBackups() error {
	list := versionsOf(f.path, f.current.Own.Serial, f.current.things(), f.readGone())
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
		for _, thing := range v.State.things() {
			needed[thing] = true
		}
	}
	// What no backup records need not be listed as deleted.
	gone := maps.Clone(f.gone)
	maps.DeleteFunc(gone, func(thing string, _ bool) bool { return !needed[thing] })
	return errors.Join(append(errs, f.writeGone(gone))...)
}

// removeBackups removes the backups when the state file is gone, but for those
// that record what nobody has deleted.
func (f *File) removeBackups() error {
	var errs []error
	kept := 0
	for _, v := range versionsOf(f.path, -1, nil, f.readGone()) {
		if len(v.Only) > 0 {
			kept++
			f.warn(fmt.Errorf("%s was never deleted, and only the backup %s records it: `bootstrap state backups` lists it", v.Only[0], v.Path))
			continue
		}
		errs = append(errs, os.Remove(v.Path))
	}
	if kept == 0 {
		errs = append(errs, os.RemoveAll(f.backups()))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("cannot remove the backups of the deployment state: %w", err)
	}
	return nil
}

// things lists what the state records in the cloud under a CID.
func (s *State) things() []string {
	var list []string
	add := func(what, cid string) {
		if cid != "" && !slices.Contains(list, what+" "+cid) {
			list = append(list, what+" "+cid)
		}
	}
	add("VM", s.CurrentVMCID)
	if s.Own.Swap != nil {
		add("VM", s.Own.Swap.CID)
	}
	for _, d := range s.Disks {
		add("disk", d.CID)
	}
	for _, o := range s.Own.Orphans {
		add("disk", o.CID)
	}
	for _, r := range s.Stemcells {
		add("stemcell", r.CID)
	}
	for _, c := range s.Own.Snapshots {
		add("snapshot", c.CID)
	}
	return list
}

// dropped is the file beside the backups that lists what was dropped from the
// state on purpose, because it was deleted or somebody said so. What is missing
// in the state and is not listed was lost: with the file, or by a restore.
type dropped struct {
	Gone []string `json:"gone"`
}

func goneFile(path string) string { return filepath.Join(backupDir(path), "gone.json") }

// readGone reads the list; one that is damaged lists nothing.
func readGone(path string) map[string]bool {
	var d dropped
	if data, err := os.ReadFile(goneFile(path)); err == nil {
		_ = json.Unmarshal(data, &d)
	}
	gone := map[string]bool{}
	for _, thing := range d.Gone {
		gone[thing] = true
	}
	return gone
}

// readGone reads the list once. Where backups were kept without one, what is not
// in the state any more is taken as deleted.
func (f *File) readGone() map[string]bool {
	if f.gone != nil {
		return f.gone
	}
	f.gone = readGone(f.path)
	if _, err := os.Stat(goneFile(f.path)); errors.Is(err, fs.ErrNotExist) && f.found {
		for _, v := range versionsOf(f.path, f.current.Own.Serial, f.current.things(), nil) {
			for _, thing := range v.Only {
				f.gone[thing] = true
			}
		}
	}
	return f.gone
}

// drop notes what a write has dropped from the state.
func (f *File) drop(before, after []string) error {
	gone := maps.Clone(f.readGone())
	for _, thing := range before {
		gone[thing] = true
	}
	for _, thing := range after {
		delete(gone, thing)
	}
	return f.writeGone(gone)
}

func (f *File) writeGone(gone map[string]bool) error {
	same := maps.Equal(f.gone, gone)
	f.gone = gone
	if !fileExists(f.backups()) || same && fileExists(goneFile(f.path)) {
		return nil
	}
	data, err := json.MarshalIndent(dropped{Gone: slices.Sorted(maps.Keys(gone))}, "", "    ")
	if err == nil {
		err = atomicfile.Write(goneFile(f.path), data)
	}
	if err != nil {
		return fmt.Errorf("cannot note what is deleted beside the backups of the deployment state: %w", err)
	}
	atomicfile.Match(goneFile(f.path), f.path)
	return nil
}

func fileExists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
