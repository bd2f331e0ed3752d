package artifact

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/artifact/download"
	"bootstrap/artifact/metadata"
	"bootstrap/internal/digest"
	"bootstrap/internal/guard"
	"bootstrap/internal/regular"
)

// Release verifies a release and reads its contents. Afterwards the archives of its
// packages and the extracted folders of its jobs are in the cache; an intact release in
// the cache is not read again. If its digest is wrong, the error is a *digest.Error.
func (s *Store) Release(ctx context.Context, f File, p archive.Progress) (*Release, error) {
	var ix *index
	var unread []Unread
	err := s.use(ctx)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", f.Source, err)
	}
	once := s.once && f.Digest == "" && f.Path != "" && !f.Needs.Try
	if once {
		defer s.reads.lock(f.Path)()
	}
	if f.Folder {
		ix, unread, err = s.folderRelease(ctx, f)
	} else {
		ix, err = s.archiveRelease(ctx, f, p)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", f.Source, err)
	}
	if once && !s.reads.keep(f.Path, ix) {
		return nil, fmt.Errorf("cannot read %s: %s has changed since this command began to read it: run the same command again", f.Source, f.Path)
	}
	if f.Name != "" && ix.Name != f.Name {
		return nil, fmt.Errorf("cannot read %s: %s is the release %q", f.Source, place(f), ix.Name)
	}
	release := s.release(ix, f.Needs.Try)
	release.Unread = unread
	return release, nil
}

// place returns the path or URL of a file, without credentials.
func place(f File) string {
	if f.Remote || f.Path == "" {
		return download.PublicURL(f.URL)
	}
	return f.Path
}

func (s *Store) archiveRelease(ctx context.Context, f File, p archive.Progress) (*index, error) {
	want, err := wanted(f.Digest)
	if err != nil {
		return nil, err
	}
	if f.Digest == "" {
		if ix := s.reads.get(f.Path); ix != nil {
			return ix, nil
		}
	}
	file, rec, err := s.dir.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	key := rec.Digests["sha256"]
	if key != "" && rec.Satisfies(want) == nil {
		if ix, ok := s.loadIndex(ctx, key); ok {
			return ix, nil
		}
	}
	ix, digests, err := s.ingest(ctx, file, place(f), want, p)
	if err != nil {
		return nil, err
	}
	if err := s.saveIndex(digests["sha256"], ix); err != nil {
		return nil, err
	}
	return ix, s.dir.Learn(file, rec, func(rec *cache.Record) { rec.Know(digests) })
}

// wanted returns the strongest digest of a multi-digest; empty if it has none.
func wanted(multi string) (digest.Digest, error) {
	if multi == "" {
		return digest.Digest{}, nil
	}
	d, err := digest.Parse(multi)
	return d.Strongest(), err
}

// member is one archive within a release, in the temporary folder.
type member struct {
	file    string
	digests map[string]string
}

// ingest reads a release in one pass: it hashes the file, writes its archives to the
// cache, verifies both and extracts the jobs.
func (s *Store) ingest(ctx context.Context, f *os.File, name string, want digest.Digest, p archive.Progress) (*index, map[string]string, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	dir, done, err := s.dir.Work(ctx)
	if err != nil {
		return nil, nil, err
	}
	defer done()
	sum := digest.NewSums("sha256", want.Algorithm)
	src := &archive.Input{Ctx: ctx, R: f, Total: info.Size(), Progress: p, Each: sum}
	mf, members, err := split(src, name, dir)
	if err != nil {
		// A wrong digest explains damaged contents better than the reader's error.
		if want.Algorithm != "" && archive.Drain(src) == nil {
			if e := want.Check(sum.Hex()[want.Algorithm]); e != nil {
				return nil, nil, archive.Unverified(name, e, err)
			}
		}
		return nil, nil, err
	}
	digests := sum.Hex()
	if want.Algorithm != "" {
		if err := want.Check(digests[want.Algorithm]); err != nil {
			return nil, nil, fmt.Errorf("cannot verify %s: %w", name, err)
		}
	}
	ix, err := s.assemble(ctx, dir, mf, members)
	return ix, digests, err
}

