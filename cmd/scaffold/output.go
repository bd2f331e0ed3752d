package scaffold

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
)

// unfinished is the first line of files with values. A killed init leaves one of them,
// but no bootstrap.yml, which is written after all other required files.
const unfinished = "# Values that differ between environments."

// ignored is the file that keeps secrets out of git. An existing one belongs to the
// person.
const ignored = ".gitignore"

// output is a file to write.
type output struct {
	path string // path in the folder, with slashes
	text string
	mode fs.FileMode
}

// writing collects the files of a request.
type writing struct {
	files        []*output
	manifest     string
	used, unused []string // operations, as entries of bootstrap.yml
}

func (w *writing) add(path, text string, mode fs.FileMode) {
	w.files = append(w.files, &output{path, text, mode})
}

// output returns all files of the request.
func (r *Request) output(ctx context.Context, from Source) ([]*output, error) {
	w := &writing{manifest: "manifest.yml"}
	if r.Purpose == director {
		if err := w.director(ctx, r, from); err != nil {
			return nil, err
		}
	} else if err := w.machine(r); err != nil {
		return nil, err
	}
	hasSecrets := slices.ContainsFunc(r.settings(), func(s *setting) bool { return s.kind == secret })
	head := unfinished
	if hasSecrets {
		head += " Secrets are in secrets.yml."
	}
	w.add("vars.yml", r.varsFile(head+"\n", func(s *setting) bool { return s.kind != secret && s.kind != file }), 0o644)
	if hasSecrets {
		w.add("secrets.yml", r.varsFile("# Secrets: never commit this file. bootstrap.yml can name another source: docs/sources.md of bootstrap.\n",
			func(s *setting) bool { return s.kind == secret }), 0o600)
	}
	environment, err := filled(read("machine")["bootstrap.yml"], nil, struct {
		Manifest, FileVars string
		Used, Unused       []string
		Secrets            bool
	}{w.manifest, r.fileVars(), w.used, w.unused, hasSecrets})
	if err != nil {
		return nil, err
	}
	w.add("bootstrap.yml", environment, 0o644)
	if _, err := os.Lstat(filepath.Join(r.Dir, ignored)); errors.Is(err, fs.ErrNotExist) {
		text := read("machine")[ignored]
		for _, name := range slices.Sorted(maps.Keys(r.files)) {
			if path, ok := r.inside(r.files[name]); ok {
				text += "/" + path + "\n"
			}
		}
		w.add(ignored, text, 0o644)
	}
	return w.files, nil
}

// machine adds the manifest and the operations for a VM that is not a Director, and the
// example release if there is no other release.
func (w *writing) machine(r *Request) error {
	functions := template.FuncMap{"name": func() string { return scalar(r.Name) }, "group": r.group, "part": r.inserted}
	add := func(name string) error {
		text, err := filled(r.part(name), functions, nil)
		w.add(name, text, 0o644)
		return err
	}
	if err := add(w.manifest); err != nil {
		return err
	}
	for _, line := range lines(read("machine")["common"] + r.part("operations")) {
		f := fields(line, 2)
		if err := add(f[0]); err != nil {
			return err
		}
		if f[0] == "operations/external-ip.yml" && r.values["external_ip"] != "" {
			w.used = append(w.used, f[0])
		} else {
			w.unused = append(w.unused, f[0]+" # "+f[1])
		}
	}
	if r.Purpose != release || r.found != nil {
		return nil
	}
	parts := read(release)
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if strings.HasPrefix(name, example+"/") {
			w.add(name, parts[name], 0o644)
		}
	}
	return nil
}

// group returns the name of the instance group.
func (r *Request) group() string {
	if r.Purpose == release {
		return scalar(r.releaseName())
	}
	return r.Purpose
}

// inserted returns the lines of a part of the manifest, without the last line end; empty:
// there is nothing to insert.
func (r *Request) inserted(part string) string {
	text := ""
	switch {
	case part == "releases" && r.Purpose == release:
		text = r.releaseEntry()
	case part == "jobs" && r.Purpose == release:
		text = r.jobEntries()
	case part == "variables":
		text = read(r.Provider)["variables"] + read(r.Purpose)["variables"]
	default:
		text = r.part(part)
	}
	return strings.TrimSuffix(text, "\n")
}

// fileVars returns the variables whose values are the contents of files.
func (r *Request) fileVars() string {
	var b strings.Builder
	head := "# var_files:\n"
	for _, s := range r.settings() {
		if s.kind != file {
			continue
		}
		if s.about != "" {
			fmt.Fprintf(&b, "# %s\n", strings.Join(wrapped(s.about, commentWidth), "\n# "))
		}
		if path := r.files[s.name]; path != "" {
			head = "var_files:\n"
			if near, ok := r.inside(path); ok {
				path = near
			}
			fmt.Fprintf(&b, "  %s: %s\n", s.name, scalar(path))
		} else {
			fmt.Fprintf(&b, "#  %s: PATH\n", s.name)
		}
	}
	if b.Len() == 0 {
		return ""
	}
	return head + strings.TrimSuffix(b.String(), "\n")
}

