// Package file stores the state of a deployment in a file. It has a lock, atomic
// writes, backups, a mirror of the keys that create-env removes, and a rescue file for
// CIDs that could not be written.
package file

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/failure"
	"bootstrap/internal/lockfile"
	"bootstrap/state"
	"bootstrap/state/team"
	"bootstrap/state/versions"
)

// Options control how a state file is opened.
type Options struct {
	Holder state.Holder  // named in the locks
	Wait   time.Duration // how long to wait for a lock of another process

	// Home is ~/.bosh, where the folder of the installation contains the mirror and a
	// second lock; empty: no mirror and no second lock.
	Home string
	// Legacy is the path of a bosh-deployments.yml that becomes the state if
	// there is no state file. It may be empty, and the file need not exist.
	Legacy string

	// Installation is the installation id of a new state; empty: a random one.
	Installation string
	// Serial is the least serial number of a new state: an earlier one had it.
	Serial int
	// Owns returns an error about a state of another instance; nil: any state is used.
	Owns func(state.State) error

	// Team is the store whose copy the file is; nil: the file is in no other place.
	Team *team.Copy
	// PutsBack makes the command continue with the newest known version of a state that the
	// store has lost. Others fail.
	PutsBack bool

	Waiting func(*LockedError) // called once, before waiting; may be nil
	Warn    func(error)        // called with errors that do not stop the store; may be nil

	// Unpack replaces this machine's record of an installation by the text that a store has
	// for other machines, when its state is moved to this machine; nil: it is not moved.
	Unpack func(installation string, text []byte) error

	// Trace is called before and after each write, or removal, of the file; may be nil.
	Trace func(moment string)
}

// Store is an open state file, locked unless it is read-only.
type Store struct {
	path         string
	opts         Options
	locker       locker
	lock         *lockfile.Lock  // nil: read-only, or closed
	installation *lockfile.Lock  // nil until the installation is known
	written      bool            // true: this run has written the file
	broughtKept  bool            // a move has copied what a store has for other machines
	moved        bool            // true: the file only has the text that names the new place
	gone         map[string]bool // resources that were removed on purpose
	attached     versions.Documents
	newest       int   // newest serial number in the history of the store of the team
	unsent       error // why the last write was not sent to the store of the team
	damaged      error // OpenToReplace: why the file cannot be used
	loaded
}

// MissingError says that there is no state file.
type MissingError struct {
	Path     string
	Manifest string // the manifest, if it does not exist either; otherwise empty
}

// Missing returns the error for a state file that does not exist. manifest is the
// manifest in whose folder it was expected, empty for none.
func Missing(path, manifest string) *MissingError {
	if _, err := os.Stat(manifest); manifest == "" || !errors.Is(err, fs.ErrNotExist) {
		manifest = ""
	}
	return &MissingError{Path: path, Manifest: manifest}
}

func (e *MissingError) Error() string {
	if e.Manifest != "" {
		return fmt.Sprintf("there is no file %s, and no deployment state file at %s", e.Manifest, e.Path)
	}
	return fmt.Sprintf("no deployment state file at %s", e.Path)
}

func (e *MissingError) Name() string { return "state-missing" }

func (e *MissingError) ExitCode() failure.Code { return failure.NoState }

var instance = regexp.MustCompile(`^[A-Za-z0-9_-]+/[0-9a-f-]+$`)

// IsInstance reports whether a path looks like an instance, web/1, as commands of the bosh
// CLI take it.
func IsInstance(path string) bool { return instance.MatchString(path) }

func (e *MissingError) Hint() string {
	text := "nothing is deployed there; give --state if the state file is elsewhere"
	if IsInstance(e.Manifest) {
		text += ", or name an instance with --instance " + e.Manifest
	}
	return text
}

// FolderError says that a folder was named as the manifest.
type FolderError struct{ Path string }

func (e *FolderError) Error() string {
	return fmt.Sprintf("cannot read the manifest %s: it is a directory; name the file in it, or write a bootstrap.yml there that does", e.Path)
}

func (e *FolderError) Name() string { return "manifest-folder" }

func (e *FolderError) ExitCode() failure.Code { return failure.Manifest }

// LegacyName is the name of the file beside the manifest in which the first bosh-init
// kept its state.
const LegacyName = "bosh-deployments.yml"

// Path returns the path of the state file of a manifest: flag, or `<manifest without
// extension>-state.json` in the manifest's folder. The error is a *FolderError if the
// manifest is a folder.
func Path(manifest, flag string) (string, error) {
	if flag == "" {
		if info, err := os.Stat(manifest); err == nil && info.IsDir() {
			return "", &FolderError{Path: manifest}
		}
		flag = Beside(manifest)
	}
	path, err := filepath.Abs(flag)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of the state file %s: %w", flag, err)
	}
	return path, nil
}

