package artifact

import "sync"

// localReleases are the releases that a store with Config.Once has read from local files and
// folders without a digest, by path. The zero value has none.
type localReleases struct {
	mu    sync.Mutex
	read  map[string]*index
	locks map[string]*sync.Mutex
}

// lock makes others that read the release at a path wait until unlock is called.
func (l *localReleases) lock(path string) (unlock func()) {
	l.mu.Lock()
	if l.locks == nil {
		l.read, l.locks = map[string]*index{}, map[string]*sync.Mutex{}
	}
	of := l.locks[path]
	if of == nil {
		of = &sync.Mutex{}
		l.locks[path] = of
	}
	l.mu.Unlock()
	of.Lock()
	return of.Unlock
}

// keep keeps the release that was read at a path, maybe with more packages than before. It
// returns false if the release has another content than before.
func (l *localReleases) keep(path string, ix *index) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.read[path]; before != nil && before.Version != ix.Version {
		return false
	}
	l.read[path] = ix
	return true
}

// get returns the release that was read at a path; nil: none.
func (l *localReleases) get(path string) *index {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.read[path]
}
