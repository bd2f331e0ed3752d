package document

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	yaml2 "go.yaml.in/yaml/v2"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/wait"
)

// lockTimeout limits how long to wait for another process that generates
// variables.
const lockTimeout = time.Minute

// varsStore is the file that keeps generated values: a map of names to values,
// as create-env writes it.
type varsStore struct {
	path   string // with links resolved
	shown  string // the path as the user wrote it
	lock   *lockfile.Lock
	stream bool   // the path is a pipe or a device, which is read once and written in place
	before []byte // the content as it was read; nil if the file did not exist
	saved  bool
	values map[string]*variable
	names  []string // of values, in the order of the file
	added  map[string]any
}

// openStore reads a vars store, which need not exist.
func (d *document) openStore(path string) (*varsStore, error) {
	expanded, err := ExpandHome(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: cannot find the home directory: %v", path, err)
	}
	if expanded, err = filepath.Abs(expanded); err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: %v", path, err)
	}
	// The target of a link is replaced, not the link.
	if real, err := filepath.EvalSymlinks(expanded); err == nil {
		expanded = real
	}
	s := &varsStore{path: expanded, shown: path, stream: atomicfile.InPlace(expanded), added: map[string]any{}}
	return s, s.read(d)
}

// read reads the file. Problems of its content are recorded in d.
func (s *varsStore) read(d *document) error {
	s.values, s.names, s.before = map[string]*variable{}, nil, nil
	if atomicfile.WriteOnly(s.path) {
		return nil // a pipe or device that only takes output
	}
	if info, err := os.Stat(s.path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 && (!strings.HasPrefix(s.path, "/dev/") || strings.HasPrefix(s.path, "/dev/shm/")) {
		return fmt.Errorf("cannot use %s as a vars store: it is a named pipe, but a vars store is read before it is written", s.shown)
	}
	data, err := readFile("the vars store", s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	s.before = data
	if s.before == nil {
		s.before = []byte{}
	}
	for _, e := range d.namedValues("the vars store", s.shown, data) {
		name, _ := e.key.(string)
		s.values[name] = &variable{value: e.value, secret: true, origin: "--vars-store " + s.shown}
		s.names = append(s.names, name)
	}
	return nil
}

// get returns a stored value, or nil.
func (s *varsStore) get(name string) *variable {
	if s == nil {
		return nil
	}
	return s.values[name]
}

// add adds a generated value.
func (s *varsStore) add(name string, value any) { s.added[name] = value }

// acquire locks the store until close and reads it again, so that two processes
// do not generate the same variables.
func (s *varsStore) acquire(d *document) error {
	if s.stream {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(s.path)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write the vars store %s: its folder does not exist; check the path, or create the folder", s.shown)
	}
	lock, err := s.awaitLock()
	if err != nil {
		return err
	}
	s.lock = lock
	atomicfile.Match(lock.Path(), s.path) // whoever may write the store may lock it
	atomicfile.RemoveStale(s.path)
	atomicfile.RemoveStale(s.path + ".previous")
	return s.read(d)
}

var errVarsLocked = errors.New("the vars store is locked")

// awaitLock locks the file beside the store. It waits for another process that
// holds the lock.
func (s *varsStore) awaitLock() (*lockfile.Lock, error) {
	const retry = 50 * time.Millisecond
	path := s.path + ".lock"
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockTimeout, errVarsLocked)
	defer cancel()
	var lock *lockfile.Lock
	err := wait.Poll(ctx, retry, func() (_ bool, err error) {
		lock, err = lockfile.Try(path)
		return lock != nil, err
	})
	switch {
	case errors.Is(err, errVarsLocked):
		return nil, fmt.Errorf("cannot write the vars store %s: another process has held its lock %s for %v", s.shown, path, lockTimeout)
	case err != nil:
		return nil, fmt.Errorf("cannot lock the vars store %s with %s: %w", s.shown, path, err)
	}
	return lock, nil
}

// close releases the lock. It removes a lock file that it created if nothing
// was saved.
func (s *varsStore) close() {
	if s == nil || s.lock == nil {
		return
	}
	if s.lock.Made() && !s.saved {
		s.lock.Remove()
	} else {
		s.lock.Close()
	}
	s.lock = nil
}

// save writes the whole file with the added values. A new file is readable only
// for its owner; of an existing one, a copy is kept as .previous.
func (s *varsStore) save() error {
	if s == nil || len(s.added) == 0 {
		return nil
	}
	var all yaml2.MapSlice
	for name, v := range s.values {
		if _, again := s.added[name]; !again {
			all = append(all, yaml2.MapItem{Key: name, Value: v.value.ordered()})
		}
	}
	for name, value := range s.added {
		all = append(all, yaml2.MapItem{Key: name, Value: value})
	}
	sortKeys(all)
	data, err := yaml2.Marshal(all)
	if err != nil {
		return fmt.Errorf("cannot write the vars store %s: %v", s.shown, err)
	}
	if s.before != nil && !s.stream {
		if err := atomicfile.Write(s.path+".previous", s.before); err != nil {
			return fmt.Errorf("cannot keep a copy of the vars store %s: %w", s.shown, err)
		}
		atomicfile.Match(s.path+".previous", s.path)
	}
	if err := atomicfile.Write(s.path, data); err != nil {
		return fmt.Errorf("cannot write the vars store %s: %w", s.shown, err)
	}
	s.saved = true
	return nil
}