// Beside returns the default path of a manifest's state file.
func Beside(manifest string) string {
	base := strings.TrimSuffix(filepath.Base(manifest), filepath.Ext(manifest))
	return filepath.Join(filepath.Dir(manifest), base+"-state.json")
}

// Open locks the state file and the folder of its installation, and reads it. If there
// is no file, the state is a new one, which the first Update writes. Open also records
// results that an earlier run could not record; Notes reports that. The error is a
// *LockedError if another process holds a lock for longer than opts.Wait.
func Open(ctx context.Context, path string, opts Options) (_ *Store, err error) {
	s, err := lock(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	atomicfile.RemoveStale(s.path)
	taken, err := s.begin(ctx)
	if err != nil {
		return nil, err
	}
	notes := s.notes
	if s.loaded, err = load(s.path, opts); err != nil {
		return nil, err
	}
	s.notes = append(notes, s.notes...)
	s.warnAll()
	if s.found {
		if err := s.lockInstallation(ctx, s.current.InstallationID); err != nil {
			return nil, err
		}
		if err := s.acceptReplaced(); err != nil {
			return nil, err
		}
	} else { // the history may contain versions of an earlier deployment
		s.current.Own.Serial = max(s.current.Own.Serial, s.newest)
	}
	if taken && s.found && !s.rescued {
		if err := errors.Join(s.touch(), s.Unsent()); err != nil {
			return nil, err
		}
	}
	if s.rescued {
		if err := s.Update(func(*state.State) error { return nil }); err != nil {
			return nil, err
		}
		s.removeRescue()
	}
	return s, nil
}

// OpenReadOnly is like Open, but takes no locks and writes nothing. Update fails.
func OpenReadOnly(path string, opts Options) (*Store, error) {
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	l, err := load(path, opts)
	if err != nil {
		return nil, err
	}
	s := &Store{path: path, opts: opts, loaded: l}
	s.warnAll()
	return s, nil
}

// Read returns the state at path without locking it. If there is no file, it returns a
// new state, and found is false. home is ~/.bosh or empty, as in Options.
func Read(path, home string) (st state.State, found bool, err error) {
	path, err = Resolve(path)
	if err != nil {
		return st, false, err
	}
	l, err := load(path, Options{Home: home})
	return l.current, l.found, err
}

// Exists reports whether there is a file at path.
func Exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// lock locks the state file without reading it.
func lock(ctx context.Context, path string, opts Options) (*Store, error) {
	// Links are resolved first, because a write renames a file to the path.
	path, err := Resolve(path)
	if err != nil {
		return nil, err
	}
	// No lock file is created for a file that cannot be a state file.
	if err := isFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the deployment state: %w", err)
	}
	s := &Store{path: path, opts: opts}
	s.locker = locker{who: opts.Holder, until: time.Now().Add(opts.Wait), waiting: opts.Waiting}
	if s.lock, err = s.locker.acquire(ctx, theState, path+".lock"); err != nil {
		return nil, err
	}
	atomicfile.Match(path+".lock", path) // users who may write the state may lock it
	return s, nil
}

// Resolve follows the links at path, also to a file that does not exist yet.
func Resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of the state file %s: %w", path, err)
	}
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil { // it is not a link, or does not exist
			if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
				path = filepath.Join(dir, filepath.Base(path))
			}
			return path, nil
		}
		if !filepath.IsAbs(to) {
			to = filepath.Join(filepath.Dir(path), to)
		}
		path = to
	}
	return "", fmt.Errorf("cannot find the deployment state: %s is a link that leads to itself", path)
}

// Found reports whether the file existed when it was opened.
func (s *Store) Found() bool { return s.found }

// Fresh reports whether there was no file and this run has written nothing. No later
// run will use the folder of that installation.
func (s *Store) Fresh() bool { return s.fresh }

// Notes returns sentences about what Open did, besides reading the file.
func (s *Store) Notes() []string { return s.notes }

// Get returns the state as it was last read or written.
func (s *Store) Get() state.State { return s.current }

// dir is the folder of the installation.
func (s *Store) dir() string { return filepath.Join(s.opts.Home, s.current.InstallationID) }

func (s *Store) trace(moment string) {
	if s.opts.Trace != nil {
		s.opts.Trace(moment)
	}
}

