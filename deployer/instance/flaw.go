package instance

import (
	"cmp"
	"fmt"
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
	return &Flaw{"job " + ref.Name, ref.Pos, ref.Path, failure.Named("release-job", fmt.Errorf("release %s has no job %s, which %s names; it has: %s%s", ref.Release, ref.Name, namedBy, list, hint))}
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
