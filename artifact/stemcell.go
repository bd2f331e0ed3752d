package artifact

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/artifact/metadata"
	"bootstrap/internal/digest"
	"bootstrap/internal/regular"
)

// Stemcell is a stemcell whose stemcell.MF was read; its image is still in the
// archive.
type Stemcell struct {
	Name            string
	Version         string // as written: "1.10" stays "1.10"
	OS              string
	APIVersion      int // 1 if the stemcell gives none
	Formats         []string
	Protocol        string // bosh_protocol
	CloudProperties map[string]any
	// ProvidedJobs are the names of jobs that the agent of the stemcell provides
	// itself: their packages are not needed.
	ProvidedJobs []string
	// Digest is "sha256:<hex>" of the verified file; empty if the manifest has no
	// digest.
	Digest string
	// ImageDigest is the multi-digest of the image, from stemcell.MF; may be
	// empty.
	ImageDigest string

	file File
	id   cache.Identity // identity of an archive
}

// Stemcell verifies the digest of a stemcell, if one is given, and reads stemcell.MF. A
// wrong digest is a *digest.Error. A file that was verified before is not read again; a
// file without a digest is read only up to stemcell.MF.
func (s *Store) Stemcell(ctx context.Context, f File, p archive.Progress) (*Stemcell, error) {
	st, err := s.stemcell(ctx, f, p)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", f.Source, err)
	}
	return st, nil
}

func (s *Store) stemcell(ctx context.Context, f File, p archive.Progress) (*Stemcell, error) {
	if err := s.use(ctx); err != nil {
		return nil, err
	}
	if f.Folder {
		text, err := metadata.ReadFile(f.fsys, "stemcell.MF")
		if err != nil {
			return nil, fmt.Errorf("%s: %w", place(f), err)
		}
		st, err := parseStemcellMF(text)
		if err == nil {
			st.file = f
		}
		return st, err
	}
	want, err := wanted(f.Digest)
	if err != nil {
		return nil, err
	}
	file, rec, err := s.dir.Open(f.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	known := rec.Satisfies(want) == nil
	if !known || rec.Stemcell == "" {
		text, digests, err := readStemcell(ctx, file, rec, place(f), want, p)
		if err != nil {
			return nil, err
		}
		rec.Stemcell = text
		rec.Know(digests)
		if err := s.dir.Learn(file, rec, func(*cache.Record) {}); err != nil {
			return nil, err
		}
	}
	st, err := parseStemcellMF([]byte(rec.Stemcell))
	if err != nil {
		return nil, err
	}
	st.file, st.id = f, rec.Identity
	if want.Algorithm != "" && rec.Digests["sha256"] != "" {
		st.Digest = "sha256:" + rec.Digests["sha256"]
	}
	return st, nil
}

// readStemcell returns the text of stemcell.MF. It reads the file to its end only
// if a digest must be checked.
func readStemcell(ctx context.Context, f *os.File, rec cache.Record, name string, want digest.Digest, p archive.Progress) (string, map[string]string, error) {
	src := &archive.Input{Ctx: ctx, R: f, Total: rec.Identity.Size, Progress: p}
	var sum *digest.Sums
	if rec.Satisfies(want) != nil {
		sum = digest.NewSums("sha256", want.Algorithm)
		src.Each = sum
	}
	text, err := stemcellText(src, name)
	if sum == nil {
		return text, nil, err
	}
	// A wrong digest explains damaged contents better than the reader's error.
	if drained := archive.Drain(src); drained != nil {
		return "", nil, fmt.Errorf("cannot read %s: %w", name, archive.Cause(drained))
	}
	digests := sum.Hex()
	if wrong := want.Check(digests[want.Algorithm]); wrong != nil {
		return "", nil, archive.Unverified(name, wrong, err)
	}
	return text, digests, err
}

func stemcellText(src *archive.Input, name string) (string, error) {
	u, err := archive.Unpack(src, archive.Limits{})
	if err != nil {
		return "", fmt.Errorf("cannot extract %s: %w", name, err)
	}
	defer u.Close()
	var text []byte
	err = u.Entries(name, func(entry string, h *tar.Header, r io.Reader) error {
		if entry != "stemcell.MF" || h.Typeflag != tar.TypeReg {
			return nil
		}
		if text, err = metadata.Read(r); err != nil {
			return err
		}
		return archive.ErrStop
	})
	switch {
	case errors.Is(err, archive.ErrStop):
		return string(text), nil
	case err != nil:
		return "", err
	}
	return "", fmt.Errorf("cannot extract %s: it has no stemcell.MF", name)
}

// Extract unpacks the stemcell into dir and returns the path of its image. It checks the
// digest of the image that stemcell.MF gives, unless the image is empty because the
// stemcell is a light one.
func (st *Stemcell) Extract(ctx context.Context, dir string, p archive.Progress) (image string, err error) {
	image, err = st.extract(ctx, dir, p)
	if err != nil {
		return "", fmt.Errorf("cannot extract stemcell %s/%s: %w", st.Name, st.Version, err)
	}
	return image, nil
}

func (st *Stemcell) extract(ctx context.Context, dir string, p archive.Progress) (image string, err error) {
	var want digest.Digest
	if st.ImageDigest != "" {
		if want, err = wanted(st.ImageDigest); err != nil {
			return "", fmt.Errorf("sha1 in stemcell.MF: %w", err)
		}
	}
	sum := digest.NewSums(want.Algorithm)
	see := func(name string) io.Writer {
		if name != "image" {
			return nil
		}
		sum = digest.NewSums(want.Algorithm)
		return sum
	}
	if st.file.Folder {
		err = archive.Copy(ctx, st.file.fsys, dir, see)
	} else {
		err = st.unpackFile(ctx, dir, p, see)
	}
	if err != nil {
		return "", err
	}
	image = filepath.Join(dir, "image")
	info, err := os.Lstat(image)
	if err != nil || !info.Mode().IsRegular() {
		return "", errors.New("it has no file \"image\"")
	}
	if want.Algorithm != "" && info.Size() > 0 {
		if err := want.Check(sum.Hex()[want.Algorithm]); err != nil {
			return "", fmt.Errorf("image: %w", err)
		}
	}
	return image, nil
}

// unpackFile unpacks the archive, unless it changed since it was verified.
func (st *Stemcell) unpackFile(ctx context.Context, dir string, p archive.Progress, see func(string) io.Writer) error {
	f, _, err := regular.Open(st.file.Path)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := st.unchanged(f); err != nil {
		return err
	}
	if err := archive.ExtractFile(ctx, f, dir, archive.Limits{}, p, see); err != nil {
		return err
	}
	return st.unchanged(f)
}

func (st *Stemcell) unchanged(f *os.File) error {
	info, err := f.Stat()
	if err == nil && cache.Identify(info) != st.id {
		err = fmt.Errorf("%s changed since it was verified", st.file.Path)
	}
	return err
}
