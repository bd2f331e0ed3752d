package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bootstrap/state/versions"
)

// Version is a deployment at the end of a run: its record, and the states of its instances. Of
// a deployment without a record it has the state of the only instance, with an empty id.
type Version struct {
	Format  int       `json:"format"`
	Serial  int       `json:"version"`
	Written time.Time `json:"written"`
	By      string    `json:"by,omitempty"`      // user@host; empty: the changes were found by a later run
	Command string    `json:"command,omitempty"` // without the values of flags
	// Only lists resources that a restore of another version has made this one the only
	// record of: "VM vm-1 of web/2".
	Only []string `json:"only_here,omitempty"`
	// Deleted lists resources that the states record, because a restore has brought them back,
	// although they were deleted before: "VM vm-1".
	Deleted []string                   `json:"deleted,omitempty"`
	Record  *Record                    `json:"record"`
	States  map[string]json.RawMessage `json:"states"` // by the id of the instance
	// Unreadable are the ids of instances whose states were damaged.
	Unreadable []string `json:"unreadable,omitempty"`

	Present  bool     `json:"-"` // the deployment is still this version
	Attached []string `json:"-"` // names of other documents of the version
	Path     string   `json:"-"`
	Err      error    `json:"-"` // why it cannot be read
}

// VersionsIn returns the folder for the versions of the record in a folder, which is not in
// a store.
func VersionsIn(dir string) string { return dir + ".backups" }

// CopiesIn returns the folder for this machine's copies of the versions in a store, of a
// record in a folder.
func CopiesIn(dir string) string { return filepath.Join(dir, "history") }

// VersionsAt returns the archive of the versions in a folder. like is a file with their owner;
// empty: they are this user's.
func VersionsAt(folder, like string) versions.Folder {
	return versions.Folder{Dir: folder, Like: like, Describe: describe}
}

// describe writes the description of a version into it. One that cannot be read stays as it
// is.
func describe(data []byte, of versions.Version) ([]byte, error) {
	v := &Version{}
	if json.Unmarshal(data, v) != nil || v.Format != Format || v.Record == nil {
		return data, nil
	}
	v.Written, v.By, v.Command, v.Only = of.Written, of.By, of.Command, of.Only
	return v.Encode()
}

// Versions reads the versions in a folder, the newest first.
func Versions(folder string) []*Version {
	archive := VersionsAt(folder, "")
	l, _ := archive.List(context.Background()) // A folder that cannot be read has none.
	var list []*Version
	for _, of := range l.Versions {
		if of.Serial > 0 {
			list = append(list, ReadVersion(archive, of))
		}
	}
	return list
}

// ReadVersion reads one of the versions in a folder.
func ReadVersion(archive versions.Folder, of versions.Version) *Version {
	data, err := archive.Read(context.Background(), of.Serial, versions.Snapshot)
	v := DecodeVersion(data, of)
	if err != nil {
		v.Err = err
	}
	v.Path = archive.Path(of.Serial, versions.Snapshot)
	return v
}

// DecodeVersion returns the version that a snapshot contains.
func DecodeVersion(data []byte, of versions.Version) *Version {
	v := &Version{}
	switch err := json.Unmarshal(data, v); {
	case err != nil:
		v.Err = fmt.Errorf("it is damaged: %w", err)
	case v.Format != Format:
		v.Err = fmt.Errorf("it has the format %d, and this bootstrap reads format %d", v.Format, Format)
	case v.Record == nil:
		v.Err = errors.New("it has no states: an earlier bootstrap kept it")
	default:
		v.Err = v.Record.check()
	}
	v.Serial, v.Written, v.By, v.Command, v.Only, v.Attached = of.Serial, of.Written.UTC(), of.By, of.Command, of.Only, of.Attached
	return v
}

// Part is an instance with a state in a version.
type Part struct{ ID, Name string } // both are empty without a record

// Parts returns the instances of the version.
func (v *Version) Parts() []Part {
	if v.Record == nil {
		return []Part{{}}
	}
	var parts []Part
	for _, in := range slices.Concat(v.Record.Instances, v.Record.Former) {
		parts = append(parts, Part{in.ID, in.Name()})
	}
	return parts
}

// Of returns a text about the part: it ends with the name of its instance, if it has one.
func (p Part) Of(text string) string {
	if p.Name == "" {
		return text
	}
	return text + " of " + p.Name
}

// Says returns a text about the part: it begins with the name of its instance, if it has one.
func (p Part) Says(text string) string {
	if p.Name == "" {
		return text
	}
	return p.Name + ": " + text
}

// Encode returns the version in the form that is kept.
func (v *Version) Encode() ([]byte, error) {
	v.Format = Format
	data, err := json.MarshalIndent(v, "", " ")
	return append(data, '\n'), err
}

// Same reports whether two versions have the same record and states.
func (v *Version) Same(other *Version) bool {
	return v.Err == nil && other.Err == nil && bytes.Equal(v.content(), other.content())
}

// content returns the record and the states of a version as bytes, to compare versions.
func (v *Version) content() []byte {
	r := *v.Record
	r.Serial = 0 // A run raises it to take the lock from another one.
	data, _ := json.Marshal(Version{Record: &r, States: v.States, Unreadable: v.Unreadable})
	return data
}

// removeVersions removes the versions of a deployment that has no instances any more, except
// those that are the only record of something.
func removeVersions(dir string) {
	var keep []int
	for _, v := range Versions(VersionsIn(dir)) {
		if len(v.Only) > 0 {
			keep = append(keep, v.Serial)
		}
	}
	_ = versions.Clear(context.Background(), VersionsAt(VersionsIn(dir), ""), keep)
	_ = os.Remove(VersionsIn(dir)) // It stays if versions are left.
}

// RestoringError says that a restore of a version was interrupted: some instances have the
// states of that version.
type RestoringError struct {
	Dir    string // folder of the record
	Serial int
}

func (e *RestoringError) Error() string {
	return fmt.Sprintf("cannot use the record of the deployment, %s: the restore of version %d was interrupted; `bootstrap state restore MANIFEST %d` continues it",
		filepath.Join(e.Dir, FileName), e.Serial, e.Serial)
}

func (e *RestoringError) Name() string { return "record-lost" }
