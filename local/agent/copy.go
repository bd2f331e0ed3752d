package agent

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bootstrap/internal/removal"
)

// copyTree copies everything in from into the folder to. It keeps owners, modes,
// times, symbolic and hard links and holes, and replaces existing files.
func copyTree(ctx context.Context, from, to string) error {
	links := map[fileID]string{} // first copy of each file with several hard links
	type stamp struct {
		path string
		info fs.FileInfo
	}
	var folders []stamp
	err := filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if info.IsDir() {
			folders = append(folders, stamp{target, info})
			if there, err := os.Lstat(target); err == nil && !there.IsDir() {
				// The target may be a symbolic link that leads out of this disk.
				if err := os.Remove(target); err != nil {
					return err
				}
			}
			if err := os.MkdirAll(target, 0o700); err != nil {
				return err
			}
			return os.Chmod(target, 0o700) // writable until its content is copied
		}
		return copyEntry(ctx, path, target, info, links)
	})
	if err != nil {
		return err
	}
	for i := len(folders) - 1; i >= 0; i-- {
		f := folders[i]
		if err := stampFile(f.path, f.info); err != nil {
			return err
		}
	}
	return nil
}

// stampFile gives a file the owner, the mode and the time of another one.
func stampFile(name string, like fs.FileInfo) error {
	const bits = fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	if err := own(name, like); err != nil {
		return err
	}
	if err := os.Chmod(name, like.Mode()&bits); err != nil {
		return err
	}
	return os.Chtimes(name, time.Time{}, like.ModTime())
}

func copyEntry(ctx context.Context, source, target string, info fs.FileInfo, links map[fileID]string) error {
	if err := removal.Tree(target); err != nil {
		return err
	}
	id, several := idOf(info)
	if first, found := links[id]; several && found {
		return os.Link(first, target)
	}
	var err error
	switch info.Mode().Type() {
	case 0:
		err = copyFile(ctx, source, target, info)
	case fs.ModeSymlink:
		var text string
		if text, err = os.Readlink(source); err == nil {
			err = os.Symlink(text, target)
		}
		if err == nil {
			err = own(target, info)
		}
	case fs.ModeSocket:
		return nil // a copy of a socket has no listener
	case fs.ModeNamedPipe:
		if err = makePipe(target, info.Mode()); err == nil {
			err = stampFile(target, info)
		}
	default:
		err = fmt.Errorf("cannot copy %s: it is a device", source)
	}
	if several && err == nil {
		links[id] = target
	}
	return err
}

func copyFile(ctx context.Context, source, target string, info fs.FileInfo) error {
	in, err := openAny(source)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer out.Close()
	err = eachExtent(in, info.Size(), func(start, length int64) error {
		if _, err := out.Seek(start, io.SeekStart); err != nil {
			return err
		}
		_, err := io.Copy(out, &interruptible{ctx, io.NewSectionReader(in, start, length)})
		return err
	})
	if err != nil {
		return err
	}
	if err := out.Truncate(info.Size()); err != nil {
		return err
	}
	if err := out.Close(); err != nil {
		return err
	}
	return stampFile(target, info)
}

// openAny opens a file without read permission for its owner, by changing its mode for
// a moment.
func openAny(name string) (*os.File, error) {
	f, err := os.Open(name)
	if !errors.Is(err, fs.ErrPermission) {
		return f, err
	}
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(name, info.Mode()|0o400); err != nil {
		return nil, err
	}
	f, err = os.Open(name)
	if cerr := os.Chmod(name, info.Mode()); err == nil && cerr != nil {
		f.Close()
		return nil, cerr
	}
	return f, err
}

// interruptible is a reader that fails when its context ends.
type interruptible struct {
	ctx context.Context
	r   io.Reader
}

func (i *interruptible) Read(p []byte) (int, error) {
	if i.ctx.Err() != nil {
		return 0, context.Cause(i.ctx)
	}
	return i.r.Read(p)
}

// compareTrees returns an error unless to contains everything in from.
func compareTrees(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		want, err := d.Info()
		if err != nil || want.Mode().Type() == fs.ModeSocket {
			return err
		}
		target := filepath.Join(to, rel)
		got, err := os.Lstat(target)
		if err != nil {
			return err
		}
		if !sameOwner(got, want) {
			return fmt.Errorf("%s and its copy have different owners", rel)
		}
		if got.Mode() != want.Mode() || want.Mode().IsRegular() && got.Size() != want.Size() {
			return fmt.Errorf("%s has mode %v and %d bytes, its copy has %v and %d", rel, want.Mode(), want.Size(), got.Mode(), got.Size())
		}
		switch want.Mode().Type() {
		case 0:
			return compareFiles(ctx, path, target, want.Size())
		case fs.ModeSymlink:
			a, err := os.Readlink(path)
			if err != nil {
				return err
			}
			if b, err := os.Readlink(target); err != nil || a != b {
				return fmt.Errorf("link %s points to %q, its copy to %q", rel, a, b)
			}
		}
		return nil
	})
}

func compareFiles(ctx context.Context, a, b string, size int64) error {
	fa, err := openAny(a)
	if err != nil {
		return err
	}
	defer fa.Close()
	fb, err := openAny(b)
	if err != nil {
		return err
	}
	defer fb.Close()
	bufA, bufB := make([]byte, 128<<10), make([]byte, 128<<10)
	return eachExtent(fa, size, func(start, length int64) error {
		for off := int64(0); off < length; {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			n := min(int64(len(bufA)), length-off)
			if _, err := fa.ReadAt(bufA[:n], start+off); err != nil {
				return err
			}
			if _, err := fb.ReadAt(bufB[:n], start+off); err != nil {
				return err
			}
			if !bytes.Equal(bufA[:n], bufB[:n]) {
				return fmt.Errorf("%s and its copy differ near byte %d", a, start+off)
			}
			off += n
		}
		return nil
	})
}
