// Package store keeps the file of a vars store: plain or encrypted with age, locked
// while it is changed, and with a copy of its previous content.
package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/sealed"
	"bootstrap/internal/wait"
)

// Suffix ends the names of files that are encrypted from the beginning.
const Suffix = ".age"

// MaxSize limits the text of a vars store, in bytes.
const MaxSize = 2 << 20

// lockTimeout limits how long to wait for another process that changes the file.
const lockTimeout = time.Minute

// File is the file of a vars store, which need not exist.
type File struct {
	Path  string // absolute, with links resolved
	Shown string // the path as the user wrote it, or the name of a team's store
	State string // the store of a team in the form of --state; empty: Shown is used
	// Sealed says that the file is encrypted, or will be if it is new.
	Sealed bool
	// recipients of an encrypted file; empty: another program has encrypted it
	To []string

	keys   *sealed.Keys
	send   func(ctx context.Context, sealed []byte) error
	stream bool   // the path is a pipe or a device, which is read once and written in place
	before []byte // the content when it was read; nil if the file did not exist
	lock   *lockfile.Lock
	saved  bool
}

// At returns the vars store at an absolute path, which messages show in another form.
// Keys decrypt it; they may be nil. If send is not nil, Write passes the content to
// send, always encrypted, and does not write the file.
func At(path, shown string, keys *sealed.Keys, send func(ctx context.Context, sealed []byte) error) *File {
	// The target of a link is replaced, not the link.
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	return &File{Path: path, Shown: shown, keys: keys, send: send, stream: atomicfile.InPlace(path)}
}

// Argument returns the vars store as an argument of bootstrap secrets.
func (f *File) Argument() string {
	if f.send == nil {
		return f.Shown
	}
	name := cmp.Or(f.State, f.Shown)
	if strings.ContainsAny(name, "?&") {
		name = "'" + name + "'"
	}
	return "--state " + name
}

// whole returns the vars store with its path, for messages about its content.
func (f *File) whole() string {
	if f.send == nil {
		return f.Shown
	}
	return "the vars store of " + f.Shown
}

// initialize returns the command that creates the vars store.
func (f *File) initialize() string {
	if f.send == nil {
		return "bootstrap secrets init --vars-store " + f.Shown
	}
	return "bootstrap secrets init " + f.Argument()
}

// Exists reports whether the last Read has found the file.
func (f *File) Exists() bool { return f.before != nil }

// Read returns the text of the file, decrypted; nil if it does not exist.
func (f *File) Read(ctx context.Context) (text []byte, err error) {
	f.before, f.To, f.Sealed = nil, nil, f.send != nil || strings.HasSuffix(f.Path, Suffix)
	if atomicfile.WriteOnly(f.Path) {
		return nil, nil // a pipe or device that only accepts output
	}
	if info, err := os.Stat(f.Path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 && (!strings.HasPrefix(f.Path, "/dev/") || strings.HasPrefix(f.Path, "/dev/shm/")) {
		return nil, fmt.Errorf("cannot use %s as a vars store: it is a named pipe, but a vars store is read before it is written", f.Shown)
	}
	data, err := Content(f.Path, f.Shown)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, err
	}
	f.before = data
	switch {
	case sealed.IsSealed(data):
		f.Sealed = true
		text, f.To, err = f.keys.Open(ctx, f.whole(), data)
		if err == nil && len(text) > MaxSize {
			err = tooLarge(f.Shown)
		}
		return text, err
	case strings.HasSuffix(f.Path, Suffix) && !f.stream:
		return nil, fmt.Errorf("cannot use the vars store %s: it is not encrypted, although its name ends in %s; restore an earlier copy of it, or rename it and encrypt it with: bootstrap secrets init --vars-store FILE", f.Shown, Suffix)
	}
	return data, nil
}

// LostError says that a vars store does not exist although its values are in use, or
// although it exists in another form. It is an fs.ErrNotExist.
type LostError struct{ Text string }

func (e *LostError) Error() string { return e.Text }

func (e *LostError) Name() string  { return "vars-store-lost" }
func (e *LostError) Unwrap() error { return fs.ErrNotExist }

// Lost returns a *LostError if the file does not exist, but another form or a copy of
// it does: new values would be a mistake.
func (f *File) Lost() error {
	if f.Exists() || f.stream || f.send != nil {
		return nil
	}
	plain := strings.TrimSuffix(f.Path, Suffix)
	shown := strings.TrimSuffix(f.Shown, Suffix)
	for _, end := range []string{Suffix, "", ".previous", Suffix + ".previous", ".edited" + Suffix} {
		if info, err := os.Stat(plain + end); err != nil || !info.Mode().IsRegular() {
			continue
		}
		beside := shown + end
		do := "restore it with: mv " + beside + " " + f.Shown
		switch {
		case end == Suffix:
			do = "use it with: --vars-store " + beside
		case end == "":
			do = "encrypt it with: bootstrap secrets init --vars-store " + beside
		case end == ".previous" && plain != f.Path:
			do = "restore it with: mv " + beside + " " + shown + ", and encrypt that"
		case strings.HasPrefix(end, Suffix) && plain == f.Path:
			do = "restore it with: mv " + beside + " " + shown + Suffix + ", and use that"
		case strings.HasPrefix(end, ".edited"):
			do = "see what it contains with: bootstrap secrets decrypt " + beside
		}
		return &LostError{fmt.Sprintf("the vars store %s does not exist, but %s, which belongs to it, does: no new values are generated; %s; to generate new values, make an empty one: %s", f.Shown, beside, do, Anew(f.Shown))}
	}
	return nil
}

