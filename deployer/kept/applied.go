package kept

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

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

// Applied is the record of the jobs and packages of a successful deploy. The archive of
// rendered jobs and the manifest without its secrets are stored beside it.
type Applied struct {
	VM       string            `json:"vm"` // CID
	Disk     *state.Disk       `json:"disk,omitempty"`
	Named    map[string]string `json:"named_disks,omitempty"` // name -> CID
	Digest   string            `json:"manifest_sha"`
	Releases []state.Release   `json:"releases"`
	Applied  map[string]string `json:"applied"` // the state's Own.Applied
	Spec     agent.Spec        `json:"spec"`
	// Processes are the state's Own.Processes.
	Processes []string `json:"processes,omitempty"`
	// Health are the checks of the service.
	Health []manifest.HealthCheck `json:"health,omitempty"`
}

// Record records this deploy as the current one in a state.
func (a Applied) Record(st *state.State) {
	st.CurrentManifestSHA, st.Own.Applied, st.Own.Processes = a.Digest, a.Applied, a.Processes
	st.Releases, st.CurrentReleaseIDs = nil, nil
	for _, rel := range a.Releases {
		rel.ID = uuid.NewString()
		st.Releases = append(st.Releases, rel)
		st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
	}
}

// IsLast reports whether this is the last successful deploy according to the state.
// Another machine may have deployed since.
func (a Applied) IsLast(st state.State) bool {
	return maps.Equal(a.Applied, st.Own.Applied) && (st.CurrentManifestSHA == "" || st.CurrentManifestSHA == a.Digest)
}

// SameDisks reports whether the deploy used the disks that are in use in the state.
func (a Applied) SameDisks(st state.State) bool {
	d := st.Disk()
	return (a.Disk == nil) == (d == nil) && (d == nil || a.Disk.CID == d.CID && a.Disk.Size == d.Size) && maps.Equal(a.Named, NamedIn(st))
}

// NamedIn returns the CIDs of the named disks in a state, by name; nil: there are none.
func NamedIn(st state.State) map[string]string {
	var named map[string]string
	for _, n := range st.Own.NamedDisks {
		if d := st.Named(n.Name); d != nil {
			if named == nil {
				named = map[string]string{}
			}
			named[n.Name] = d.CID
		}
	}
	return named
}

// which is the file which.json in the folder applied: the names of the folders of the
// current and the previous deploy; empty: there is none. The file is replaced in one
// step, so after a kill it has either the old or the new names.
type which struct {
	Current  string `json:"current,omitempty"`
	Previous string `json:"previous,omitempty"`
}

const whichFile = "which.json" // in the folder applied

// which returns the names of the folders of the two deploys. Earlier versions called them
// current and previous.
func (f Folder) which() which {
	var w which
	if !f.read(filepath.Join("applied", whichFile), &w) || !w.valid() {
		return which{Current: string(Current), Previous: string(Previous)}
	}
	return w
}

// valid reports whether the names can be those of folders in the folder applied.
func (w which) valid() bool {
	return !strings.ContainsAny(w.Current+w.Previous, `/\:.`)
}

// appliedDir returns the folder of a deploy, which may not exist.
func (f Folder) appliedDir(of Which) string {
	w := f.which()
	name := w.Current
	if of == Previous {
		name = w.Previous
	}
	return filepath.Join(f.dir, "applied", cmp.Or(name, "none"))
}

// Applied returns the record of a deploy; ok is false if this machine has none.
func (f Folder) Applied(of Which) (a Applied, ok bool) {
	data, err := regular.Read(filepath.Join(f.appliedDir(of), appliedFile))
	ok = err == nil && json.Unmarshal(data, &a) == nil && a.VM != ""
	return a, ok
}

// Rendered returns the path of the archive of the deploy's rendered jobs.
func (f Folder) Rendered(of Which) string {
	return filepath.Join(f.appliedDir(of), "rendered.tgz")
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

// SketchOf returns the manifest without its secrets that a state has applied last; nil: this
// machine does not have it.
func (f Folder) SketchOf(st state.State) []byte {
	if a, ok := f.Applied(Current); !ok || !a.IsLast(st) {
		return nil
	}
	sketch, _ := f.Sketch() // An unreadable one counts as missing.
	return sketch
}

// SetSketch stores the manifest of a VM that was adopted unchanged. deploy --previous
// cannot put that back.
func (f Folder) SetSketch(sketch []byte) error {
	if w := f.which(); w.Current == "" {
		if err := f.use(which{Current: newFolder(), Previous: w.Previous}); err != nil {
			return err
		}
	}
	return f.writeSketch(f.appliedDir(Current), sketch)
}

func (f Folder) writeSketch(dir string, sketch []byte) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Replace(filepath.Join(dir, "sketch.yml"), sketch)
}

func newFolder() string { return "of-" + uuid.NewString() }

// use makes other folders those of the deploys.
func (f Folder) use(w which) error { return f.write(filepath.Join("applied", whichFile), w) }

// removeOthers removes folders that belong to neither deploy.
func (f Folder) removeOthers() error {
	w := f.which()
	entries, err := os.ReadDir(filepath.Join(f.dir, "applied"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range entries {
		if e.IsDir() && e.Name() != w.Current && e.Name() != w.Previous {
			errs = append(errs, os.RemoveAll(filepath.Join(f.dir, "applied", e.Name())))
		}
	}
	return errors.Join(errs...)
}

// inOrder runs steps until one fails.
func inOrder(steps []func() error) error {
	for _, step := range steps {
		if err := step(); err != nil {
			return fmt.Errorf("cannot record what was applied: %w", err)
		}
	}
	return nil
}

// SetApplied stores a deploy as the current one. rendered is the path of the archive of
// its jobs; if it is empty, the archive of the current deploy is used. If push is true,
// the current deploy becomes the previous one.
func (f Folder) SetApplied(a Applied, sketch []byte, rendered string, push bool) error {
	return inOrder(f.applying(a, sketch, cmp.Or(rendered, f.Rendered(Current)), push))
}

// applying returns the steps of SetApplied. After each step, both deploys are complete.
func (f Folder) applying(a Applied, sketch []byte, rendered string, push bool) []func() error {
	name, before := newFolder(), f.which()
	next := which{Current: name, Previous: before.Previous}
	if push {
		next.Previous = before.Current
	}
	dir := filepath.Join(f.dir, "applied", name)
	return []func() error{
		f.removeOthers, // removes the folder of a killed run
		func() error { return os.MkdirAll(dir, 0o700) },
		func() error { return f.write(filepath.Join("applied", name, appliedFile), a) },
		func() error { return f.writeSketch(dir, sketch) },
		func() error { return copyFile(rendered, filepath.Join(dir, "rendered.tgz")) },
		func() error { return f.use(next) },
		f.removeOthers,
	}
}

// ForgetApplied removes the records of earlier deploys.
func (f Folder) ForgetApplied() error {
	dir := filepath.Join(f.dir, "applied")
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return errors.Join(f.use(which{}), os.RemoveAll(dir))
}

// SwapApplied exchanges the current and the previous deploy, so that deploy --previous
// can be undone.
func (f Folder) SwapApplied() error {
	w := f.which()
	if _, err := os.Stat(f.appliedDir(Previous)); err != nil {
		return fmt.Errorf("cannot record what was applied: %w", err)
	}
	return inOrder([]func() error{func() error { return f.use(which{Current: w.Previous, Previous: w.Current}) }})
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
