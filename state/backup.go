package state

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
)

// keptBackups is how many versions before the present one are kept, beside those
// that nothing else replaces.
const keptBackups = 5

// Backup is a version of a state file: what one run left, or what one that was
// killed left when the next began to write.
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

// startBackups keeps the file as it is before the first write of a run, if it
// exists. Most often the run before has done that at its end.
func (f *File) startBackups() error {
	if !fileExists(f.path) {
		return nil
	}
	return f.backUp()
}

// backUp keeps the present file under its serial number. It is a copy: other
// tools write the file in place.
func (f *File) backUp() error {
	target := filepath.Join(f.backups(), strconv.Itoa(f.current.Own.Serial)+".json")
	if err := f.keep(target); err != nil {
		return fmt.Errorf("cannot keep a backup of the deployment state: %w", err)
	}
	return nil
}

func (f *File) keep(target string) error {
	data, err := readWhole(f.path)
	if err != nil {
		return err
	}
	if have, err := readWhole(target); err == nil && bytes.Equal(have, data) {
		atomicfile.Match(target, f.path) // it may be shared since
		return nil
	}
	if err := f.makeBackups(); err != nil {
		return err
	}
	if err := atomicfile.Write(target, data); err != nil {
		return err
	}
	atomicfile.Match(target, f.path)
	if info, err := os.Stat(f.path); err == nil {
		_ = os.Chtimes(target, info.ModTime(), info.ModTime()) // when this version was written
	}
	return nil
}

func (f *File) makeBackups() error {
	err := atomicfile.MkdirAll(f.backups(), 0o700)
	atomicfile.Match(f.backups(), f.path)
	return err
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
		f.loaded, f.gone = loaded{found: true}, readGone(f.path)
		f.note("What was in the file is no state; it is kept as %s", damaged)
	}
	f.readGone() // before the present version is another one
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
