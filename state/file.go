package state

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
)

// Options says how a state file is opened.
type Options struct {
	Holder Holder        // whom the locks name
	Wait   time.Duration // how long to wait for a lock that another process has

	// Home is ~/.bosh. In the folder of the installation there stand a mirror
	// of what create-env drops from the file, and a lock; none if it is empty.
	Home string
	// Legacy is the file of an old bosh-init from which a state that does not
	// exist is made; it may be empty or not be there.
	Legacy string

	Waiting func(*LockedError) // called once before waiting; may be nil
	Warn    func(error)        // told what is no reason to stop; may be nil

	// Trace is called before and after the file is written; nil: nobody is told.
	Trace func(moment string)
}

// File is an open, locked state file.
type File struct {
	path         string
	opts         Options
	locker       locker
	lock         *lockfile.Lock
	installation *lockfile.Lock  // nil until it is known
	written      bool            // by this run
	gone         map[string]bool // what was dropped on purpose, see dropped
	loaded
}

// MissingError says that there is no state file where one was looked for.
type MissingError struct {
	Path     string
	Manifest string // the manifest that was named, if that does not exist either
}

// Missing returns the error for a state file at path that does not exist.
// manifest is the manifest beside which it was looked for; empty: none.
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

// FolderError says that what was named as the manifest is a folder.
type FolderError struct{ Path string }

func (e *FolderError) Error() string {
	return fmt.Sprintf("cannot read the manifest %s: it is a directory; name the file in it", e.Path)
}

// Path returns where the state of a manifest lies: the flag if it is set,
// else `<manifest without extension>-state.json` beside the manifest. The error
// is a *FolderError where the manifest is a folder.
func Path(manifest, flag string) (string, error) {
	if flag == "" {
		if info, err := os.Stat(manifest); err == nil && info.IsDir() {
			return "", &FolderError{Path: manifest}
		}
		base := strings.TrimSuffix(filepath.Base(manifest), filepath.Ext(manifest))
		flag = filepath.Join(filepath.Dir(manifest), base+"-state.json")
	}
	path, err := filepath.Abs(flag)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of the state file %s: %w", flag, err)
	}
	return path, nil
}

// Open locks the state file and the folder of its installation, and reads it.
// Where there is none, the state is a new one, which the first Update writes.
// What an earlier run could not record is recorded now; Notes tells. The
// error is a *LockedError while another process has one of the locks, for
// longer than opts.Wait.
func Open(ctx context.Context, path string, opts Options) (_ *File, err error) {
	f, err := lockOnly(ctx, path, opts)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.Close()
		}
	}()
	atomicfile.DropCut(f.path)
	if f.loaded, err = load(f.path, opts); err != nil {
		return nil, err
	}
	for _, err := range f.warnings {
		f.warn(err)
	}
	if f.found {
		if err := f.lockInstallation(ctx, f.current.InstallationID); err != nil {
			return nil, err
		}
	}
	if f.rescued {
		if err := f.Update(func(*State) error { return nil }); err != nil {
			return nil, err
		}
		f.dropRescue()
	}
	return f, nil
}

// lockOnly locks the state file, whatever is in it.
func lockOnly(ctx context.Context, path string, opts Options) (*File, error) {
	// A link is followed first: the rename of a write would replace it.
	path, err := resolve(path)
	if err != nil {
		return nil, err
	}
	// No lock is left beside what can be no state.
	if err := isFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the deployment state: %w", err)
	}
	f := &File{path: path, opts: opts}
	f.locker = locker{who: opts.Holder, until: time.Now().Add(opts.Wait), waiting: opts.Waiting}
	if f.lock, err = f.locker.acquire(ctx, "the deployment state", path+".lock"); err != nil {
		return nil, err
	}
	atomicfile.Match(path+".lock", path) // who may write the state may lock it
	return f, nil
}