func (s *Store) warn(err error) {
	if err != nil && s.opts.Warn != nil {
		s.opts.Warn(err)
	}
}

func (s *Store) warnAll() {
	for _, err := range s.warnings {
		s.warn(err)
	}
}

var errReadOnly = errors.New("cannot write the deployment state: it was opened only for reading")

// Update changes the state and writes it to a temporary file, mode 0600, which it syncs
// and renames. If change or the write fails, the state and the file are unchanged. The
// version before the first Update of a run is kept as a backup; the keys that create-env
// removes are kept in the mirror.
func (s *Store) Update(change func(*state.State) error) error {
	if s.lock == nil {
		return errReadOnly
	}
	var refused error
	next, err := s.current.Change(func(st *state.State) error {
		refused = change(st)
		st.Own.Serial = max(st.Own.Serial, s.newest) // A person may have trusted an old one.
		return refused
	})
	if refused != nil {
		return refused
	}
	if err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w", s.path, err)
	}
	data, err := next.Encode()
	if err != nil {
		return fmt.Errorf("cannot write the deployment state: %w", err)
	}
	if !s.fresh {
		if err := s.lockInstallation(context.Background(), next.InstallationID); err != nil {
			return err
		}
	}
	if !s.written {
		s.warn(s.startBackups())
	}
	// The list is written before the state: after a kill in between, a backup would
	// otherwise seem to be the only record of a deleted resource. If the state is not
	// written, the next write corrects the list.
	s.warn(s.recordDropped(s.current.Resources(), next.Resources()))
	s.trace("before")
	err = s.write(data)
	s.trace("after")
	if err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w; the file is as it was before", s.path, err)
	}
	dropped := slices.DeleteFunc(s.current.Resources(), func(r string) bool { return slices.Contains(next.Resources(), r) })
	s.current, s.fresh = next, false
	s.push(dropped...)
	// The installation of a new state is locked only after the write. No other process
	// knows it yet, so this does not wait, and a run that is killed before the write
	// leaves no folder behind.
	if err := s.lockInstallation(context.Background(), next.InstallationID); err != nil {
		return err
	}
	s.written = true
	s.warn(s.writeMirror())
	if s.legacy != "" {
		s.warn(retire(s.legacy))
		s.legacy = ""
	}
	return nil
}

// Suppose changes the state only in memory, as Update would change it, for a run that
// changes nothing. A store that may write refuses that.
func (s *Store) Suppose(change func(*state.State) error) error {
	if s.lock != nil {
		return errors.New("cannot suppose a change of the deployment state: it was opened for writing")
	}
	next, err := s.current.Change(change)
	if err == nil {
		s.current = next
	}
	return err
}

func (s *Store) write(data []byte) error {
	if err := atomicfile.MkdirAll(filepath.Dir(s.path), 0o755); err != nil {
		return err
	}
	return atomicfile.Write(s.path, data)
}

// Remove deletes the state file, its mirror and its backups, except backups that record a
// resource which was not deleted. It keeps the lock until Close. It deletes the state
// file last: while the file exists, the same command can finish a removal that was
// killed.
func (s *Store) Remove() error {
	s.written = false
	// The store's copy is removed first, so that after a kill the next run removes both.
	if err := s.opts.Team.Remove(context.Background(), s.current.InstallationID, s.neededBackups()...); err != nil {
		return err
	}
	kept := s.removeBackups()
	s.trace("before")
	defer s.trace("after")
	if err := removeAll(s.mirrorPath(), s.path); err != nil {
		return errors.Join(fmt.Errorf("cannot remove the deployment state: %w", err), kept)
	}
	_, err := s.forget()
	s.warn(err)
	s.unsent = nil
	s.warn(s.opts.Team.Removed())
	return kept
}

func removeAll(paths ...string) error {
	var errs []error
	for _, path := range paths {
		if path != "" {
			errs = append(errs, os.RemoveAll(path))
		}
	}
	return errors.Join(errs...)
}

// Close makes a backup of the version that this run wrote, and unlocks the state. It
// removes the lock file if there is no state file.
func (s *Store) Close() {
	if s.written && s.lock != nil {
		s.warn(s.backUp(s.writer(), s.attached))
	}
	if s.lock != nil {
		s.finish()
	}
	s.installation.Close()
	s.installation = nil
	if _, err := os.Lstat(s.path); errors.Is(err, fs.ErrNotExist) {
		s.lock.Remove()
		if s.lock != nil {
			s.warn(s.opts.Team.Clean())
		}
	} else if s.moved {
		s.lock.Remove()
	} else {
		s.lock.Close()
	}
	s.lock = nil
}
