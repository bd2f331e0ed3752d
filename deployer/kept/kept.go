// Package kept stores this machine's record of a deployment, in addition to the state:
// how the agent is reached, settings for commands that do not read the manifest, limits
// of the CPI, how long runs took, their timelines, and the last applied jobs. The files
// are in the folder ~/.bosh/<installation_id>: JSON with mode 0600, each beginning with
// the number of its format. Files without a number were written by older versions and are
// read as well.
package kept

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
)

// Format is the number of the format of all files.
const Format = 1

// Folder is the folder ~/.bosh/<installation_id> of a deployment.
type Folder struct {
	dir string
}

// At returns the folder at a path, which need not exist.
func At(dir string) Folder { return Folder{dir} }

// The names of the files.
const (
	agentFile      = "agent.json"
	deploymentFile = "installation.json"
	secondDiskFile = "second-disk.json"
	timesFile      = "times.json"
	timelineFile   = "timeline.json"
	eventsFile     = "events.json"
	appliedFile    = "record.json" // in the folder of the deploy
)

// NewerError says that a newer version of bootstrap wrote a file.
type NewerError struct {
	Path   string
	Format int
}

func (e *NewerError) Error() string {
	return fmt.Sprintf("cannot read %s: a newer bootstrap wrote it in format %d, and this one reads format %d; use the newer bootstrap for this deployment", e.Path, e.Format, Format)
}

func (e *NewerError) Name() string { return "newer-version" }

// Check returns a *NewerError if a newer version of bootstrap has written files in the
// folder: this version would lose their unknown keys.
func (f Folder) Check() error {
	for _, name := range []string{agentFile, deploymentFile, secondDiskFile, timesFile, timelineFile, eventsFile, errandsFile, inputsFile, filepath.Join("applied", whichFile), filepath.Join("applied", filepath.Base(f.appliedDir(Current)), appliedFile)} {
		path := filepath.Join(f.dir, name)
		data, err := regular.Read(path)
		if err != nil {
			continue // An unreadable file counts as missing.
		}
		var head struct{ Format int }
		if json.Unmarshal(data, &head) == nil && head.Format > Format {
			return &NewerError{Path: path, Format: head.Format}
		}
	}
	return nil
}

// read reads a file into v. It returns false if the file is absent or damaged.
func (f Folder) read(name string, v any) bool {
	data, err := regular.Read(filepath.Join(f.dir, name))
	return err == nil && json.Unmarshal(data, v) == nil
}

// write writes v, with the number of the format, to a file.
func (f Folder) write(name string, v any) error {
	data, err := withFormat(v)
	if err != nil {
		return err
	}
	return f.writeBytes(name, data)
}

func (f Folder) writeBytes(name string, data []byte) error {
	path := filepath.Join(f.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the deployment: %w", err)
	}
	return atomicfile.Replace(path, data)
}

// withFormat returns v as a JSON object that begins with the number of the
// format.
func withFormat(v any) ([]byte, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	head := fmt.Sprintf(`{"format":%d`, Format)
	if string(data) != "{}" {
		head += ","
	}
	return append([]byte(head), data[1:]...), nil
}

// RemoveStale removes temporary files that interrupted writes left behind.
func (f Folder) RemoveStale() {
	for _, name := range []string{agentFile, deploymentFile, timesFile, timelineFile, eventsFile, errandsFile, inputsFile} {
		atomicfile.RemoveStale(filepath.Join(f.dir, name))
	}
}

// SecondDisk returns the record about attaching a second disk with a CPI from these
// releases; zero: there is none.
func (f Folder) SecondDisk(releases []string) SecondDisk {
	var kept SecondDisk
	if !f.read(secondDiskFile, &kept) || !slices.Equal(kept.CPI, releases) {
		return SecondDisk{}
	}
	return kept
}

// SetSecondDisk records that attaching a second disk failed.
func (f Folder) SetSecondDisk(s SecondDisk) error { return f.write(secondDiskFile, s) }

// DropSecondDisk removes the record: the CPI can attach a second disk.
func (f Folder) DropSecondDisk() error {
	err := os.Remove(filepath.Join(f.dir, secondDiskFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
