// Package overwrite refuses to write to a file that the same run reads, or to a file of
// another kind than the one that is to be written: a mistyped name would destroy these
// files.
package overwrite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/internal/regular"
)

// Kind is the kind of the files that a flag writes.
type Kind struct {
	Name string // name with its article: "a plan"
	// Is reports whether a text begins like a file of this kind. It is called with the
	// beginning of a file that is not empty; nil: any file may be replaced, or the writer
	// checks it itself.
	Is func(begin []byte) bool
}

// JSON returns the kind of files with a JSON object that has all these keys.
func JSON(name string, keys ...string) Kind {
	return Kind{Name: name, Is: func(data []byte) bool {
		var object map[string]json.RawMessage
		if json.Unmarshal(data, &object) != nil {
			return false
		}
		for _, key := range keys {
			if object[key] == nil {
				return false
			}
		}
		return true
	}}
}

// Lines returns the kind of files whose first line is a JSON object with these keys.
func Lines(name string, keys ...string) Kind {
	return Kind{Name: name, Is: func(data []byte) bool {
		first, _, _ := bytes.Cut(data, []byte("\n"))
		return JSON(name, keys...).Is(first)
	}}
}

// largest is the size of the largest file that is checked.
const largest = 64 << 20

// Refuse returns an error in two cases: the file at the path is one of the inputs, by any
// spelling, link or other name of the same file; or it exists and is not of the kind.
// Pipes and devices are written in place.
func Refuse(path string, inputs []string, kind Kind) error {
	if input := Same(path, inputs); input != "" {
		return fmt.Errorf("cannot write %s to %s: this run reads that file (%s); name another file", kind.Name, path, input)
	}
	f, _, err := regular.Open(path)
	if err != nil || kind.Is == nil {
		return nil // the writer reports the error, if it is one
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, largest))
	if err != nil || len(data) == 0 || kind.Is(data) {
		return nil
	}
	return fmt.Errorf("cannot write %s to %s: it exists and is not %[1]s; remove it, or name another file", kind.Name, path)
}

// Same returns the input that is the same file as the one at the path; empty: none is.
func Same(path string, inputs []string) string {
	info, err := os.Stat(path)
	place := whole(path)
	for _, input := range inputs {
		its, failed := os.Stat(input)
		if failed == nil && its.IsDir() {
			continue
		}
		if err == nil && failed == nil && os.SameFile(info, its) || errors.Is(err, fs.ErrNotExist) && place == whole(input) {
			return input
		}
	}
	return ""
}

// whole returns an absolute path, with the links of its folder resolved.
func whole(path string) string {
	if absolute, err := filepath.Abs(path); err == nil {
		path = absolute
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}
