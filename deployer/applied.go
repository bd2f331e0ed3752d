package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/state"
)

// applied is what a deploy that worked has put on the VM, as record.json, 0600,
// beside the rendered archive and the manifest without its secrets. Two are
// kept below applied in the folder of the installation: current and previous.
type applied struct {
	VM       string            `json:"vm"` // CID
	Disk     *state.Disk       `json:"disk,omitempty"`
	Digest   string            `json:"manifest_sha"`
	Releases []state.Release   `json:"releases"`
	Applied  map[string]string `json:"applied"` // the state's Own.Applied
	Spec     agent.Spec        `json:"spec"`
}

func (r *run) appliedDir(which string) string { return filepath.Join(r.dir, "applied", which) }

// keepApplied keeps what this deploy has applied: for the next plan's diff, and
// for going back.
func (r *run) keepApplied() error {
	st := r.state.Get()
	a := applied{
		VM: st.CurrentVMCID, Disk: st.Disk(), Digest: st.CurrentManifestSHA,
		Releases: st.Releases, Applied: st.Own.Applied,
	}
	current := r.appliedDir("current")
	old, hadOld := readApplied(current)
	switch {
	case r.plan.Applies():
		a.Spec = r.spec(false, "")
	case hadOld && old.VM == a.VM:
		a.Spec = old.Spec
	default:
		return r.keepSketch(current) // taken over as it is: nothing to go back to
	}
	next := r.appliedDir("next")
	if err := errors.Join(os.RemoveAll(next), os.MkdirAll(next, 0o700)); err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	data, err := json.Marshal(a)
	if err != nil {
		return err
	}
	archive := r.rendered.archive
	if archive == "" {
		archive = filepath.Join(current, "rendered.tgz")
	}
	err = errors.Join(
		atomicfile.Write(filepath.Join(next, "record.json"), data),
		r.keepSketch(next),
		copyFile(archive, filepath.Join(next, "rendered.tgz")),
	)
	if err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	if r.plan.Applies() && hadOld {
		previous := r.appliedDir("previous")
		if err := errors.Join(os.RemoveAll(previous), os.Rename(current, previous)); err != nil {
			return fmt.Errorf("cannot keep what was applied: %w", err)
		}
	}
	if err := errors.Join(os.RemoveAll(current), os.Rename(next, current)); err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	return nil
}

func (r *run) keepSketch(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(dir, "sketch.yml"), r.manifest.Sketch)
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
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

func readApplied(dir string) (applied, bool) {
	var a applied
	data, err := os.ReadFile(filepath.Join(dir, "record.json"))
	return a, err == nil && json.Unmarshal(data, &a) == nil && a.VM != ""
}

// keptSketch is the manifest applied last, without its secrets; nil where
// this machine does not have it.
func (r *run) keptSketch() ([]byte, error) {
	data, err := os.ReadFile(filepath.Join(r.appliedDir("current"), "sketch.yml"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

// NoWayBackError says why a deploy cannot put back what was applied before.
type NoWayBackError struct {
	Why string
}

func (e *NoWayBackError) Error() string {
	return "cannot go back to what was applied before: " + e.Why + "; nothing was changed"
}

// findPrevious finds what was applied by the last deploy that worked, or, where
// that was the last deploy at all, by the one before it.
func (r *run) findPrevious(ctx context.Context) error {
	st := r.state.Get()
	which := "current"
	if st.CurrentManifestSHA != "" {
		which = "previous"
	}
	a, ok := readApplied(r.appliedDir(which))
	if !ok {
		return &NoWayBackError{Why: "this machine has kept nothing of an earlier deploy that worked"}
	}
	d := st.Disk()
	switch {
	case a.VM != st.CurrentVMCID:
		return &NoWayBackError{Why: fmt.Sprintf("it was on VM %s, and now there is VM %s", a.VM, st.CurrentVMCID)}
	case (a.Disk == nil) != (d == nil), d != nil && (a.Disk.CID != d.CID || a.Disk.Size != d.Size):
		return &NoWayBackError{Why: "the persistent disk is another one, or has another size, by now"}
	}
	for name, p := range a.Spec.Packages {
		has, err := r.agent.HasBlob(ctx, p.BlobstoreID)
		if err != nil {
			return err
		}
		if !has {
			return &NoWayBackError{Why: fmt.Sprintf("the VM has package %s not any more", name)}
		}
	}
	r.previous, r.address = a, st.Own.Address
	r.rendered.archive = filepath.Join(r.appliedDir(which), "rendered.tgz")
	r.rendered.dir = "" // it is kept
	r.plan = plan.Previous(a.VM, r.manifest.Group.Name, st.Own.Stopped)
	r.emitPlan()
	return nil
}

// applyPrevious puts jobs and packages back.
func (r *run) applyPrevious(ctx context.Context) error {
	if err := r.uploadJobs(ctx); err != nil {
		return err
	}
	spec := r.previous.Spec
	spec.RenderedTemplates.BlobstoreID = r.rendered.blob
	return r.do(fmt.Sprintf("Updating instance '%s/0'", r.manifest.Group.Name), func(*report.Stage) error {
		return r.agent.Apply(ctx, spec)
	})
}

// record makes what was applied the current deployment.
func (a applied) record(st *state.State) {
	st.CurrentManifestSHA, st.Own.Applied = a.Digest, a.Applied
	st.Releases, st.CurrentReleaseIDs = nil, nil
	for _, rel := range a.Releases {
		rel.ID = uuid.NewString()
		st.Releases = append(st.Releases, rel)
		st.CurrentReleaseIDs = append(st.CurrentReleaseIDs, rel.ID)
	}
}

// recordPrevious makes what was put back the current deployment.
func (r *run) recordPrevious(context.Context) error {
	a, now := r.previous, time.Now().UTC().Truncate(time.Second)
	if err := r.state.Update(func(st *state.State) error {
		a.record(st)
		st.Own.Deployed = &now
		return nil
	}); err != nil {
		return err
	}
	if filepath.Dir(r.rendered.archive) == r.appliedDir("current") {
		return nil
	}
	// The two change places, so that this step can be taken back as well.
	current, previous, next := r.appliedDir("current"), r.appliedDir("previous"), r.appliedDir("next")
	err := errors.Join(os.RemoveAll(next), os.Rename(current, next), os.Rename(previous, current), os.Rename(next, previous))
	if err != nil {
		return fmt.Errorf("cannot keep what was applied: %w", err)
	}
	return nil
}
