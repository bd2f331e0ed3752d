package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/artifact/cache"
	"bootstrap/internal/git"
)

// gitFolder is the folder for checkouts in the cache.
const gitFolder = "git"

// checkout makes a folder in the cache of a commit: git+https://HOST/PATH@COMMIT.
func (s *Store) checkout(ctx context.Context, f *File) error {
	u, _, err := git.Parse(f.URL)
	switch {
	case err != nil:
		return err
	case !u.IsCommit():
		return errors.New("its url has no commit (@ and 40 letters and digits)")
	}
	f.Folder, f.Path = true, s.dir.Path(gitFolder, u.Ref)
	if _, err := os.Stat(f.Path); err == nil {
		cache.Touch(f.Path)
		return f.confine()
	}
	if s.offline {
		return ErrOffline
	}
	unlock, err := s.dir.Lock(ctx, "git-"+u.Ref)
	if err != nil {
		return err
	}
	defer unlock()
	if _, err := os.Stat(f.Path); err == nil {
		return f.confine()
	}
	dir, done, err := s.dir.Work(ctx)
	if err != nil {
		return err
	}
	defer done()
	made := filepath.Join(dir, "checkout")
	if err := os.Mkdir(made, 0o700); err != nil {
		return err
	}
	if err := u.Checkout(ctx, made); err != nil {
		return fmt.Errorf("cannot check out %s: %w", u, err)
	}
	if err := os.MkdirAll(filepath.Dir(f.Path), 0o700); err != nil {
		return err
	}
	if err := os.Rename(made, f.Path); err != nil {
		return err
	}
	return f.confine()
}

// confine lets the files of a checkout be read only through links that stay in it. Links
// of other folders may lead anywhere: their author has this machine.
func (f *File) confine() error {
	root, err := os.OpenRoot(f.Path) // closed when nothing refers to it any more
	if err != nil {
		return err
	}
	f.fsys = root.FS()
	for _, part := range releaseParts() { // releaseStamp walks these
		names := []string{part}
		if part == "jobs" || part == "packages" {
			list, _ := fs.ReadDir(f.fsys, part) // an unreadable folder has no links to follow
			for _, d := range list {
				names = append(names, part+"/"+d.Name())
			}
		}
		for _, name := range names {
			info, err := root.Lstat(name)
			if err != nil || info.Mode()&fs.ModeSymlink == 0 {
				continue
			}
			if _, err := root.Stat(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%s in the repository is a link that leads out of it", name)
			}
		}
	}
	return nil
}
