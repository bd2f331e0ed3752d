package state

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/atomicfile"
)

// keptBackups is how many versions before the present one are kept.
const keptBackups = 5

// Backup is an earlier version of a state file.
type Backup struct {
	Serial  int
	Written time.Time
	Path    string
}

// backupDir is the folder beside a state file in which its backups are.
func backupDir(path string) string { return path + ".backups" }

func (f *File) backups() string { return backupDir(f.path) }

// Backups lists the earlier versions of the state file at path, newest first.
func Backups(path string) ([]Backup, error) {
	path, err := resolve(path)
	return backupsOf(path), err
}

// backupsOf lists them; a folder that cannot be read has none.
func backupsOf(path string) []Backup {
	entries, err := os.ReadDir(backupDir(path))
	if err != nil {
		return nil
	}
	var list []Backup
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		serial, err := strconv.Atoi(name)
		if !ok || err != nil || serial < 0 {
			continue
		}
		if info, err := e.Info(); err == nil && info.Mode().IsRegular() {
			list = append(list, Backup{Serial: serial, Written: info.ModTime(), Path: filepath.Join(backupDir(path), e.Name())})
		}
	}
	slices.SortFunc(list, func(a, b Backup) int { return cmp.Compare(b.Serial, a.Serial) })
	return list
}

// Load reads and checks the version.
func (b Backup) Load() (State, error) {
	l, err := load(b.Path, Options{})
	if err == nil && !l.found {
		err = fmt.Errorf("cannot read the backup %s: it is gone", b.Path)
	}
	return l.current, err
}

// backUp keeps the file that is about to be replaced, under its serial
// number: by another name of the same content, which is as well synced as the
// file is.
func (f *File) backUp() error {
	if _, err := os.Stat(f.path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	target := filepath.Join(f.backups(), strconv.Itoa(f.current.Own.Serial)+".json")
	err := os.MkdirAll(f.backups(), 0o700)
	if err == nil {
		// One that is there is of a write that was cut before its rename.
		if err = os.Remove(target); errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	if err == nil && os.Link(f.path, target) != nil {
		var data []byte // not every file system has links
		if data, err = os.ReadFile(f.path); err == nil {
			err = atomicfile.Write(target, data)
		}
	}
	if err != nil {
		return fmt.Errorf("cannot keep a backup of the deployment state: %w", err)
	}
	return nil
}

func (f *File) pruneBackups() error {
	list := backupsOf(f.path)
	var errs []error
	for _, b := range list[min(len(list), keptBackups):] {
		errs = append(errs, os.Remove(b.Path))
	}
	return errors.Join(errs...)
}

// Restore makes an earlier version the present one, under a new serial number,
// and returns the file, locked. The present one may be damaged or missing: a
// damaged one is kept beside it, with the ending .damaged. An *OwnsError tells
// what only the present one records, unless force is set.
func Restore(ctx context.Context, path string, serial int, force bool, opts Options) (*File, error) {
	if list, err := Backups(path); err == nil && len(list) == 0 {
		return nil, fmt.Errorf("there are no backups of the deployment state %s", path)
	}
	f, err := lockOnly(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	if err := f.restore(ctx, serial, force); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func (f *File) restore(ctx context.Context, serial int, force bool) error {
	list := backupsOf(f.path)
	i := slices.IndexFunc(list, func(b Backup) bool { return b.Serial == serial })
	if i < 0 {
		return fmt.Errorf("there is no backup with the serial number %d of the deployment state %s; there are: %s", serial, f.path, serials(list))
	}
	old, err := list[i].Load()
	if err != nil {
		return err
	}
	if f.loaded, err = load(f.path, Options{}); err != nil {
		damaged := f.path + ".damaged"
		if err := os.Rename(f.path, damaged); err != nil {
			return fmt.Errorf("cannot put the damaged deployment state aside: %w", err)
		}
		f.loaded = loaded{found: true}
		f.note("What was in the file is no state; it is kept as %s", damaged)
	}
	var lost []string
	kept := old.Owned()
	for _, thing := range f.current.Owned() {
		if !slices.Contains(kept, thing) {
			lost = append(lost, thing)
		}
	}
	if len(lost) > 0 && !force {
		return &OwnsError{Path: f.path, Owned: lost}
	}
	for _, in := range old.Own.Intents {
		// How it ended stands in versions that do not count any more.
		f.note("A %s was under way in version %d: the next run looks what became of it", in.Method, serial)
	}
	have := f.current.Own.Serial
	f.current = old
	f.current.Own.Serial = have // that of the file which is replaced
	if err := f.lockInstallation(ctx, f.current.InstallationID); err != nil {
		return err
	}
	return f.Update(func(s *State) error {
		s.Own.Serial = max(list[0].Serial, have)
		return nil
	})
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
