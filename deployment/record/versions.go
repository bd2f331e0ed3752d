package record

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// KeptVersions is the number of versions of a deployment that are kept in a folder.
// Versions that are the only record of something are kept in addition.
const KeptVersions = 20

// Version is a deployment at the end of a run: its record, and the states of its instances.
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

	Path string `json:"-"`
	Err  error  `json:"-"` // why it cannot be read
}

// VersionsIn returns the folder for the versions of the record in a folder, which is not in
// a store.
func VersionsIn(dir string) string { return dir + ".backups" }

// CopiesIn returns the folder for this machine's copies of the versions in a store, of a
// record in a folder.
func CopiesIn(dir string) string { return filepath.Join(dir, "history") }

func versionPath(folder string, serial int) string {
	return filepath.Join(folder, strconv.Itoa(serial)+".json")
}

// serials lists the numbers of the versions in a folder, the newest first.
func serials(folder string) []int {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil
	}
	var list []int
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		serial, err := strconv.Atoi(name)
		if ok && err == nil && serial > 0 && e.Type().IsRegular() {
			list = append(list, serial)
		}
	}
	slices.SortFunc(list, func(a, b int) int { return cmp.Compare(b, a) })
	return list
}

// Versions reads the versions in a folder, the newest first.
func Versions(folder string) []*Version {
	var list []*Version
	for _, serial := range serials(folder) {
		list = append(list, ReadVersion(folder, serial))
	}
	return list
}

// NewestVersion reads the newest version in a folder; nil: there is none.
func NewestVersion(folder string) *Version {
	list := serials(folder)
	if len(list) == 0 {
		return nil
	}
	return ReadVersion(folder, list[0])
}

// ReadVersion reads one of the versions in a folder.
func ReadVersion(folder string, serial int) *Version {
	path := versionPath(folder, serial)
	data, err := regular.Read(path)
	if err != nil {
		return &Version{Serial: serial, Path: path, Err: err}
	}
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
	if info, err := os.Stat(path); err == nil && v.Written.IsZero() {
		v.Written = info.ModTime().UTC()
	}
	v.Serial, v.Path = serial, path
	return v
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

// KeepVersion writes a version to a folder, for the owner of the file like; empty: for this
// user.
func KeepVersion(folder string, v *Version, like string) error {
	data, err := v.Encode()
	if err != nil {
		return fmt.Errorf("cannot keep version %d of the deployment: %w", v.Serial, err)
	}
	return WriteVersion(folder, v.Serial, data, like)
}

// PruneVersions removes the oldest versions, except those that are the only record of
// something, and the one with the number spare.
func PruneVersions(folder string, spare int) error {
	list := serials(folder)
	var errs []error
	for _, serial := range list[min(KeptVersions, len(list)):] {
		if v := ReadVersion(folder, serial); len(v.Only) == 0 && serial != spare {
			errs = append(errs, os.Remove(v.Path))
		}
	}
	return errors.Join(errs...)
}

// removeVersions removes the versions of a deployment that has no instances any more, except
// those that are the only record of something.
func removeVersions(dir string) {
	for _, v := range Versions(VersionsIn(dir)) {
		if len(v.Only) == 0 {
			_ = os.Remove(v.Path)
		}
	}
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

// WriteVersion writes the content of a version to a folder, for the owner of the file like;
// empty: for this user.
func WriteVersion(folder string, serial int, data []byte, like string) error {
	path := versionPath(folder, serial)
	err := atomicfile.MkdirAll(folder, 0o700)
	if err == nil {
		err = atomicfile.Write(path, data)
	}
	if err == nil && like != "" {
		atomicfile.Match(folder, like)
		atomicfile.Match(path, like)
	}
	if err != nil {
		return fmt.Errorf("cannot keep version %d of the deployment: %w", serial, err)
	}
	return nil
}