// resolve follows the links at path, also to a file that is not there yet.
func resolve(path string) (string, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of the state file %s: %w", path, err)
	}
	for range 40 {
		to, err := os.Readlink(path)
		if err != nil { // no link, or nothing there
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

// Read returns the state at path without locking it, for those who only look:
// a new state where there is none. home is ~/.bosh or empty, as in Options.
func Read(path, home string) (State, error) {
	path, err := resolve(path)
	if err != nil {
		return State{}, err
	}
	l, err := load(path, Options{Home: home})
	return l.current, err
}

// Found tells whether the file existed when it was opened.
func (f *File) Found() bool { return f.found }

// Fresh tells that there was no file and that nothing was written yet: the
// folder of the installation has a name that nobody will ask for again.
func (f *File) Fresh() bool { return f.fresh }

// Notes tells what opening the file did beyond reading it, in sentences.
func (f *File) Notes() []string { return f.notes }

// Path returns where the file lies, with links followed.
func (f *File) Path() string { return f.path }

// Get returns the state as last written or read; Update changes another copy.
func (f *File) Get() State { return f.current }

// dir is the folder of the installation.
func (f *File) dir() string { return filepath.Join(f.opts.Home, f.current.InstallationID) }

func (f *File) trace(moment string) {
	if f.opts.Trace != nil {
		f.opts.Trace(moment)
	}
}

func (f *File) warn(err error) {
	if err != nil && f.opts.Warn != nil {
		f.opts.Warn(err)
	}
}

// Update changes the state and writes it whole: to a temporary file that is
// synced and renamed, mode 0600. Nothing changes if change or the write
// fails. The version before the first Update of a run is kept among the backups,
// and what create-env drops in the mirror.
func (f *File) Update(change func(*State) error) error {
	if f.lock == nil {
		return errPeeked
	}
	next, err := f.current.clone()
	if err != nil {
		return err
	}
	if err := change(&next); err != nil {
		return err
	}
	next.Own.Format = Format
	next.Own.Serial++
	next.mendSwap()
	if next.CurrentManifestSHA != "" {
		next.Own.ManifestSHA1 = ""
	}
	if err := next.check(); err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w", f.path, err)
	}
	data, err := json.MarshalIndent(&next, "", "    ")
	if err != nil {
		return fmt.Errorf("cannot write the deployment state: %w", err)
	}
	if !f.fresh {
		if err := f.lockInstallation(context.Background(), next.InstallationID); err != nil {
			return err
		}
	}
	f.trace("before")
	err = f.write(data)
	f.trace("after")
	if err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w; the file is as it was before", f.path, err)
	}
	f.warn(f.drop(f.current.things(), next.things()))
	f.current, f.fresh = next, false
	// A state that was not there yet names its installation only now: nobody
	// else knows it, so that this does not wait, and a run that is killed
	// before has left no folder that nobody would find.
	if err := f.lockInstallation(context.Background(), next.InstallationID); err != nil {
		return err
	}
	if !f.written {
		f.written = true
		f.warn(f.pruneBackups())
	}
	f.warn(f.writeMirror())
	if f.legacy != "" {
		f.warn(retire(f.legacy))
		f.legacy = ""
	}
	return nil
}

func (f *File) write(data []byte) error {
	if err := atomicfile.MkdirAll(filepath.Dir(f.path), 0o755); err != nil {
		return err
	}
	if !f.written {
		f.warn(f.startBackups())
	}
	return atomicfile.Write(f.path, data)
}

// Remove deletes the state file, its mirror and its backups, but for those that
// record what nobody has deleted. The lock stays until Close.
func (f *File) Remove() error {
	f.written = false
	if err := removeAll(f.path, f.mirrorPath()); err != nil {
		return fmt.Errorf("cannot remove the deployment state: %w", err)
	}
	return f.removeBackups()
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

// Close keeps what this run wrote among the backups, and unlocks the state. The
// lock file of a state that does not exist goes.
func (f *File) Close() {
	if f.written && f.lock != nil {
		f.warn(f.backUp())
		f.warn(f.pruneBackups())
	}
	f.installation.Close()
	f.installation = nil
	if _, err := os.Lstat(f.path); errors.Is(err, fs.ErrNotExist) {
		f.lock.Remove()
	} else {
		f.lock.Close()
	}
	f.lock = nil
}
