// Package watch waits until files change. The system announces changes where it
// can. A comparison of the files decides, so that a change is also seen on file systems
// without announcements.
package watch

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sort"
	"time"

	"github.com/fsnotify/fsnotify"

	"bootstrap/internal/wait"
)

const (
	// settle is how long no change may be announced before the files are compared: an
	// editor writes, renames and changes modes, and a checkout writes many files.
	settle = 30 * time.Millisecond
	// settled is how long announcements may delay the comparison.
	settled = time.Second
	// pause is the time between two comparisons without an announcement.
	pause = 2 * time.Second
	// alone is the pause between comparisons if the system does not announce the changes
	// of all folders.
	alone = 500 * time.Millisecond
)

// Files are the files that a look found, by their paths.
type Files map[string]stamp

// stamp differs between two versions of a file.
type stamp struct {
	mode fs.FileMode
	size int64
	time int64  // ns
	link string // target of a symbolic link
}

// Watcher waits for changes, for one goroutine. New returns one.
type Watcher struct {
	skip  func(name string) bool
	notes *fsnotify.Watcher // nil: the system does not announce changes
	noted map[string]bool   // the folders whose changes are announced; false: the system refused
}

// New returns a Watcher that ignores the files and folders for whose names skip
// returns true. The caller must call Close.
func New(skip func(name string) bool) *Watcher {
	w := &Watcher{skip: skip, noted: map[string]bool{}}
	if notes, err := fsnotify.NewWatcher(); err == nil { // without announcements, comparisons still find the changes, only later
		w.notes = notes
	}
	return w
}

// Close ends the announcements.
func (w *Watcher) Close() {
	if w.notes != nil {
		_ = w.notes.Close()
	}
}

// Look looks at the given files, and at all files in given folders. It follows symbolic
// links, and leaves out files that cannot be read.
func (w *Watcher) Look(paths []string) Files {
	found := walk{w, Files{}, map[string]bool{}}
	for _, p := range paths {
		if info, err := os.Stat(p); err == nil && !info.IsDir() {
			w.note(filepath.Dir(p)) // an editor replaces the file
		}
		found.add(p)
	}
	return found.files
}

// walk is one look at files.
type walk struct {
	*Watcher
	files   Files
	visited map[string]bool // folders, without symbolic links
}

func (w walk) add(path string) {
	info, err := os.Lstat(path)
	if err != nil {
		return
	}
	s := stamp{mode: info.Mode(), size: info.Size(), time: info.ModTime().UnixNano()}
	if info.Mode()&fs.ModeSymlink != 0 {
		s.link, _ = os.Readlink(path)
		if info, err = os.Stat(path); err != nil {
			w.files[path] = s
			return
		}
		s.mode, s.size, s.time = info.Mode(), info.Size(), info.ModTime().UnixNano()
	}
	if !info.IsDir() {
		w.files[path] = s
		return
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil || w.visited[real] {
		return
	}
	w.visited[real] = true
	w.note(path)
	entries, _ := os.ReadDir(path) // on an error, the entries that could be read
	for _, e := range entries {
		if !w.skip(e.Name()) {
			w.add(filepath.Join(path, e.Name()))
		}
	}
}

// note has the changes of a folder announced.
func (w *Watcher) note(folder string) {
	if w.notes == nil || w.noted[folder] {
		return
	}
	w.noted[folder] = w.notes.Add(folder) == nil
}

// Changed waits until the files differ from an earlier look and are not being written any
// more. It returns the new look and the paths that differ, or the cause of the context if
// the context ends first.
func (w *Watcher) Changed(ctx context.Context, paths []string, from Files) (Files, []string, error) {
	for {
		now, err := w.written(ctx, paths, from)
		if err != nil {
			return nil, nil, err
		}
		if changed := from.differ(now); len(changed) > 0 {
			return now, changed, nil
		}
		if err := w.wait(ctx); err != nil {
			return nil, nil, err
		}
	}
}

// written waits until nobody writes to changed files any more: until two looks at them
// are equal, or the time settled has passed.
func (w *Watcher) written(ctx context.Context, paths []string, from Files) (Files, error) {
	now, end := w.Look(paths), time.Now().Add(settled)
	for len(from.differ(now)) > 0 && time.Now().Before(end) {
		if err := wait.For(ctx, settle); err != nil {
			return nil, err
		}
		later := w.Look(paths)
		if len(now.differ(later)) == 0 {
			break
		}
		now = later
	}
	return now, nil
}

// wait waits for the next comparison.
func (w *Watcher) wait(ctx context.Context) error {
	next := pause
	if !w.announced() {
		next = alone
	}
	timer, last := time.NewTimer(next), (<-chan time.Time)(nil)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-timer.C:
			return nil
		case <-last:
			return nil
		case e, open := <-w.events():
			if !open || w.skip(filepath.Base(e.Name)) {
				continue
			}
			if e.Op.Has(fsnotify.Remove) || e.Op.Has(fsnotify.Rename) {
				delete(w.noted, e.Name) // if a folder with that name is created again, it is another folder
			}
			timer.Reset(settle)
			if last == nil {
				last = time.After(settled)
			}
		case <-w.errors(): // too many events at once, of which some are lost
			return nil
		}
	}
}

// announced reports whether the system announces the changes of all folders; systems
// limit the number of folders.
func (w *Watcher) announced() bool {
	for _, noted := range w.noted {
		if !noted {
			return false
		}
	}
	return w.notes != nil
}

func (w *Watcher) events() <-chan fsnotify.Event {
	if w.notes == nil {
		return nil
	}
	return w.notes.Events
}

func (w *Watcher) errors() <-chan error {
	if w.notes == nil {
		return nil
	}
	return w.notes.Errors
}

// differ returns the paths that differ in a later look, in order.
func (f Files) differ(later Files) []string {
	var list []string
	for path, s := range later {
		if old, had := f[path]; !had || old != s {
			list = append(list, path)
		}
	}
	for path := range f {
		if _, has := later[path]; !has {
			list = append(list, path)
		}
	}
	sort.Strings(list)
	return list
}

// Or returns the files of a later look. For a file that is also in the earlier look, it
// returns what the earlier look found.
func (f Files) Or(later Files) Files {
	both := maps.Clone(later)
	for path := range both {
		if s, had := f[path]; had {
			both[path] = s
		}
	}
	return both
}
