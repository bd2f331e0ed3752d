package cruby

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gofrs/flock"
	"github.com/tetratelabs/wazero"
)

// keep is how long the code of another version stays that nobody uses.
const keep = 30 * 24 * time.Hour

// sumsName is the file that vouches for the others of its folder. It is written
// last.
const sumsName = "sums"

// Open compiles the embedded image, which takes seconds, or loads the code that
// was kept below dir, which takes a fraction of one. Code that is damaged, or
// that somebody else could have written, is made again; where none can be kept
// it is made each time. dir is made with mode 0700; empty: keep none.
func Open(ctx context.Context, dir string) (*Module, fs.FS, error) {
	about, err := Embedded()
	if err != nil {
		return nil, nil, err
	}
	type unpacked struct {
		wasm    []byte
		library fs.FS
		err     error
	}
	loading := make(chan unpacked, 1)
	go func() {
		var u unpacked
		u.wasm, u.library, u.err = Load()
		loading <- u
	}()
	store, storeErr := openStore(ctx, dir, "ruby-"+about.Module[:16])
	image := <-loading
	if storeErr == nil {
		defer store.close()
	}
	if image.err != nil {
		return nil, nil, image.err
	}
	if ctx.Err() != nil {
		return nil, nil, context.Cause(ctx)
	}
	if storeErr == nil {
		if m, err := store.compile(ctx, image.wasm); err == nil {
			return m, image.library, nil
		}
	}
	m, err := Compile(ctx, image.wasm, nil)
	return m, image.library, err
}

// store is the folder of the code of one image. Whoever only reads it shares
// it; whoever writes is alone.
type store struct {
	dir  string // of all images
	name string // of this one's folder
	lock *flock.Flock
	sums []byte // that hold for what is there now; nil: there is nothing
}

func openStore(ctx context.Context, dir, name string) (*store, error) {
	if dir == "" {
		return nil, errors.New("no folder is given")
	}
	if err := own(dir); err != nil {
		return nil, err
	}
	s := &store{dir: dir, name: name, lock: flock.New(filepath.Join(dir, "lock"), flock.SetPermissions(0o600))}
	const poll = 20 * time.Millisecond
	if _, err := s.lock.TryRLockContext(ctx, poll); err != nil {
		return nil, err
	}
	if s.verify() {
		return s, nil
	}
	// Another one may come in between and do the work.
	if err := s.lock.Unlock(); err != nil {
		return nil, err
	}
	if _, err := s.lock.TryLockContext(ctx, poll); err != nil {
		return nil, err
	}
	if !s.verify() {
		if err := os.RemoveAll(s.folder()); err != nil {
			s.close()
			return nil, err
		}
	}
	return s, nil
}

func (s *store) close() { _ = s.lock.Close() }

func (s *store) folder() string { return filepath.Join(s.dir, s.name) }

// own makes a folder that nobody else can write to. One that was not so before
// may hold anything, and is emptied.
func own(dir string) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return err
	}
	err := os.Mkdir(dir, 0o700)
	if !errors.Is(err, fs.ErrExist) {
		return err
	}
	info, err := os.Lstat(dir)
	if err != nil || private(info) {
		return err
	}
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	return os.Mkdir(dir, 0o700)
}

// verify tells whether the folder has exactly what its sums say.
func (s *store) verify() bool {
	said, err := os.ReadFile(filepath.Join(s.folder(), sumsName))
	if err != nil {
		return false
	}
	sums, err := s.sum()
	if err != nil || !bytes.Equal(said, sums) {
		return false
	}
	s.sums = sums
	now := time.Now()
	_ = os.Chtimes(s.folder(), now, now)
	return true
}

// sum has a line for each file of the folder but sums itself.
func (s *store) sum() ([]byte, error) {
	var lines []string
	err := filepath.WalkDir(s.folder(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sumsName {
			return err
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", path)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, f); err != nil {
			return err
		}
		name, err := filepath.Rel(s.folder(), path)
		lines = append(lines, fmt.Sprintf("%x  %s\n", sum.Sum(nil), filepath.ToSlash(name)))
		return err
	})
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), err
}

// compile compiles with the folder as the cache.
func (s *store) compile(ctx context.Context, wasm []byte) (*Module, error) {
	cache, err := wazero.NewCompilationCacheWithDir(s.folder())
	if err != nil {
		return nil, err
	}
	m, err := Compile(ctx, wasm, cache)
	if err != nil {
		_ = cache.Close(ctx)
		return nil, err
	}
	m.cache = cache
	if s.sums == nil {
		s.vouch()
	}
	return m, nil
}

// vouch writes the sums of what was compiled just now, and removes what was left
// by other versions. The next run does what fails here.
func (s *store) vouch() {
	sums, err := s.sum()
	if err != nil {
		return
	}
	_ = os.WriteFile(filepath.Join(s.folder(), sumsName), sums, 0o600)
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && e.Name() != s.name && time.Since(info.ModTime()) > keep {
			_ = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
	}
}