// Anew returns the command that creates an empty vars store.
func Anew(shown string) string {
	if strings.HasSuffix(shown, Suffix) {
		return "bootstrap secrets init --vars-store " + shown
	}
	return "touch " + shown
}

// Content returns the content of a vars store's file, without decrypting it. An
// encrypted file may be larger by the overhead of the encryption.
func Content(path, shown string) ([]byte, error) {
	const limit = MaxSize + MaxSize/2
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: %w", shown, cause(err))
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil && info.IsDir() {
		return nil, fmt.Errorf("cannot read the vars store %s: it is a directory", shown)
	}
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read the vars store %s: %w", shown, cause(err))
	case len(data) > limit, len(data) > MaxSize && !sealed.IsSealed(data):
		return nil, tooLarge(shown)
	case data == nil:
		data = []byte{}
	}
	return data, nil
}

func tooLarge(shown string) error {
	return fmt.Errorf("cannot read the vars store %s: it is larger than the limit of %d MiB", shown, MaxSize>>20)
}

// cause returns the reason of an error of package os, without the path.
func cause(err error) error {
	if e, ok := errors.AsType[*fs.PathError](err); ok {
		return e.Err
	}
	return err
}

// Lock locks the file until Close, for a process that reads it again and changes it. It
// waits for another process that holds the lock.
func (f *File) Lock(ctx context.Context) error {
	if f.stream {
		return nil
	}
	if f.send != nil { // the file is a copy in a folder that the user does not know
		if err := atomicfile.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
			return fmt.Errorf("cannot make the folder of the vars store %s: %w", f.Shown, cause(err))
		}
	}
	if _, err := os.Stat(filepath.Dir(f.Path)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write the vars store %s: its folder does not exist; check the path, or create the folder", f.Shown)
	}
	lock, err := f.await(ctx)
	if err != nil {
		return err
	}
	f.lock = lock
	atomicfile.Match(lock.Path(), f.Path) // users who may write the store may lock it
	atomicfile.RemoveStale(f.Path)
	atomicfile.RemoveStale(f.Path + ".previous")
	return nil
}

var errLocked = errors.New("the vars store is locked")

// await locks the file next to the store.
func (f *File) await(ctx context.Context) (*lockfile.Lock, error) {
	const retry = 50 * time.Millisecond
	path := f.Path + ".lock"
	ctx, cancel := context.WithTimeoutCause(ctx, lockTimeout, errLocked)
	defer cancel()
	var lock *lockfile.Lock
	err := wait.Poll(ctx, retry, func() (_ bool, err error) {
		lock, err = lockfile.Try(path)
		return lock != nil, err
	})
	switch {
	case errors.Is(err, errLocked):
		return nil, fmt.Errorf("cannot write the vars store %s: another process has held its lock %s for %v", f.Shown, path, lockTimeout)
	case err != nil:
		return nil, fmt.Errorf("cannot lock the vars store %s: %w", f.Shown, err)
	}
	return lock, nil
}

// Streams reports whether the store is a pipe or a device, which can be read only one
// time.
func (f *File) Streams() bool { return f.stream }

// Close releases the lock. It removes a lock file that it created if nothing was
// written.
func (f *File) Close() {
	if f.lock == nil {
		return
	}
	if f.lock.Made() && !f.saved {
		f.lock.Remove()
	} else {
		f.lock.Close()
	}
	f.lock = nil
}

// Recipients returns the recipients for the next write.
func (f *File) Recipients() []string {
	if len(f.To) == 0 && f.keys != nil {
		return f.keys.Recipients
	}
	return f.To
}

// Writable returns an error if the file must be encrypted and its recipients are
// unknown.
func (f *File) Writable() error {
	switch {
	case !f.Sealed || len(f.Recipients()) > 0:
		return nil
	case f.before != nil:
		return fmt.Errorf("cannot write the vars store %s: another program has encrypted it, and who can read it is unknown; name all recipients once with: bootstrap secrets rekey %s --add RECIPIENT", f.Shown, f.Argument())
	}
	return fmt.Errorf("cannot make the vars store %s: it is unknown who may read it; make it with: %s", f.Shown, f.initialize())
}

// Write replaces the text of the file, encrypted if Sealed is true. A new file is
// readable only for its owner; an existing one is copied to .previous first.
func (f *File) Write(ctx context.Context, text []byte) error {
	data := text
	if f.Sealed {
		if err := f.Writable(); err != nil {
			return err
		}
		var err error
		if data, err = f.keys.Seal(ctx, f.whole(), text, f.Recipients()); err != nil {
			return err
		}
	}
	if f.send != nil {
		err := f.send(ctx, data)
		f.saved = err == nil
		return err
	}
	if f.before != nil && !f.stream {
		if err := atomicfile.Write(f.Path+".previous", f.before); err != nil {
			return fmt.Errorf("cannot keep a copy of the vars store %s: %w", f.Shown, err)
		}
		atomicfile.Match(f.Path+".previous", f.Path)
	}
	if err := atomicfile.Write(f.Path, data); err != nil {
		return fmt.Errorf("cannot write the vars store %s: %w", f.Shown, err)
	}
	f.saved, f.before = true, data
	return nil
}

// Unchanged reports whether the file still contains what Read has read.
func (f *File) Unchanged() bool {
	now, err := Content(f.Path, f.Shown)
	if errors.Is(err, fs.ErrNotExist) {
		return f.before == nil
	}
	return err == nil && f.before != nil && bytes.Equal(now, f.before)
}
