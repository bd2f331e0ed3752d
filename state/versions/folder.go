package versions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// Folder is an archive in a folder: NUMBER.json is a snapshot, and NUMBER.NAME another
// document of the same version. The file writers.json lists who wrote each version, and
// gone.json what was deleted. The time of a version is that of its file.
type Folder struct {
	Dir string
	// Like is a file with the owner and mode of the versions; empty: this user's.
	Like string
	// Describe returns a snapshot with the description of its version in it, in place of
	// writers.json, gone.json and the time of the file; nil: snapshots have none.
	Describe func(snapshot []byte, v Version) ([]byte, error)
}

// The names of the lists in a folder.
const (
	writersName = "writers.json"
	goneName    = "gone.json"
)

// writer is who wrote a version.
type writer struct {
	By      string `json:"by"`
	Command string `json:"command"`
}

// description is the part of a snapshot that describes its version.
type description struct {
	Written time.Time `json:"written"`
	By      string    `json:"by"`
	Command string    `json:"command"`
	Only    []string  `json:"only_here"`
}

// dropped is the content of gone.json. It lists resources that were removed from the state
// on purpose: they were deleted, or the user removed the record with a command. A resource
// that is in a version, but neither in the state nor in this list, was lost with the file or
// by a restore.
type dropped struct {
	Gone []string `json:"gone"`
	// Forgotten is List.Forgotten.
	Forgotten []string `json:"forgotten,omitempty"`
}

// Path returns the path of a document.
func (f Folder) Path(serial int, name string) string {
	return filepath.Join(f.Dir, strconv.Itoa(serial)+"."+cmp.Or(name, "json"))
}

// Most is the number of versions that the folder keeps.
func (f Folder) Most() int { return Kept }

// List lists the versions. It returns none for a folder that cannot be read.
func (f Folder) List(context.Context) (List, error) {
	var l List
	entries, err := os.ReadDir(f.Dir)
	if err != nil {
		return l, nil
	}
	writers := f.writers()
	others := attached(entries)
	for _, e := range entries {
		serial, name := parse(e.Name())
		info, err := e.Info()
		if name != Snapshot || err != nil || !info.Mode().IsRegular() {
			continue
		}
		by := writers[serial]
		v := Version{Serial: serial, Written: info.ModTime(), By: by.By, Command: by.Command, Attached: others[serial]}
		if f.Describe != nil {
			v.described(f.Path(serial, Snapshot))
		}
		l.Versions = append(l.Versions, v)
	}
	slices.SortStableFunc(l.Versions, func(a, b Version) int { return b.Serial - a.Serial })
	var d dropped
	if data, err := regular.Read(f.gone()); err == nil {
		_ = json.Unmarshal(data, &d) // A damaged list counts as empty.
		l.Gone, l.Forgotten = append([]string{}, d.Gone...), d.Forgotten
	}
	return l, nil
}

// parse returns the number and the document of a file; -1 and a name: it is another file.
func parse(file string) (serial int, name string) {
	number, name, _ := strings.Cut(file, ".")
	serial, err := strconv.Atoi(number)
	switch {
	case err != nil || serial < 0 || number != strconv.Itoa(serial):
		return -1, file
	case name == "json":
		return serial, Snapshot
	case name == Manifest:
		return serial, name
	}
	return -1, file
}

// attached returns the names of other documents by the number of their version.
func attached(entries []fs.DirEntry) map[int][]string {
	all := map[int][]string{}
	for _, e := range entries {
		if serial, name := parse(e.Name()); name != Snapshot && serial >= 0 {
			all[serial] = append(all[serial], name)
		}
	}
	return all
}

// described reads the description in a snapshot.
func (v *Version) described(path string) {
	var d description
	data, err := regular.Read(path)
	if err != nil || json.Unmarshal(data, &d) != nil {
		return
	}
	if !d.Written.IsZero() {
		v.Written = d.Written
	}
	v.By, v.Command, v.Only = d.By, d.Command, d.Only
}