// split reads the tar of a release to its end and writes each archive in it to
// a file of its own.
func split(src *archive.Input, name, dir string) (releaseMF, map[string]member, error) {
	var mf releaseMF
	found, source := false, false
	members := map[string]member{}
	u, err := archive.Unpack(src, archive.Limits{})
	if err != nil {
		return mf, nil, fmt.Errorf("cannot extract %s: %w", name, err)
	}
	defer u.Close()
	buf := make([]byte, archive.BufferSize)
	err = u.Entries(name, func(entry string, h *tar.Header, r io.Reader) error {
		if h.Typeflag != tar.TypeReg {
			return nil
		}
		source = source || path.Base(entry) == "final.yml" && path.Base(path.Dir(entry)) == "config"
		if entry == "release.MF" {
			text, err := metadata.Read(r)
			if err == nil {
				mf, err = parseReleaseMF(text)
			}
			found = err == nil
			return err
		}
		switch parent, base := path.Split(entry); parent {
		case "jobs/", "packages/", "compiled_packages/":
			if !strings.HasSuffix(base, ".tgz") {
				return nil
			}
			file := filepath.Join(dir, strconv.Itoa(len(members))+".tgz")
			digests, err := spill(file, r, buf)
			members[entry] = member{file, digests}
			return err
		}
		return nil
	})
	if err == nil && !found && source {
		err = fmt.Errorf("cannot extract %s: it is an archive of the source of a release, as servers of git make it, and no release: give the release's own archive, or git+https://SERVER/REPOSITORY, or unpack it and give the folder", name)
	} else if err == nil && !found {
		err = fmt.Errorf("cannot extract %s: it has no release.MF", name)
	}
	return mf, members, err
}

// spill writes r to a new file and returns its digests.
func spill(file string, r io.Reader, buf []byte) (map[string]string, error) {
	f, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	sum := digest.NewSums("sha1", "sha256")
	if _, err := io.CopyBuffer(io.MultiWriter(f, sum), struct{ io.Reader }{r}, buf); err != nil {
		return nil, err
	}
	return sum.Hex(), f.Close()
}

