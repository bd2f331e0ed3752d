package archive

import (
	"archive/tar"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/gzip"
)

// Pack writes dir as tar.gz that is the same for the same contents: entries
// are sorted and begin with "./", modes and links are kept, times are zero,
// owners are left out.
func Pack(ctx context.Context, dir string, w io.Writer) error {
	p := NewPacker(ctx, w)
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		if name == "." {
			if !info.IsDir() {
				return fmt.Errorf("it is not a folder")
			}
			return p.Folder(".", info.Mode())
		}
		name = filepath.ToSlash(name)
		switch mode := info.Mode(); {
		case mode.IsDir():
			return p.Folder(name, mode)
		case mode.IsRegular():
			return p.open(name, mode, func() (fs.File, error) { return os.Open(file) })
		case mode&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			if err != nil {
				return err
			}
			return p.Symlink(name, filepath.ToSlash(target))
		default:
			return fmt.Errorf("%s is neither file, folder nor link", name)
		}
	})
	if err == nil {
		err = p.End()
	}
	if err != nil {
		return fmt.Errorf("cannot pack %s: %w", dir, err)
	}
	return nil
}

// Packer writes a tar.gz that is the same for the same entries.
type Packer struct {
	ctx context.Context
	gz  *gzip.Writer
	tar *tar.Writer
	buf []byte
}

// NewPacker returns a packer that writes to w and ends with ctx.
func NewPacker(ctx context.Context, w io.Writer) *Packer {
	return newPacker(ctx, gzip.NewWriter(w))
}

// NewStoringPacker is NewPacker without compression, for files that are compressed.
func NewStoringPacker(ctx context.Context, w io.Writer) *Packer {
	gz, err := gzip.NewWriterLevel(w, gzip.NoCompression)
	if err != nil {
		return NewPacker(ctx, w) // there is no such level
	}
	return newPacker(ctx, gz)
}

func newPacker(ctx context.Context, gz *gzip.Writer) *Packer {
	return &Packer{ctx: ctx, gz: gz, tar: tar.NewWriter(gz), buf: make([]byte, BufferSize)}
}

// End writes the end of the archive.
func (p *Packer) End() error {
	if err := p.tar.Close(); err != nil {
		return err
	}
	return p.gz.Close()
}

func (p *Packer) header(name string, mode fs.FileMode, kind byte) *tar.Header {
	return &tar.Header{Typeflag: kind, Name: name, Mode: int64(mode.Perm()), ModTime: time.Unix(0, 0)}
}

// Folder adds a folder; "." is the top one.
func (p *Packer) Folder(name string, mode fs.FileMode) error {
	if name == "." {
		return p.tar.WriteHeader(p.header("./", mode, tar.TypeDir))
	}
	return p.tar.WriteHeader(p.header("./"+name+"/", mode, tar.TypeDir))
}

// Symlink adds a symbolic link.
func (p *Packer) Symlink(name, target string) error {
	h := p.header("./"+name, 0o777, tar.TypeSymlink)
	h.Linkname = target
	return p.tar.WriteHeader(h)
}

func (p *Packer) open(name string, mode fs.FileMode, open func() (fs.File, error)) error {
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	return p.File(name, mode, info.Size(), f)
}

// File adds a regular file with the first size bytes of r.
func (p *Packer) File(name string, mode fs.FileMode, size int64, r io.Reader) error {
	h := p.header("./"+name, mode, tar.TypeReg)
	h.Size = size
	if err := p.tar.WriteHeader(h); err != nil {
		return err
	}
	limited := io.LimitReader(&Input{Ctx: p.ctx, R: r}, size)
	n, err := io.CopyBuffer(struct{ io.Writer }{p.tar}, limited, p.buf)
	if err == nil && n < size {
		err = fmt.Errorf("%s became shorter while it was read", name)
	}
	return err
}
