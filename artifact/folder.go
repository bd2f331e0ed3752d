package artifact

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// folderRelease builds a release from a folder in release layout, unless the
// cache has what the folder holds.
func (s *Store) folderRelease(ctx context.Context, f File) (*index, error) {
	var rec record
	stamp, settled := "", false
	if f.Path != "" {
		var err error
		if stamp, settled, err = releaseStamp(f.Path, f.Name); err != nil {
			return nil, err
		}
		if readJSON(s.recordPath(f.Path), &rec) == nil && rec.Path == f.Path && rec.Stamp == stamp {
			if ix, ok := s.loadIndex(ctx, rec.Release); ok {
				return ix, nil
			}
		}
	}
	b, err := readReleaseFolder(ctx, f.fsys, f.Name, s.cache())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", place(f), err)
	}
	key := "folder-" + b.fingerprint
	ix, ok := s.loadIndex(ctx, key)
	if !ok {
		if ix, err = s.build(ctx, b); err != nil {
			return nil, fmt.Errorf("%s: %w", place(f), err)
		}
		if err := s.saveIndex(key, ix); err != nil {
			return nil, err
		}
	}
	if !settled {
		return ix, nil
	}
	return ix, s.remember(record{Path: f.Path, Release: key, Stamp: stamp})
}

// releaseStamp is the identity of everything that a release is built from;
// settled tells whether a change from now on would change it.
func releaseStamp(dir, name string) (stamp string, settled bool, err error) {
	now := time.Now()
	settled = true
	each := func(_ string, info fs.FileInfo) error {
		settled = settled && identify(info).settled(now)
		return nil
	}
	h := sha256.New()
	fmt.Fprintf(h, "%q\n", name)
	for _, part := range releaseParts() {
		p, err := filepath.EvalSymlinks(filepath.Join(dir, part))
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return "", false, err
		}
		stamp, err := treeStamp(p, each)
		if err != nil {
			return "", false, err
		}
		fmt.Fprintf(h, "%s %s\n", part, stamp)
	}
	return hex.EncodeToString(h.Sum(nil)), settled, nil
}

func releaseParts() []string { return []string{"config", "jobs", "packages", "src", "blobs"} }

// readFolderMetadata reads a small file of a folder.
func readFolderMetadata(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, cause(err))
	}
	defer f.Close()
	text, err := metadata(f)
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", name, cause(err))
	}
	return text, nil
}

// copyFolder copies files and folders of fsys to dir; see is that of
// extractFile.
func copyFolder(ctx context.Context, fsys fs.FS, dir string, see func(string) io.Writer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	buf := make([]byte, bufferSize)
	return fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return err
		}
		local := filepath.FromSlash(name)
		switch {
		case d.IsDir():
			if err := root.Mkdir(local, 0o755); !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		case !d.Type().IsRegular():
			return fmt.Errorf("%s is neither a file nor a folder", name)
		}
		in, err := fsys.Open(name)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		var r io.Reader = &source{ctx: ctx, r: in}
		if w := see(name); w != nil {
			r = io.TeeReader(r, w)
		}
		out, err := root.OpenFile(local, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, info.Mode().Perm()|0o200)
		if err != nil {
			return err
		}
		defer out.Close()
		if _, err := io.CopyBuffer(struct{ io.Writer }{out}, r, buf); err != nil {
			return err
		}
		return out.Close()
	})
}