// assemble verifies the archives that release.MF lists, moves them to the
// cache and extracts the jobs.
func (s *Store) assemble(ctx context.Context, dir string, mf releaseMF, members map[string]member) (*index, error) {
	ix := &index{Name: mf.Name, Version: mf.Version, CommitHash: mf.CommitHash, Uncommitted: mf.Uncommitted == true}
	for _, kind := range []struct {
		folder string
		list   []archiveMF
	}{{"packages/", mf.Packages}, {"compiled_packages/", mf.CompiledPackages}} {
		for _, a := range kind.list {
			m, err := verified(ctx, members, kind.folder, a)
			if err != nil {
				return nil, err
			}
			p := Package{Name: a.Name, Fingerprint: a.Fingerprint, Digest: a.SHA1, Dependencies: a.Dependencies}
			if kind.folder == "compiled_packages/" {
				p.Stemcell = a.Stemcell
			}
			if p.Fingerprint == "" {
				p.Fingerprint = m.digests["sha1"]
			}
			if p.Digest == "" {
				p.Digest = m.digests["sha1"]
			}
			at, err := s.dir.Place(m.file, m.digests["sha256"])
			if err != nil {
				return nil, err
			}
			ix.Packages = append(ix.Packages, packageIndex{p, at})
		}
	}
	ix.Jobs = make([]jobIndex, len(mf.Jobs))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, a := range mf.Jobs {
		m, err := verified(ctx, members, "jobs/", a)
		if err != nil {
			group.Go(guard.Func(func() error { return err }))
			break
		}
		group.Go(guard.Func(func() error {
			job, err := s.extractJob(ctx, filepath.Join(dir, "job"+strconv.Itoa(i)), a, m)
			if err != nil {
				return fmt.Errorf("job %q: %w", a.Name, err)
			}
			job.Job.Release = mf.Name
			ix.Jobs[i] = job
			return nil
		}))
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return ix, ix.complete()
}

// verified returns the archive that an entry of release.MF lists, and checks its digest
// if the entry has one.
func verified(ctx context.Context, members map[string]member, folder string, a archiveMF) (member, error) {
	name := folder + a.Name + ".tgz"
	m, ok := members[name]
	if !ok {
		return m, fmt.Errorf("release.MF lists %s, but the release does not contain it", name)
	}
	if a.SHA1 == "" {
		return m, nil
	}
	d, err := digest.Parse(a.SHA1)
	if err != nil {
		return m, fmt.Errorf("%s in release.MF: %w", name, err)
	}
	want := d.Strongest()
	got, known := m.digests[want.Algorithm]
	if !known {
		if got, err = sumFile(ctx, m.file, want.Algorithm); err != nil {
			return m, err
		}
	}
	if err := want.Check(got); err != nil {
		return m, fmt.Errorf("cannot verify %s: %w", name, err)
	}
	return m, nil
}

func sumFile(ctx context.Context, file, algorithm string) (string, error) {
	f, _, err := regular.Open(file)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := digest.NewSums(algorithm)
	if err := archive.Drain(&archive.Input{Ctx: ctx, R: f, Each: sum}); err != nil {
		return "", err
	}
	return sum.Hex()[algorithm], nil
}

// extractJob unpacks a job's archive through dir and reads its job.MF.
func (s *Store) extractJob(ctx context.Context, dir string, a archiveMF, m member) (jobIndex, error) {
	j := jobIndex{Job: Job{Name: a.Name, Fingerprint: a.Fingerprint, SHA1: a.SHA1}, Archive: m.digests["sha256"]}
	if j.Job.Fingerprint == "" {
		j.Job.Fingerprint = m.digests["sha1"]
	}
	f, _, err := regular.Open(m.file)
	if err != nil {
		return j, err
	}
	defer f.Close()
	u, err := archive.Unpack(&archive.Input{Ctx: ctx, R: f}, archive.Limits{})
	if err != nil {
		return j, err
	}
	defer u.Close()
	if err := u.Extract("jobs/"+a.Name+".tgz", dir, nil); err != nil {
		return j, err
	}
	if err := readJob(dir, &j.Job); err != nil {
		return j, err
	}
	if j.Tree, _, err = cache.TreeDigest(dir); err != nil {
		return j, err
	}
	if err := s.dir.PlaceFolder(ctx, dir, s.dir.JobPath(j.Archive), j.Tree); err != nil {
		return j, err
	}
	j.Stamp, err = cache.TreeStamp(s.dir.JobPath(j.Archive), nil)
	return j, err
}

// readJob reads job.MF of an extracted job and checks that all files it lists
// exist. It follows no link that leads outside.
func readJob(dir string, job *Job) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := root.Open("job.MF")
	if err != nil {
		return errors.New("it has no job.MF")
	}
	defer f.Close()
	text, err := metadata.Read(f)
	if err == nil {
		err = parseJobMF(text, job)
	}
	if err != nil {
		return fmt.Errorf("cannot read job.MF: %w", err)
	}
	// Agents take jobs without a monit file, for which they start nothing.
	if info, err := root.Stat("monit"); err == nil && !info.Mode().IsRegular() {
		return errors.New("its monit is not a file")
	}
	for _, t := range job.Templates {
		if info, err := root.Stat(filepath.Join("templates", filepath.FromSlash(t.Source))); err != nil || !info.Mode().IsRegular() {
			return fmt.Errorf("it has no template %q", t.Source)
		}
	}
	return nil
}

// complete checks that every package that a job or package needs exists.
func (ix *index) complete() error {
	names := map[string]bool{}
	for _, p := range ix.Packages {
		names[p.Package.Name] = true
	}
	for _, j := range ix.Jobs {
		for _, name := range j.Job.Packages {
			if !names[name] {
				return fmt.Errorf("job %q needs the package %q, which the release does not contain", j.Job.Name, name)
			}
		}
	}
	for _, p := range ix.Packages {
		for _, name := range p.Package.Dependencies {
			if !names[name] {
				return fmt.Errorf("package %q needs the package %q, which the release does not contain", p.Package.Name, name)
			}
		}
	}
	return nil
}
