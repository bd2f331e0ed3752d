package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2/maybe"
	"github.com/google/uuid"
)

// File is an open, locked state file.
type File struct {
	path    string
	lock    *lock
	current State
	found   bool
}

// MissingError says that there is no state file where one was looked for.
type MissingError struct {
	Path string
}

func (e *MissingError) Error() string {
	return fmt.Sprintf("no deployment state file at %s", e.Path)
}

// Path returns where the state of a manifest lies: the flag if it is set,
// else `<manifest without extension>-state.json` beside the manifest.
func Path(manifest, flag string) (string, error) {
	if flag == "" {
		base := strings.TrimSuffix(filepath.Base(manifest), filepath.Ext(manifest))
		flag = filepath.Join(filepath.Dir(manifest), base+"-state.json")
	}
	path, err := filepath.Abs(flag)
	if err != nil {
		return "", fmt.Errorf("cannot find the folder of the state file %s: %w", flag, err)
	}
	return path, nil
}

// Open locks the state file and reads it. Where there is none, the state is a
// new one, which the first Update writes. The error is a *LockedError while
// another process has it.
func Open(path string, who Holder) (*File, error) {
	// A link is followed first: the rename of a write would replace it.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	l, err := acquire(path+".lock", who)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, lock: l}
	if err := f.read(); err != nil {
		l.release()
		return nil, err
	}
	return f, nil
}

func (f *File) read() error {
	data, err := os.ReadFile(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		f.current = State{DirectorID: uuid.NewString(), InstallationID: uuid.NewString()}
		return nil
	}
	if err != nil {
		return fmt.Errorf("cannot read the deployment state: %w", err)
	}
	f.found = true
	dec := json.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&f.current); err != nil {
		return fmt.Errorf("cannot read the deployment state %s: it is not a state file (%w); nothing was changed: restore it from a copy or point --state at the right file", f.path, err)
	}
	if dec.More() {
		return fmt.Errorf("cannot read the deployment state %s: text follows the JSON object; nothing was changed", f.path)
	}
	if f.current.Own.Format > Format {
		return fmt.Errorf("cannot use the deployment state %s: its format is %d and this bootstrap knows formats up to %d; use a newer bootstrap", f.path, f.current.Own.Format, Format)
	}
	// A file that create-env has not saved yet may lack its ids.
	if f.current.DirectorID == "" {
		f.current.DirectorID = uuid.NewString()
	}
	if f.current.InstallationID == "" {
		f.current.InstallationID = uuid.NewString()
	}
	f.current.mend()
	if err := f.current.check(); err != nil {
		return fmt.Errorf("cannot use the deployment state %s: %w; correct the file or restore it from a copy", f.path, err)
	}
	return nil
}

// Read returns the state at path without locking it, for those who only look:
// a new state where there is none.
func Read(path string) (State, error) {
	f := &File{path: path}
	err := f.read()
	return f.current, err
}

// Found tells whether the file existed when it was opened.
func (f *File) Found() bool { return f.found }

// Get returns the state as last written or read; Update changes another copy.
func (f *File) Get() State { return f.current }

// Update changes the state and writes it whole: to a temporary file that is
// synced and renamed, mode 0600. Nothing changes if change or the write
// fails.
func (f *File) Update(change func(*State) error) error {
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
	if err := next.check(); err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w", f.path, err)
	}
	data, err := json.MarshalIndent(&next, "", "    ")
	if err != nil {
		return fmt.Errorf("cannot write the deployment state: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o777); err != nil {
		return fmt.Errorf("cannot write the deployment state: %w", err)
	}
	// A file that another tool made keeps its mode through the rename.
	if err := os.Chmod(f.path, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write the deployment state: %w", err)
	}
	if err := maybe.WriteFile(f.path, data, 0o600); err != nil {
		return fmt.Errorf("cannot write the deployment state %s: %w", f.path, err)
	}
	syncDir(filepath.Dir(f.path))
	f.current = next
	return nil
}

// Remove deletes the state file; the lock stays until Close.
func (f *File) Remove() error {
	if err := os.Remove(f.path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot remove the deployment state: %w", err)
	}
	return nil
}

// Close unlocks the state.
func (f *File) Close() { f.lock.release() }

// syncDir makes a rename last. Where a folder cannot be synced (Windows, some
// network file systems) the write is no less whole.
func syncDir(dir string) {
	d, err := os.Open(dir)
	if err != nil {
		return
	}
	_ = d.Sync()
	_ = d.Close()
}
