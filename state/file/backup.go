package file

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/state"
)

// keptBackups is the number of earlier versions that are kept. Versions that are the only
// record of a VM, disk or stemcell are kept in addition.
const keptBackups = 5

// Backup is an earlier version of a state file: the last one that a run wrote.
type Backup struct {
	Serial  int
	Written time.Time
	Path    string
	Writer  Writer
}

// Writer is the run that wrote a version; the zero value: unknown.
type Writer struct {
	By      string `json:"by"`      // user@host
	Command string `json:"command"` // without the values of flags
}

// writersFile returns the path of the file that lists which run wrote which backup.
func writersFile(path string) string { return filepath.Join(backupDir(path), "writers.json") }

// readWriters returns the writers of backups, by serial number; none if the file is
// damaged.
func readWriters(path string) map[int]Writer {
	writers := map[int]Writer{}
	if data, err := regular.Read(writersFile(path)); err != nil || json.Unmarshal(data, &writers) != nil {
		return map[int]Writer{}
	}
	return writers
}

// recordWriter adds this run as the writer of the present version.
func (s *Store) recordWriter() error {
	if s.opts.Holder.User == "" {
		return nil
	}
	return s.recordWriters(map[int]Writer{s.current.Own.Serial: {By: s.opts.Holder.Who(), Command: s.opts.Holder.Command}})
}

// recordWriters adds the writers of backups, and removes those of backups that do not
// exist any more.
func (s *Store) recordWriters(more map[int]Writer) error {
	before := readWriters(s.path)
	writers := map[int]Writer{}
	for _, b := range backupsOf(s.path) {
		w, ok := more[b.Serial]
		if !ok {
			w, ok = before[b.Serial]
		}
		if ok {
			writers[b.Serial] = w
		}
	}
	if maps.Equal(before, writers) {
		return nil
	}
	data, err := json.MarshalIndent(writers, "", "    ")
	if err == nil {
		atomicfile.RemoveStale(writersFile(s.path))
		err = atomicfile.Replace(writersFile(s.path), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot record who wrote the backups of the deployment state: %w", err)
	}
	atomicfile.Match(writersFile(s.path), s.path)
	return nil
}

// backupDir is the folder next to a state file that contains its backups.
func backupDir(path string) string { return path + ".backups" }

func (s *Store) backups() string { return backupDir(s.path) }

// backupsOf lists the backups of the state file at path, newest first. For a folder
// that cannot be read it returns none.
func backupsOf(path string) []Backup {
	entries, err := os.ReadDir(backupDir(path))
	if err != nil {
		return nil
	}
	writers := readWriters(path)
	var list []Backup
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		serial, err := strconv.Atoi(name)
		if !ok || err != nil || serial < 0 {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			list = append(list, Backup{Serial: serial, Written: info.ModTime(), Path: filepath.Join(backupDir(path), e.Name()), Writer: writers[serial]})
		}
	}
	slices.SortStableFunc(list, func(a, b Backup) int { return cmp.Compare(b.Serial, a.Serial) })
	return list
}

// read reads and checks the backup.
func (b Backup) read() (state.State, error) {
	l, err := load(b.Path, Options{})
	if err == nil && !l.found {
		err = fmt.Errorf("cannot read the backup %s: it was removed", b.Path)
	}
	return l.current, err
}

// startBackups makes a backup of the file before the first write of a run. Usually the
// previous run has made it at its end, unless it was killed.
func (s *Store) startBackups() error {
	if !fileExists(s.path) {
		return nil
	}
	return s.backUp()
}

// backUp keeps the present file under its serial number. The backup is a copy,
// because other tools write the file in place.
func (s *Store) backUp() error {
	target := filepath.Join(s.backups(), strconv.Itoa(s.current.Own.Serial)+".json")
	if err := s.keep(target); err != nil {
		return fmt.Errorf("cannot keep a backup of the deployment state: %w", err)
	}
	return nil
}

func (s *Store) keep(target string) error {
	data, err := readWhole(s.path)
	if err != nil {
		return err
	}
	if have, err := readWhole(target); err == nil && bytes.Equal(have, data) {
		atomicfile.Match(target, s.path) // the mode of the file may have changed since
		return nil
	}
	if err := s.makeBackups(); err != nil {
		return err
	}
	atomicfile.RemoveStale(target)
	if err := atomicfile.Write(target, data); err != nil {
		return err
	}
	atomicfile.Match(target, s.path)
	if info, err := os.Stat(s.path); err == nil {
		_ = os.Chtimes(target, info.ModTime(), info.ModTime()) // when this version was written
	}
	return nil
}

func (s *Store) makeBackups() error {
	err := atomicfile.MkdirAll(s.backups(), 0o700)
	atomicfile.Match(s.backups(), s.path)
	return err
}

// Restore makes an earlier version the present one, under a new serial number, and
// returns the state, open and locked. The present version may be missing; if it is
// damaged, it is kept as PATH.damaged. If the present version is the only record of a VM,
// disk or stemcell, the error is an *OwnsError, unless force is set.
func Restore(ctx context.Context, path string, serial int, force bool, opts Options) (*Store, error) {
	resolved, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	if len(backupsOf(resolved)) == 0 {
		if _, err := load(resolved, Options{}); isMoved(err) {
			return nil, err
		}
		return nil, fmt.Errorf("there are no backups of the deployment state %s", path)
	}
	s, err := lock(ctx, resolved, opts)
	if err != nil {
		return nil, err
	}
	if opts.Team != nil {
		if _, err := s.begin(ctx); err != nil {
			s.Close()
			return nil, err
		}
	}
	if err := s.restore(ctx, serial, force); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Store) restore(ctx context.Context, serial int, force bool) error {
	list := backupsOf(s.path)
	i := slices.IndexFunc(list, func(b Backup) bool { return b.Serial == serial })
	if i < 0 {
		return fmt.Errorf("there is no backup with the serial number %d of the deployment state %s; there are: %s", serial, s.path, serials(list))
	}
	old, err := list[i].read()
	if err != nil {
		return err
	}
	s.loaded, err = load(s.path, Options{})
	if isMoved(err) { // Otherwise two places would have a state of the same deployment.
		return err
	}
	if err != nil {
		if err := s.putAside(); err != nil {
			return err
		}
	}
	s.readGone() // while the present version still exists, on which the list depends
	var lost []string
	kept := map[string]bool{} // also a disk that is orphaned in only one of the two
	for _, owned := range old.Owned() {
		kept[strings.TrimSuffix(owned, state.Kept)] = true
	}
	for _, owned := range s.current.Owned() {
		if !kept[strings.TrimSuffix(owned, state.Kept)] {
			lost = append(lost, owned)
		}
	}
	if len(lost) > 0 && !force {
		return &OwnsError{Path: s.opts.name(s.path), Owned: lost}
	}
	for _, in := range old.Own.Intents {
		// Only later versions show how the call ended.
		s.note("In version %d, %s had not ended: the next run finds out its result", serial, in.Method)
	}
	old.DoubtNamed(s.current)
	return s.become(ctx, old, list[0].Serial)
}

func serials(list []Backup) string {
	if len(list) == 0 {
		return "none"
	}
	var all []string
	for _, b := range list {
		all = append(all, strconv.Itoa(b.Serial))
	}
	return strings.Join(all, ", ")
}
