// Package export writes compiled releases, in the format of a Director's `bosh
// export-release` (bosh, lib/bosh/director/compiled_release_manifest.rb).
package export

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/artifact/archive"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/digest"
	"bootstrap/internal/regular"
	"bootstrap/internal/scratch"
)

// Release is what a compiled release contains. Its packages must include the dependencies
// of each of them.
type Release struct {
	Name, Version string
	// CommitHash and UncommittedChanges are those of the source release. A Director
	// refuses a version that it already has with other values.
	CommitHash         string
	UncommittedChanges bool
	Jobs               []*artifact.Job
	Packages           []Package
}

// Package is a compiled package.
type Package struct {
	Name, Fingerprint string
	Dependencies      []string // direct ones
	Stemcell          string   // "os/version"
	Path              string   // of the compiled archive
	Digest            string   // multi-digest of the archive, which is checked
}

// FileName returns the name of the file of a release that is compiled for a stemcell:
// NAME-VERSION-OS-VERSION.tgz, as the bosh CLI names it, without the time.
func FileName(name, version, stemcell string) string {
	text := name + "-" + version + "-" + stemcell
	return strings.Map(func(c rune) rune {
		if c == '/' || c == '\\' || c <= ' ' {
			return '-'
		}
		return c
	}, text) + ".tgz"
}

// Write replaces the file at path by the release, atomically, and returns the digest of the
// file, "sha256:HEX". The same contents are written as the same bytes.
func Write(ctx context.Context, path string, r Release) (sum string, err error) {
	sums := digest.NewSums("sha256")
	err = atomicfile.ReplaceBy(path, func(w io.Writer) error { return pack(ctx, io.MultiWriter(w, sums), r) })
	if err != nil {
		return "", fmt.Errorf("cannot write the compiled release %s/%s to %s: %w", r.Name, r.Version, path, err)
	}
	return "sha256:" + sums.Hex()["sha256"], nil
}

// entry is an archive in the release.
type entry struct {
	name  string // path in the release
	path  string // of the file
	size  int64
	sums  map[string]string
	lines []string // of release.MF, without the digest
}

// digest returns the multi-digest for release.MF. It has two algorithms, because an agent
// reports a package with the digest that it was given.
func (e entry) digest() string {
	return e.sums["sha1"] + ";sha256:" + e.sums["sha256"]
}

func pack(ctx context.Context, w io.Writer, r Release) error {
	dir, err := scratch.New("", "export")
	if err != nil {
		return err
	}
	defer func() { _ = dir.Remove() }()
	jobs, err := packJobs(ctx, dir.Path, r.Jobs)
	if err != nil {
		return err
	}
	packages, err := readPackages(ctx, r.Packages)
	if err != nil {
		return err
	}
	text := manifest(r, packages, jobs)
	// The archives in it are already compressed.
	p := archive.NewStoringPacker(ctx, w)
	if err := p.File("release.MF", 0o644, int64(len(text)), strings.NewReader(text)); err != nil {
		return err
	}
	for _, part := range []struct {
		folder  string
		entries []entry
	}{{"jobs", jobs}, {"compiled_packages", packages}} {
		if err := p.Folder(part.folder, 0o755); err != nil {
			return err
		}
		for _, e := range part.entries {
			if err := e.add(p); err != nil {
				return err
			}
		}
	}
	return p.End()
}

func (e entry) add(p *archive.Packer) error {
	f, _, err := regular.Open(e.path)
	if err != nil {
		return err
	}
	defer f.Close()
	return p.File(e.name, 0o644, e.size, f)
}

// packJobs packs the folders of jobs into archives in dir, sorted by name.
func packJobs(ctx context.Context, dir string, jobs []*artifact.Job) ([]entry, error) {
	var list []entry
	for i, j := range sorted(jobs, func(j *artifact.Job) string { return j.Name }) {
		path := filepath.Join(dir, fmt.Sprint(i))
		f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		if err = errors.Join(archive.Pack(ctx, j.Dir, f), f.Close()); err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
		e, err := read(ctx, "jobs/"+j.Name+".tgz", path)
		if err != nil {
			return nil, fmt.Errorf("job %s: %w", j.Name, err)
		}
		e.lines = []string{"name: " + quote(j.Name), "version: " + quote(j.Fingerprint), "fingerprint: " + quote(j.Fingerprint)}
		list = append(list, e)
	}
	return list, nil
}

// readPackages reads the archives of packages and checks their digests. It refuses a list
// in which a dependency of a package is missing.
func readPackages(ctx context.Context, packages []Package) ([]entry, error) {
	names := map[string]bool{}
	for _, p := range packages {
		names[p.Name] = true
	}
	var list []entry
	for _, p := range sorted(packages, func(p Package) string { return p.Name }) {
		for _, d := range p.Dependencies {
			if !names[d] {
				return nil, fmt.Errorf("package %s needs the package %s, which is not exported", p.Name, d)
			}
		}
		e, err := read(ctx, "compiled_packages/"+p.Name+".tgz", p.Path)
		if err == nil {
			err = e.check(p.Digest)
		}
		if err != nil {
			return nil, fmt.Errorf("package %s: %w", p.Name, err)
		}
		quoted := make([]string, len(p.Dependencies))
		for i, d := range p.Dependencies {
			quoted[i] = quote(d)
		}
		e.lines = []string{
			"name: " + quote(p.Name), "version: " + quote(p.Fingerprint), "fingerprint: " + quote(p.Fingerprint),
			"stemcell: " + quote(p.Stemcell), "dependencies: [" + strings.Join(quoted, ", ") + "]",
		}
		list = append(list, e)
	}
	return list, nil
}

// check compares the archive with a multi-digest; an empty one is not compared.
func (e entry) check(multi string) error {
	if multi == "" {
		return nil
	}
	want, err := digest.Parse(multi)
	if err != nil {
		return err
	}
	strongest := want.Strongest()
	got, known := e.sums[strongest.Algorithm]
	if !known {
		f, _, err := regular.Open(e.path)
		if err != nil {
			return err
		}
		defer f.Close()
		return want.Verify(f)
	}
	return strongest.Check(got)
}

// read returns the entry of a file, with its digests.
func read(ctx context.Context, name, path string) (entry, error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	sums := digest.NewSums("sha1", "sha256")
	if err := archive.Drain(&archive.Input{Ctx: ctx, R: f, Each: sums}); err != nil {
		return entry{}, err
	}
	return entry{name: name, path: path, size: info.Size(), sums: sums.Hex()}, nil
}

func sorted[T any](list []T, name func(T) string) []T {
	return slices.SortedFunc(slices.Values(list), func(a, b T) int { return strings.Compare(name(a), name(b)) })
}
