package fleet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"

	"bootstrap/internal/keyorder"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// placeholder stands for the name of the member in a path.
const placeholder = "{name}"

// located is a path in the fleet file, with its place; the path is empty if there is
// none.
type located struct {
	place document.Value
	path  string
}

// orElse returns the place of the path; without a path, the other place.
func (l located) orElse(v document.Value) document.Value {
	if l.path == "" {
		return v
	}
	return l.place
}

// otherPlaceholder finds words in braces, which may be meant as placeholders.
var otherPlaceholder = regexp.MustCompile(`\{[A-Za-z_]*\}`)

// readPath reads a path, which may contain {name}.
func (r *reader) readPath(v document.Value) located {
	text, ok := v.Text()
	if ok && strings.TrimSpace(text) == "" {
		v.Fail("must not be blank: the path of a file")
		return located{}
	}
	for _, word := range otherPlaceholder.FindAllString(text, -1) {
		if word != placeholder {
			v.Fail("%s has no meaning in a path; only %s is replaced", word, document.Literal(placeholder))
			return located{}
		}
	}
	return located{v, text}
}

// readState reads the path of a state file, or the address of a team's store. It refuses
// one with a password, which records and lists of processes would show.
func (r *reader) readState(v document.Value) located {
	if text, _ := v.Text(); team.IsAddress(text) && len(team.Secrets(text)) > 0 {
		v.Fail("must not contain a password: give it in PGPASSWORD or ~/.pgpass; a store of https:// that wants one cannot have the state of a fleet's member")
		return located{}
	}
	return r.readPath(v)
}

// state returns the path or the address of a member's state; empty: it is not given.
func (f files) state(l located, member string) string {
	if team.IsAddress(l.path) {
		return strings.ReplaceAll(l.path, placeholder, member)
	}
	return f.path(l, member)
}

// readPaths reads a path or a list of paths.
func (r *reader) readPaths(v document.Value) []located {
	places := []document.Value{v}
	if v.IsList() {
		places = v.Items()
	}
	var paths []located
	for _, place := range places {
		if v.IsList() && place.IsNull() {
			place.Fail("must not be blank: the path of a file")
		}
		if l := r.readPath(place); l.path != "" {
			paths = append(paths, l)
		}
	}
	return paths
}

// files finds the files that a fleet file names. It looks at each one once.
type files struct {
	dir     string // folder of the fleet file
	looked  map[string]error
	folders map[string]string          // folders without links: folder -> the same folder without links
	states  map[string][]existingState // by size and time
}

// existingState is a state file that exists.
type existingState struct {
	path string
	info fs.FileInfo
}

func newFiles(dir string) files {
	return files{dir: dir, looked: map[string]error{}, folders: map[string]string{}, states: map[string][]existingState{}}
}

// path returns the absolute path of a member's file, or "" if there is none.
func (f files) path(l located, member string) string {
	if l.path == "" {
		return ""
	}
	text := strings.ReplaceAll(l.path, placeholder, member)
	if strings.HasPrefix(text, "~") {
		expanded, err := document.ExpandHome(text)
		if err != nil {
			l.place.Fail("cannot find the home directory: %v", err)
		}
		return expanded
	}
	if filepath.IsAbs(text) || strings.HasPrefix(text, "/") {
		return filepath.Clean(text)
	}
	return filepath.Join(f.dir, text)
}

// existing returns the result of path. It reports a problem if the file does not exist.
func (f files) existing(l located, member string) string {
	path := f.path(l, member)
	err, known := f.looked[path]
	if !known {
		info, failure := os.Stat(path)
		switch {
		case errors.Is(failure, fs.ErrNotExist):
			err = errors.New("does not exist")
		case failure != nil:
			err = fmt.Errorf("cannot be read: %w", document.Cause(failure))
		case info.IsDir():
			err = errors.New("is a folder; name the file in it")
		case info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
			err = errors.New("is a pipe, and members read their files several times: write a file")
		}
		f.looked[path] = err
	}
	if err != nil {
		l.place.Fail("%s %v", path, err)
	}
	return path
}

