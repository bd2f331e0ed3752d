package archive

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Copy copies files and folders of fsys to dir; see is as for ExtractFile.
func Copy(ctx context.Context, fsys fs.FS, dir string, see func(string) io.Writer) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	buf := make([]byte, BufferSize)
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
		var r io.Reader = &Input{Ctx: ctx, R: in}
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