// writers returns who wrote the versions; none if the file is damaged.
func (f Folder) writers() map[int]writer {
	list := map[int]writer{}
	if data, err := regular.Read(filepath.Join(f.Dir, writersName)); err != nil || json.Unmarshal(data, &list) != nil {
		return nil
	}
	return list
}

func (f Folder) gone() string { return filepath.Join(f.Dir, goneName) }

// SetList replaces the list.
func (f Folder) SetList(ctx context.Context, l List) error {
	was, err := f.List(ctx)
	if err != nil {
		return err
	}
	if _, err := os.Stat(f.Dir); errors.Is(err, fs.ErrNotExist) && len(l.Versions) == 0 {
		return nil
	}
	if f.Describe != nil {
		return f.describeAll(was, l)
	}
	writers := map[int]writer{}
	for _, v := range l.Versions {
		if v.By != "" || v.Command != "" {
			writers[v.Serial] = writer{v.By, v.Command}
		}
		if old, has := was.Find(v.Serial); has && !v.Written.IsZero() && !v.Written.Equal(old.Written) {
			_ = os.Chtimes(f.Path(v.Serial, Snapshot), v.Written, v.Written)
		}
	}
	var errs []error
	if before := f.writers(); !equal(before, writers) {
		errs = append(errs, f.writeList(writersName, writers))
	}
	if l.Gone != nil && (was.Gone == nil || !slices.Equal(was.Gone, l.Gone) || !slices.Equal(was.Forgotten, l.Forgotten)) {
		errs = append(errs, f.writeList(goneName, dropped{Gone: l.Gone, Forgotten: l.Forgotten}))
	}
	return errors.Join(errs...)
}

func equal(a, b map[int]writer) bool {
	if len(a) != len(b) {
		return false
	}
	for serial, w := range a {
		if b[serial] != w {
			return false
		}
	}
	return true
}

// describeAll writes changed descriptions into the snapshots.
func (f Folder) describeAll(was, now List) error {
	for _, v := range now.Versions {
		old, has := was.Find(v.Serial)
		if has && slices.Equal(old.Only, v.Only) && old.Written.Equal(v.Written) && old.By == v.By && old.Command == v.Command {
			continue
		}
		path := f.Path(v.Serial, Snapshot)
		data, err := regular.Read(path)
		if err == nil {
			data, err = f.Describe(data, v)
		}
		if err == nil {
			err = f.write(path, data)
		}
		if err != nil {
			return fmt.Errorf("cannot describe version %d of the deployment: %w", v.Serial, err)
		}
	}
	return nil
}

func (f Folder) writeList(name string, list any) error {
	data, err := json.MarshalIndent(list, "", "    ")
	if err == nil {
		err = f.write(filepath.Join(f.Dir, name), append(data, '\n'))
	}
	if err != nil {
		return fmt.Errorf("cannot write %s of the versions of the deployment state: %w", name, err)
	}
	return nil
}

// Read returns a document of a version.
func (f Folder) Read(_ context.Context, serial int, name string) ([]byte, error) {
	return regular.Read(f.Path(serial, name))
}

// Write writes a document of a version.
func (f Folder) Write(_ context.Context, serial int, name string, data []byte) error {
	return f.write(f.Path(serial, name), data)
}

func (f Folder) write(path string, data []byte) error {
	if err := atomicfile.MkdirAll(f.Dir, 0o700); err != nil {
		return err
	}
	atomicfile.RemoveStale(path)
	if err := atomicfile.Write(path, data); err != nil {
		return err
	}
	if f.Like != "" {
		atomicfile.Match(f.Dir, f.Like)
		atomicfile.Match(path, f.Like)
	}
	return nil
}

// Remove removes a document of a version.
func (f Folder) Remove(_ context.Context, serial int, name string) error {
	err := os.Remove(f.Path(serial, name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