// inFolder returns the result of path. It reports a problem if the folder does not exist.
func (f files) inFolder(l located, member string) string {
	path := f.path(l, member)
	if path == "" {
		return ""
	}
	folder := filepath.Dir(path)
	key := folder + string(filepath.Separator)
	err, known := f.looked[key]
	if !known {
		info, failure := os.Stat(folder)
		switch {
		case errors.Is(failure, fs.ErrNotExist):
			err = errors.New("does not exist; create it")
		case failure == nil && !info.IsDir():
			err = errors.New("is not a folder")
		}
		f.looked[key] = err
	}
	if err != nil {
		l.place.Fail("the folder %s %v", folder, err)
	}
	return path
}

// allExisting returns the result of existing for each path of a list.
func (f files) allExisting(list []located, member string) []string {
	if len(list) == 0 {
		return nil
	}
	paths := make([]string, len(list))
	for i, l := range list {
		paths[i] = f.existing(l, member)
	}
	return paths
}

// stateOf returns the state file of a member without links, so that each file
// has one path.
func (f files) stateOf(m Member) (string, error) {
	if m.IsStored() {
		return team.Place(m.State), nil
	}
	path := m.State
	if path == "" {
		path = file.Beside(m.Manifest)
	}
	if _, err := os.Readlink(path); err == nil {
		if path, err = file.Resolve(path); err != nil {
			return "", err
		}
	} else {
		dir := filepath.Dir(path)
		real, known := f.folders[dir]
		if !known {
			if real, err = filepath.EvalSymlinks(dir); err != nil {
				real = dir // it does not exist yet
			}
			f.folders[dir] = real
		}
		path = filepath.Join(real, filepath.Base(path))
	}
	if info, err := os.Stat(path); err == nil {
		key := fmt.Sprint(info.Size(), info.ModTime().UnixNano()) // hard links of one file have the same key
		for _, other := range f.states[key] {
			if other.path != path && os.SameFile(info, other.info) {
				return other.path, nil
			}
		}
		f.states[key] = append(f.states[key], existingState{path, info})
	}
	if runtime.GOOS == "darwin" || runtime.GOOS == "windows" {
		path = strings.ToLower(path) // most file systems of these two systems ignore case
	}
	return path, nil
}

// glob returns the absolute paths that match a pattern, sorted. As in a shell, a
// pattern does not match names that begin with a dot unless it has the dot.
func (f files) glob(pattern string) ([]string, error) {
	expanded, err := document.ExpandHome(pattern)
	if err != nil {
		return nil, fmt.Errorf("cannot find the home directory: %v", err)
	}
	text := path.Clean(filepath.ToSlash(expanded))
	if _, err := path.Match(text, ""); err != nil {
		return nil, fmt.Errorf("is not a valid pattern: %s", pattern)
	}
	base, rest := f.dir, text
	if filepath.IsAbs(expanded) || strings.HasPrefix(text, "/") {
		volume := filepath.VolumeName(expanded)
		base, rest = volume+string(filepath.Separator), strings.TrimPrefix(text[len(volume):], "/")
	}
	// The pattern begins at the first wildcard, so that the folders before it may
	// contain "..".
	for {
		first, more, found := strings.Cut(rest, "/")
		if !found || strings.ContainsAny(first, `*?[\`) {
			break
		}
		base, rest = filepath.Join(base, first), more
	}
	matches, err := fs.Glob(os.DirFS(base), rest)
	if err != nil {
		return nil, fmt.Errorf("is not a valid pattern: %s", pattern)
	}
	wanted := strings.Split(rest, "/")
	var paths []string
	for _, match := range matches {
		if !hidden(strings.Split(match, "/"), wanted) {
			paths = append(paths, filepath.Join(base, filepath.FromSlash(match)))
		}
	}
	slices.SortFunc(paths, keyorder.Names)
	return paths, nil
}

// hidden reports whether a wildcard would match the dot at the beginning of a name.
func hidden(names, pattern []string) bool {
	for i, name := range names {
		if strings.HasPrefix(name, ".") && !strings.HasPrefix(pattern[i], ".") {
			return true
		}
	}
	return false
}
