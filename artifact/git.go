package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"bootstrap/internal/git"
)

// checkout makes a folder in the cache of a commit: git+https://HOST/PATH@COMMIT.
func (s *Store) checkout(ctx context.Context, f *File) error {
	u, _, err := git.Parse(f.URL)
	switch {
	case err != nil:
		return err
	case !u.IsCommit():
		return errors.New("its url has no commit (@ and 40 letters and digits)")
	}
	f.Folder, f.Path = true, s.dir.Path("git", u.Ref)
	f.fsys = os.DirFS(f.Path)
	if _, err := os.Stat(f.Path); err == nil {
		return nil
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
		return nil
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
	return os.Rename(made, f.Path)
}
