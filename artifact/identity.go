package artifact

import (
	"bootstrap/artifact/archive"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bootstrap/internal/atomicfile"
)

// identity identifies the contents of a file without reading it: a change of them
// changes at least one of these fields.
type identity struct {
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	MTime   int64  `json:"mtime"` // nanoseconds
	CTime   int64  `json:"ctime"` // nanoseconds
	Regular bool   `json:"regular"`
}

func identify(info fs.FileInfo) identity {
	id := identity{Size: info.Size(), MTime: info.ModTime().UnixNano(), Regular: info.Mode().IsRegular()}
	id.system(info)
	return id
}

// identifyPath returns the identity of the file at path, nil if it cannot be read.
func identifyPath(path string) identity {
	info, err := os.Lstat(path)
	if err != nil {
		return identity{}
	}
	return identify(info)
}

// settled reports whether every later change of the file will change its identity.
// File systems set times in ticks, coarse ones of one or two seconds: a file written
// in this tick may be written again in it without a new time.
func (id identity) settled(now time.Time) bool {
	latest := max(id.MTime, id.CTime)
	tick := 20 * time.Millisecond
	if latest%int64(time.Second) == 0 {
		tick = 2 * time.Second
	}
	return now.Sub(time.Unix(0, latest)) > tick
}

// record is what is known about a file, valid as long as its identity stays.
type record struct {
	Path     string            `json:"path"`
	Identity identity          `json:"identity"`
	Digests  map[string]string `json:"digests,omitempty"`  // algorithm -> hex, of the whole file
	Stemcell string            `json:"stemcell,omitempty"` // text of stemcell.MF
	Blob     string            `json:"blob,omitempty"`     // name by which people know a blob
	Release  string            `json:"release,omitempty"`  // key of the index of a release folder
	Stamp    string            `json:"stamp,omitempty"`    // identity of a folder
}

// recordPath returns the small file with the record of path. Each path has its own,
// so that concurrent runs never overwrite each other's records.
func (s *Store) recordPath(path string) string {
	sum := sha256.Sum256([]byte(path))
	return s.cache("files", hex.EncodeToString(sum[:16])+".json")
}

// recall returns the record of path, empty if the file has changed since.
func (s *Store) recall(path string, id identity) record {
	var rec record
	if readJSON(s.recordPath(path), &rec) != nil || rec.Path != path || rec.Identity != id {
		return record{Path: path, Identity: id}
	}
	return rec
}

func (s *Store) remember(rec record) error {
	return writeJSON(s.recordPath(rec.Path), rec)
}

// readJSON reads a file of writeJSON; a wrong checksum is an error. Numbers of
// unknown type become json.Number.
func readJSON(path string, v any) error {
	data, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	sum, text, _ := bytes.Cut(data, []byte("\n"))
	if string(sum) != checksum(text) {
		return fmt.Errorf("%s is damaged", path)
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(v)
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// writeJSON replaces path as a whole (0600): readers see the old or the new file.
// It tries once more if somebody empties the cache meanwhile.
func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	err = writeChecked(path, data)
	if errors.Is(err, fs.ErrNotExist) {
		err = writeChecked(path, data)
	}
	if err != nil {
		return fmt.Errorf("cannot write %s: %w", path, archive.Cause(err))
	}
	return nil
}

func writeChecked(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return atomicfile.Write(path, fmt.Appendf(nil, "%s\n%s", checksum(data), data))
}
