package instance

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/internal/failure"
	"bootstrap/internal/spelling"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// Flaw is a defect of a file that the manifest names, with the place in the manifest. Its
// text is that of err.
type Flaw struct {
	What string // for example: release web
	Pos  document.Position
	Path string // in the manifest; empty: not known
	Err  error
}

func (f *Flaw) Error() string { return f.Err.Error() }

func (f *Flaw) Unwrap() error { return f.Err }

// releaseFlaw returns the flaw of a release, with its place in the manifest.
func (a *Artifacts) releaseFlaw(rel manifest.Release, err error) error {
	i := slices.IndexFunc(a.Manifest.Releases, func(other manifest.Release) bool { return other.Name == rel.Name })
	return fmt.Errorf("%s: %w", rel.Pos, &Flaw{"release " + rel.Name, rel.Pos, ReleasePath(i), locked(err, rel.Name, rel.Lock)})
}

// ReleasePath returns the path of a release in the manifest.
func ReleasePath(i int) string { return fmt.Sprintf("releases[%d]", i) }

// stemcellFlaw returns the flaw of the stemcell, with its place in the manifest.
func stemcellFlaw(ref manifest.StemcellRef, err error) error {
	return fmt.Errorf("%s: %w", ref.Pos, &Flaw{"the stemcell", ref.Pos, "", locked(err, cmp.Or(ref.OS, ref.Name), ref.Lock)})
}

// jobFlaw returns the flaw of a job, with its place in the manifest.
func jobFlaw(ref manifest.JobRef, err error) error {
	place := ref.Pos.String()
	if ref.Path != "" {
		place += ": " + ref.Path
	}
	return &wrongJob{fmt.Errorf("%s: %w", place, &Flaw{"job " + ref.Name, ref.Pos, ref.Path, err})}
}

// wrongJob is an error whose reason is in the manifest or a release.
type wrongJob struct{ error }

func (w *wrongJob) Unwrap() error { return w.error }

func (*wrongJob) ExitCode() failure.Code { return failure.Manifest }

// sameTarget returns an error if two templates of a job make the same file; nil: none do.
func sameTarget(ref manifest.JobRef, job *artifact.Job) error {
	made := map[string]string{}
	for _, t := range job.Templates {
		target := path.Clean(t.Destination)
		if other, found := made[target]; found {
			return jobFlaw(ref, fmt.Errorf("the templates %s and %s of job %s both make %s: remove one of them from its spec; create-env and a Director keep the one that they happen to render last", other, t.Source, ref.Name, target))
		}
		made[target] = t.Source
	}
	return nil
}

// noJob returns the error for a job that the release does not have. The error lists the
// jobs of the release.
func noJob(ref manifest.JobRef, namedBy string, rel *artifact.Release) error {
	names, hint := []string{}, ""
	if rel != nil {
		for _, j := range rel.Jobs {
			names = append(names, j.Name)
		}
	}
	if near := spelling.Nearest(ref.Name, names); near != "" {
		hint = fmt.Sprintf("; did you mean %s?", near)
	}
	list := strings.Join(names, ", ")
	if list == "" {
		list = "nothing"
	}
	return jobFlaw(ref, failure.Named("release-job", fmt.Errorf("release %s has no job %s, which %s names; it has: %s%s", ref.Release, ref.Name, namedBy, list, hint)))
}

// wrongLinks returns the error for a job whose spec describes links that a Director refuses;
// nil: there is none, or the manifest is one for create-env, which ignores links.
func (a *Artifacts) wrongLinks(ref manifest.JobRef, rel *artifact.Release) error {
	wrong := rel.Job(ref.Name).WrongLinks
	if len(wrong) == 0 || len(a.Manifest.CloudConfigs) == 0 {
		return nil
	}
	return &Flaw{"job " + ref.Name, ref.Pos, ref.Path, failure.Named("release-links", fmt.Errorf("the spec of job %s of release %s describes links wrongly: %s; correct jobs/%s/spec of the release",
		ref.Name, ref.Release, strings.Join(wrong, "; "), ref.Name))}
}
