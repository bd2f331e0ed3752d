package changed

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"bootstrap/artifact/archive"
	"bootstrap/internal/regular"
)

// most is the largest size in bytes of a file that is compared line by line.
const most = 1 << 20

// file is a rendered file.
type file struct {
	mode fs.FileMode
	size int64
	sum  [sha256.Size]byte
	data []byte // nil if the file is larger than most
}

// files are rendered files by their paths, each below the name of its job.
type files map[string]file

func (f files) add(name string, mode fs.FileMode, size int64, r io.Reader) error {
	sum := sha256.New()
	head, err := io.ReadAll(io.LimitReader(io.TeeReader(r, sum), most+1))
	if err != nil {
		return err
	}
	if _, err := io.Copy(sum, r); err != nil {
		return err
	}
	if len(head) > most {
		head = nil
	}
	// Extracting adds the write permission of the owner: that is not counted as a
	// difference.
	f[name] = file{mode: mode.Perm() | 0o200, size: size, sum: [sha256.Size]byte(sum.Sum(nil)), data: head}
	return nil
}

// inFolder reads the files below a folder.
func inFolder(dir string) (files, error) {
	list := files{}
	err := filepath.WalkDir(dir, func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, at)
		if err != nil {
			return err
		}
		r, err := os.Open(at)
		if err != nil {
			return err
		}
		defer r.Close()
		return list.add(filepath.ToSlash(name), info.Mode(), info.Size(), r)
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the rendered files: %w", err)
	}
	return list, nil
}

// inArchive reads the files in an archive without extracting it, because they contain
// secrets.
func inArchive(ctx context.Context, at string) (files, error) {
	r, _, err := regular.Open(at)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	unpacked, err := archive.Unpack(&archive.Input{R: r, Ctx: ctx}, archive.Limits{})
	if err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", at, err)
	}
	defer unpacked.Close()
	list := files{}
	for entries := tar.NewReader(unpacked); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err == nil && h.Typeflag == tar.TypeReg {
			err = list.add(path.Clean(h.Name), h.FileInfo().Mode(), h.Size, entries)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", at, err)
		}
	}
}
