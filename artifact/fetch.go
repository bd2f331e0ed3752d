package artifact

import (
	"bootstrap/artifact/archive"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Fetch downloads and verifies an http or https source, unless the cache has it. Of
// a local file it only checks that it exists; Release and Stemcell verify it. An
// interrupted download is resumed, even by a later run.
func (s *Store) Fetch(ctx context.Context, src Source, p archive.Progress) (File, error) {
	f := File{Source: src}
	err := s.use(ctx)
	if err != nil {
		return File{}, fmt.Errorf("cannot fetch %s: %w", src, err)
	}
	switch scheme, rest, _ := strings.Cut(src.URL, ":"); {
	case scheme == "http" || scheme == "https":
		f.Remote = true
		f.Path, f.Cached, err = s.download(ctx, src, p)
	case scheme == "embedded":
		f.Folder = true
		if f.fsys = s.embedded[rest]; f.fsys == nil {
			err = fmt.Errorf("nothing named %q is embedded", rest)
		}
	default:
		err = s.local(&f)
	}
	if err == nil && f.Folder && src.Digest != "" {
		err = errors.New("it is a folder, which has no digest: remove sha1 from the manifest")
	}
	if err != nil {
		return File{}, fmt.Errorf("cannot fetch %s: %w", src, err)
	}
	return f, nil
}

func (s *Store) local(f *File) error {
	p, err := s.localPath(f.URL)
	if err != nil {
		return err
	}
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s", p)
	}
	if err != nil {
		return err
	}
	f.Path = p
	switch {
	case info.IsDir():
		f.Folder, f.fsys = true, os.DirFS(p)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", p)
	}
	return nil
}
