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

// lockTimeout is how long another process may take to generate its variables.
const lockTimeout = time.Minute

// varsStore is the file in which generated values are kept: a map of names to
// values, in the form of create-env.
type varsStore struct {
	path   string // links resolved
	shown  string // as the user wrote it
	lock   *lockfile.Lock
	stream bool   // the path is a pipe or a device: it is read once, and written in place
	before []byte // the file as it was read; nil: there was none
	saved  bool
	values map[string]*variable
	names  []string // of values, in the order of the file
	added  map[string]any
}

// openStore reads a vars store, which need not exist.
func (d *document) openStore(path string) (*varsStore, error) {
	expanded, err := ExpandHome(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: cannot tell which directory ~ is: %v", path, err)
	}
	if expanded, err = filepath.Abs(expanded); err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: %v", path, err)
	}
	// The file that a link leads to is replaced, not the link.
	if real, err := filepath.EvalSymlinks(expanded); err == nil {
		expanded = real
	}
	s := &varsStore{path: expanded, shown: path, stream: atomicfile.InPlace(expanded), added: map[string]any{}}
	return s, s.read(d)
}

// read reads the file. What is wrong with its content is reported in d.
func (s *varsStore) read(d *document) error {
	s.values, s.names, s.before = map[string]*variable{}, nil, nil
	if atomicfile.WriteOnly(s.path) {
		return nil // what is made is written there, and nothing is to be read
	}
	if info, err := os.Stat(s.path); err == nil && info.Mode()&fs.ModeNamedPipe != 0 && !strings.HasPrefix(s.path, "/dev/") {
		return fmt.Errorf("cannot use %s as a vars store: it is a named pipe, and a vars store is read before it is written", s.shown)
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

// get returns a stored value, nil if there is none.
func (s *varsStore) get(name string) *variable {
	if s == nil {
		return nil
	}
	return s.values[name]
}

// add notes a value that was generated.
func (s *varsStore) add(name string, value any) { s.added[name] = value }

// acquire locks the store until close, so that no two processes generate the
// same variables, and reads it again.
func (s *varsStore) acquire(d *document) error {
	if s.stream {
		return nil
	}
	if _, err := os.Stat(filepath.Dir(s.path)); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("cannot write the vars store %s: its folder does not exist; if the path is right, make the folder first", s.shown)
	}
	lock, err := s.awaitLock()
	if err != nil {
		return err
	}
	s.lock = lock
	atomicfile.Match(lock.Path(), s.path) // who may write the one may lock the other
	atomicfile.DropCut(s.path)
	atomicfile.DropCut(s.path + ".previous")
	return s.read(d)
}

var errVarsLocked = errors.New("the vars store is locked")

// awaitLock locks the file beside the store, and waits for another process that
// has it locked.
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
		return nil, fmt.Errorf("cannot write the vars store %s: another process has had it locked (%s) for %v", s.shown, path, lockTimeout)
	case err != nil:
		return nil, fmt.Errorf("cannot lock the vars store %s with %s: %w", s.shown, path, err)
	}
	return lock, nil
}

// close gives up the lock. A lock file that was made for nothing goes.
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

// save writes the file with the values that were added: whole, and if it is a new
// one, only for its owner to read. The previous one is kept beside it, with the ending .previous.
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
