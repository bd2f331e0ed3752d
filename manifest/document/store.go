package document

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"

	yaml2 "go.yaml.in/yaml/v2"

	"bootstrap/manifest/store"
)

// varsStore keeps generated values: a map of names to values, as create-env writes
// it.
type varsStore struct {
	file   *store.File
	values map[string]*variable
	names  []string // names of the values, in the order of the file
	added  map[string]any
	less   bool // values were removed
}

// openStore reads a vars store, which need not exist.
func (d *document) openStore(ctx context.Context, opts Options) (*varsStore, error) {
	path := opts.VarsStore
	expanded, err := ExpandHome(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: cannot find the home directory: %v", path, err)
	}
	if expanded, err = filepath.Abs(expanded); err != nil {
		return nil, fmt.Errorf("cannot read the vars store %s: %v", path, err)
	}
	s := &varsStore{file: store.At(expanded, cmp.Or(opts.StoreName, path), opts.Keys, opts.SaveStore), added: map[string]any{}}
	s.file.State = opts.StoreState
	return s, s.read(ctx, d)
}

// read reads the file. Problems of its content are recorded in d.
func (s *varsStore) read(ctx context.Context, d *document) error {
	s.values, s.names = map[string]*variable{}, nil
	data, err := s.file.Read(ctx)
	if err != nil {
		return &FileError{Err: err}
	}
	if !s.file.Exists() {
		if err := s.file.Lost(); err != nil {
			return &FileError{Err: err}
		}
		return nil
	}
	if other, found := notStore(s.file.Shown, data); found {
		d.problems = append(d.problems, other)
		return nil
	}
	for _, e := range d.namedValues("the vars store", s.file.Shown, data) {
		name, _ := e.key.(string)
		s.values[name] = &variable{value: e.value, secret: true, origin: "--vars-store " + s.file.Shown}
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

// keep makes the added values stored ones, after save.
func (s *varsStore) keep() {
	for name, value := range s.added {
		if s.values[name] == nil {
			s.names = append(s.names, name)
		}
		s.values[name] = &variable{value: toNode(value), loose: true, secret: true, origin: "--vars-store " + s.file.Shown}
	}
	clear(s.added)
}

// remove removes values.
func (s *varsStore) remove(which func(name string) bool) {
	maps.DeleteFunc(s.values, func(name string, _ *variable) bool { return which(name) })
	s.names = slices.DeleteFunc(s.names, which)
	s.less = true
}

// acquire locks the store until close and reads it again, so that two processes
// do not generate the same variables.
func (s *varsStore) acquire(ctx context.Context, d *document) error {
	if !s.file.Streams() {
		if err := s.file.Lock(ctx); err != nil {
			return err
		}
		if err := s.read(ctx, d); err != nil {
			return err
		}
	}
	return s.writable()
}

// writable returns an error if new values could not be kept.
func (s *varsStore) writable() error {
	if err := s.file.Writable(); err != nil {
		return &FileError{Err: err}
	}
	return nil
}

// StoreReaders returns the recipients of the vars store; nil if it is not encrypted.
func (d *Document) StoreReaders() []string {
	if d.store == nil || !d.store.file.Sealed {
		return nil
	}
	return d.store.file.Recipients()
}

// close releases the lock.
func (s *varsStore) close() {
	if s != nil {
		s.file.Close()
	}
}

// save writes the whole file with the added values.
func (s *varsStore) save(ctx context.Context) error {
	if s == nil || len(s.added) == 0 && !s.less {
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
		return fmt.Errorf("cannot write the vars store %s: %v", s.file.Shown, err)
	}
	return s.file.Write(ctx, data)
}
