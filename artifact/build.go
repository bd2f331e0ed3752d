package artifact

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/internal/digest"
)

// build packs the needed packages that old has not packed. The index lists the other
// packages only by name.
func (s *Store) build(ctx context.Context, b *releaseFolder, needed map[string]bool, old *index) (*index, error) {
	dir, done, err := s.dir.Work(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	ix := &index{Name: b.name, Version: "0+dev." + b.fingerprint[:12]}
	for i, p := range b.packages {
		if !needed[p.Name] {
			ix.Packages = append(ix.Packages, old.packed(p.Package))
			continue
		}
		at, err := s.buildPackage(ctx, b, p, filepath.Join(dir, strconv.Itoa(i)+".tgz"))
		if err != nil {
			return nil, fmt.Errorf("package %q: %w", p.Name, err)
		}
		if !p.vendored {
			p.Digest = "sha256:" + at.SHA256
		}
		ix.Packages = append(ix.Packages, packageIndex{p.Package, at})
	}
	for i, j := range b.jobs {
		built, err := s.buildJob(ctx, b, j, filepath.Join(dir, "job"+strconv.Itoa(i)))
		if err != nil {
			return nil, fmt.Errorf("job %q: %w", j.job.Name, err)
		}
		ix.Jobs = append(ix.Jobs, built)
	}
	return ix, nil
}

// packed returns the archive of a package that an index, which may be nil, lists.
func (ix *index) packed(p Package) packageIndex {
	if ix != nil {
		for _, known := range ix.Packages {
			if known.Package.Name == p.Name && known.Package.Fingerprint == p.Fingerprint {
				return known
			}
		}
	}
	return packageIndex{Package: p}
}

func (s *Store) buildPackage(ctx context.Context, b *releaseFolder, p folderPackage, file string) (cache.File, error) {
	if p.vendored {
		return s.copyVendored(ctx, p, file)
	}
	known := s.dir.Path("built", p.Fingerprint+".json")
	var at cache.File
	if cache.ReadJSON(known, &at) == nil && s.dir.Intact(ctx, &at) {
		return at, nil
	}
	out, err := os.OpenFile(file, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return at, err
	}
	defer out.Close()
	sum := digest.NewSums("sha256")
	pack := archive.NewPacker(ctx, io.MultiWriter(out, sum))
	for _, f := range p.files {
		if err := b.pack(pack, f); err != nil {
			return at, err
		}
	}
	if err := errors.Join(pack.End(), out.Close()); err != nil {
		return at, err
	}
	if at, err = s.dir.Place(file, sum.Hex()["sha256"]); err != nil {
		return at, err
	}
	return at, cache.WriteJSON(known, at)
}

// pack adds a file, unless it changed since its fingerprint was taken.
func (b *releaseFolder) pack(p *archive.Packer, f folderFile) error {
	if f.link() {
		return p.Symlink(f.name, filepath.ToSlash(f.sum))
	}
	in, err := b.open(f)
	if err != nil {
		return err
	}
	defer in.Close()
	info, err := in.Stat()
	if err != nil {
		return err
	}
	sum := digest.NewSums("sha256")
	if err := p.File(f.name, f.mode, info.Size(), io.TeeReader(in, sum)); err != nil {
		return err
	}
	return f.unchanged(sum)
}

func (f folderFile) unchanged(sum *digest.Sums) error {
	if sum.Hex()["sha256"] != f.sum {
		return fmt.Errorf("%s changed while it was packed: run the command again", f.from)
	}
	return nil
}

// buildJob creates the folder that extracting a job's archive would create.
func (s *Store) buildJob(ctx context.Context, b *releaseFolder, j folderJob, dir string) (jobIndex, error) {
	ix := jobIndex{Job: j.job, Archive: j.job.Fingerprint}
	for _, f := range j.files {
		data, err := fs.ReadFile(b.fsys, f.from)
		if err != nil {
			return ix, err
		}
		sum := digest.NewSums("sha256")
		io.Copy(sum, bytes.NewReader(data))
		if err := f.unchanged(sum); err != nil {
			return ix, err
		}
		to := filepath.Join(dir, filepath.FromSlash(f.name))
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			return ix, err
		}
		if err := os.WriteFile(to, data, f.mode); err != nil {
			return ix, err
		}
	}
	var err error
	if ix.Tree, _, err = cache.TreeDigest(dir); err != nil {
		return ix, err
	}
	if err := s.dir.PlaceFolder(ctx, dir, s.dir.JobPath(ix.Archive), ix.Tree); err != nil {
		return ix, err
	}
	ix.Stamp, err = cache.TreeStamp(s.dir.JobPath(ix.Archive), nil)
	return ix, err
}
