package kept

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/manifest"
	"bootstrap/state"
)

// Which names one of the two recorded deploys.
type Which string

// The last deploy that succeeded, and the one before it.
const (
	Current  Which = "current"
	Previous Which = "previous"
)

// Applied is what a successful deploy applied to the VM. The archive of rendered
// jobs and the manifest without its secrets are stored beside it.
type Applied struct {
	VM       string            `json:"vm"` // CID
	Disk     *state.Disk       `json:"disk,omitempty"`
	Digest   string            `json:"manifest_sha"`
	Releases []state.Release   `json:"releases"`
	Applied  map[string]string `json:"applied"` // the state's Own.Applied
	Spec     agent.Spec        `json:"spec"`
	// Processes are the state's Own.Processes.
	Processes []string `json:"processes,omitempty"`
	// Health are the checks of the service.
	Health []manifest.HealthCheck `json:"health,omitempty"`
}

// Record records what was applied as the current deployment in a state.
func (a Applied) Record(st *state.State) {
	st.CurrentManifestSHA, st.Own.Applied, st.Own.Processes = a.Digest, a.Applied, a.Processes
	st.Releases, st.CurrentReleaseIDs = nil, nil
	for _, rel := range a.Releases {
		rel.ID = uuid.NewString()
		st.Releases = append(st.Releases, rel)
		st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
	}
}

// IsLast reports whether this is the deploy that the state has as the last one that
// succeeded. Another machine can have deployed since this one did.
func (a Applied) IsLast(st state.State) bool {
	return maps.Equal(a.Applied, st.Own.Applied) && (st.CurrentManifestSHA == "" || st.CurrentManifestSHA == a.Digest)
}

// SameDisk reports whether the deploy used the disk that is the current one in
// the state.
func (a Applied) SameDisk(d *state.Disk) bool {
	return (a.Disk == nil) == (d == nil) && (d == nil || a.Disk.CID == d.CID && a.Disk.Size == d.Size)
}

func (f Folder) appliedDir(which Which) string { return filepath.Join(f.dir, "applied", string(which)) }

// Applied returns what a deploy applied to the VM; ok is false if this machine
// has no record of it.
func (f Folder) Applied(which Which) (a Applied, ok bool) {
	ok = f.read(filepath.Join("applied", string(which), appliedFile), &a) && a.VM != ""
	return a, ok
}

// Rendered returns the path of the archive of the rendered jobs of that deploy.
func (f Folder) Rendered(which Which) string {
	return filepath.Join(f.appliedDir(which), "rendered.tgz")
}

// Sketch returns the manifest applied last, without its secrets; nil if this
// machine does not have it.
func (f Folder) Sketch() ([]byte, error) {
	data, err := regular.Read(filepath.Join(f.appliedDir(Current), "sketch.yml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// SetSketch stores the manifest of a VM that was adopted as it is, for which
// deploy --previous has nothing to put back.
func (f Folder) SetSketch(sketch []byte) error { return f.writeSketch(f.appliedDir(Current), sketch) }

func (f Folder) writeSketch(dir string, sketch []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(dir, "sketch.yml"), sketch)
}

// SetApplied stores a deploy as the current one. rendered is the path of the
// archive of its jobs; if it is empty, the archive of the current one is used.
// With push the current deploy becomes the previous one.
func (f Folder) SetApplied(a Applied, sketch []byte, rendered string, push bool) error {
	if err := f.setApplied(a, sketch, rendered, push); err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	return nil
}

func (f Folder) setApplied(a Applied, sketch []byte, rendered string, push bool) error {
	next, current := f.appliedDir("next"), f.appliedDir(Current)
	if rendered == "" {
		rendered = f.Rendered(Current)
	}
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o700)); err != nil {
		return err
	}
	err := errors.Join(
		f.write(filepath.Join("applied", "next", appliedFile), a),
		f.writeSketch(next, sketch),
		copyFile(rendered, filepath.Join(next, "rendered.tgz")),
	)
	if err != nil {
		return err
	}
	if push {
		previous := f.appliedDir(Previous)
		if err := errors.Join(os.RemoveAll(previous), os.Rename(current, previous)); err != nil {
			return err
		}
	}
	return errors.Join(os.RemoveAll(current), os.Rename(next, current))
}

// ForgetApplied removes what earlier deploys applied.
func (f Folder) ForgetApplied() error {
	return errors.Join(os.RemoveAll(f.appliedDir(Current)), os.RemoveAll(f.appliedDir(Previous)))
}

// SwapApplied exchanges the current and the previous deploy, so that deploy
// --previous can be undone as well.
func (f Folder) SwapApplied() error {
	current, previous, next := f.appliedDir(Current), f.appliedDir(Previous), f.appliedDir("next")
	err := errors.Join(os.RemoveAll(next), os.Rename(current, next), os.Rename(previous, current), os.Rename(next, previous))
	if err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	return nil
}

func copyFile(from, to string) error {
	in, _, err := regular.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