// refuseExisting returns an *ExistsError if there is a bootstrap.yml, or a vars.yml that
// is not from a killed init, unless Force is set.
func (r *Request) refuseExisting() error {
	var existing []string
	for _, name := range []string{"bootstrap.yml", "vars.yml"} {
		at := filepath.Join(r.Dir, name)
		if _, err := os.Lstat(at); err != nil {
			continue
		}
		text, _ := regular.Read(at)
		if len(existing) > 0 || name == "bootstrap.yml" || !strings.HasPrefix(string(text), unfinished) {
			existing = append(existing, at)
		}
	}
	if len(existing) > 0 && !r.Force {
		return &ExistsError{Paths: existing, Beside: r.Manifest != ""}
	}
	return nil
}

// write writes all files, or none: existing files and symbolic links are refused unless
// Force is set. After an error it restores everything. After a killed init, it writes the
// missing files; existing ones must have the same content.
func (r *Request) write(all []*output) error {
	var existing, different []string
	for _, f := range all {
		at := filepath.Join(r.Dir, filepath.FromSlash(f.path))
		if info, err := os.Lstat(at); err == nil && info.IsDir() {
			return fmt.Errorf("cannot write %s: it is a folder; name another folder for the environment", at)
		} else if err == nil {
			existing = append(existing, at)
			if text, err := regular.Read(at); err != nil || !info.Mode().IsRegular() || string(text) != f.text {
				different = append(different, at)
			}
		} else if !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot write %s: %w", at, document.Cause(err))
		}
	}
	switch {
	case !r.Force && len(different) > 0:
		return &ExistsError{Paths: different, Beside: r.Manifest != ""}
	case !r.Force && len(existing) == len(all):
		return &ExistsError{Paths: existing, Beside: r.Manifest != ""}
	}
	before, err := readAll(existing)
	if err != nil {
		return err
	}
	var folders, done []string
	for _, f := range all {
		at := filepath.Join(r.Dir, filepath.FromSlash(f.path))
		if _, exists := before[at]; exists && !r.Force {
			continue
		}
		atomicfile.RemoveStale(at)
		made, err := makeFolders(filepath.Dir(at))
		folders = append(folders, made...)
		if err == nil {
			err = atomicfile.WriteMode(at, []byte(f.text), f.mode)
		}
		if err != nil {
			undo(done, folders, before)
			return fmt.Errorf("cannot write %s: %w; nothing was left behind", at, document.Cause(err))
		}
		done = append(done, at)
	}
	return nil
}

// inside returns a path relative to the folder of the environment, with slashes, so that
// it is valid in a clone on another system; false: it is outside of that folder.
func (r *Request) inside(path string) (string, bool) {
	near, err := filepath.Rel(r.absolute(), path)
	return filepath.ToSlash(near), err == nil && filepath.IsLocal(near)
}

// readAll reads files that will be overwritten, by path.
func readAll(paths []string) (map[string]output, error) {
	all := map[string]output{}
	for _, at := range paths {
		info, err := os.Lstat(at)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New("it is not a regular file; remove it, or name another folder")
		}
		var text []byte
		if err == nil {
			text, err = regular.Read(at)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot overwrite %s: %w", at, document.Cause(err))
		}
		all[at] = output{text: string(text), mode: info.Mode().Perm()}
	}
	return all, nil
}

// undo removes new files and folders, and restores overwritten files. Its errors are
// ignored, because the disk has just failed.
func undo(done, folders []string, before map[string]output) {
	for _, at := range done {
		if old, existed := before[at]; existed {
			_ = atomicfile.WriteMode(at, []byte(old.text), old.mode)
			continue
		}
		_ = os.Remove(at)
	}
	for _, dir := range slices.Backward(folders) {
		_ = os.Remove(dir)
	}
}

// makeFolders makes a folder and missing parents, and returns the new ones.
func makeFolders(dir string) (made []string, err error) {
	if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if made, err = makeFolders(filepath.Dir(dir)); err != nil {
		return made, err
	}
	if err := os.Mkdir(dir, 0o755); err != nil {
		return made, err
	}
	return append(made, dir), nil
}

// ExistsError lists the files that would have been overwritten.
type ExistsError struct {
	Paths  []string
	Beside bool // the folder is that of a manifest, and cannot be another one
}

func (e *ExistsError) Error() string {
	const most = 3
	var names []string
	for _, p := range e.Paths[:min(most, len(e.Paths))] {
		names = append(names, path.Clean(filepath.ToSlash(p)))
	}
	text, verb, them := strings.Join(names, ", "), "exist", "them"
	if more := len(e.Paths) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	} else if len(e.Paths) == 1 {
		verb, them = "exists", "it"
	}
	other := "name another folder"
	if e.Beside {
		other = "move " + them + " to another folder"
	}
	return fmt.Sprintf("%s already %s and nothing was written; %s, or overwrite %s with --force", text, verb, other, them)
}
