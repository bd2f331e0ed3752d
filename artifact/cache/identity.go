package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"time"
)

// Identity identifies the contents of a file without reading it: a change of the
// contents changes at least one of these fields.
type Identity struct {
	Device  uint64 `json:"device"`
	Inode   uint64 `json:"inode"`
	Size    int64  `json:"size"`
	MTime   int64  `json:"mtime"` // nanoseconds
	CTime   int64  `json:"ctime"` // nanoseconds
	Regular bool   `json:"regular"`
}

// Identify returns the identity of a file.
func Identify(info fs.FileInfo) Identity {
	id := Identity{Size: info.Size(), MTime: info.ModTime().UnixNano(), Regular: info.Mode().IsRegular()}
	id.system(info)
	return id
}

// IdentifyPath returns the identity of the file at path, zero if it cannot be read.
func IdentifyPath(path string) Identity {
	info, err := os.Lstat(path)
	if err != nil {
		return Identity{}
	}
	return Identify(info)
}

// Settled reports whether every later change of the file will change its identity. File
// systems set times in steps of up to two seconds: a file that was just written may be
// changed again within the same step, and then keeps its time.
func (id Identity) Settled(now time.Time) bool {
	latest := max(id.MTime, id.CTime)
	tick := 20 * time.Millisecond
	if latest%int64(time.Second) == 0 {
		tick = 2 * time.Second
	}
	return now.Sub(time.Unix(0, latest)) > tick
}

// Record is what the cache has recorded about a file. It is valid as long as the file's
// identity does not change.
type Record struct {
	Path     string            `json:"path"`
	Identity Identity          `json:"identity"`
	Digests  map[string]string `json:"digests,omitempty"`  // algorithm -> hex, of the whole file
	Stemcell string            `json:"stemcell,omitempty"` // text of stemcell.MF
	Blob     string            `json:"blob,omitempty"`     // name of a blob in messages
	Release  string            `json:"release,omitempty"`  // key of the index of a release folder
	Stamp    string            `json:"stamp,omitempty"`    // identity of a folder
}

// RecordPath returns the small file with the record of path. Each path has its own,
// so that concurrent runs never overwrite each other's records.
func (d Dir) RecordPath(path string) string {
	sum := sha256.Sum256([]byte(path))
	return d.Path("files", hex.EncodeToString(sum[:16])+".json")
}

// Recall returns the record of path, empty if the file has changed since.
func (d Dir) Recall(path string, id Identity) Record {
	var rec Record
	if ReadJSON(d.RecordPath(path), &rec) != nil || rec.Path != path || rec.Identity != id {
		return Record{Path: path, Identity: id}
	}
	return rec
}

// Remember stores the record of a file.
func (d Dir) Remember(rec Record) error {
	return WriteJSON(d.RecordPath(rec.Path), rec)
}
