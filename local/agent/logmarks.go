package agent

import (
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	"bootstrap/local/machine"
)

// logMarks remembers how large the logs of the jobs were when the jobs were started last.
type logMarks struct {
	vm machine.VM

	mu     sync.Mutex
	active bool            // the jobs were not stopped and nothing was applied since
	sizes  map[logID]int64 // nil: this agent has not started the jobs
}

// logID identifies a log, also after a rotation has given it another name, where the system
// allows that.
type logID struct {
	file fileID
	name string // empty if file is known
}

func logIDOf(name string, info fs.FileInfo) logID {
	if id, _ := idOf(info); id != (fileID{}) {
		return logID{file: id}
	}
	return logID{name: name}
}

// ends is called when jobs are stopped, or others applied.
func (m *logMarks) ends() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active = false
}

// begins is called when scripts or processes of the jobs are started. again is true if that
// begins another start even if the jobs were not stopped.
func (m *logMarks) begins(again bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.active && !again {
		return
	}
	m.active, m.sizes = true, map[logID]int64{}
	m.each(func(_ string, id logID, size int64) { m.sizes[id] = size })
}

// before returns how many bytes of each log are from before the last start; nil: unknown.
func (m *logMarks) before() map[string]int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sizes == nil {
		return nil
	}
	of := map[string]int64{}
	m.each(func(name string, id logID, size int64) {
		if mark := m.sizes[id]; mark > 0 && mark <= size { // A smaller log was written again.
			of[name] = mark
		}
	})
	return of
}

// each calls do for each log of the jobs. It leaves out what cannot be read: marks only make
// messages shorter.
func (m *logMarks) each(do func(name string, id logID, size int64)) {
	root, err := filepath.EvalSymlinks(m.vm.Path("sys", "log"))
	if err != nil {
		return
	}
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil || !info.Mode().IsRegular() {
			return nil
		}
		if rel, err := filepath.Rel(root, path); err == nil {
			rel = filepath.ToSlash(rel)
			do(rel, logIDOf(rel, info), info.Size())
		}
		return nil
	})
}
