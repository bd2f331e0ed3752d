package cruby

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gofrs/flock"
	"github.com/tetratelabs/wazero"
	"golang.org/x/sync/errgroup"

	"bootstrap/internal/guard"
)

// unused is how long the unused code of another version is kept.
const unused = 30 * 24 * time.Hour

// sumsName is the file with the checksums of the other files in its folder. It is
// written last.
const sumsName = "sums"

// Open loads the compiled code of the embedded image from dir, which takes a fraction
// of a second, or compiles it, which takes seconds, and keeps it there. It compiles
// code again that is damaged or that another user could have written. dir is created
// with mode 0700; empty: keep nothing. compiling is called before it compiles.
func Open(ctx context.Context, dir string, compiling func()) (*Module, error) {
	about, err := Embedded()
	if err != nil {
		return nil, err
	}
	s, err := openStore(ctx, dir, CacheName(about))
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err == nil {
		defer s.close()
		if s.verified {
			if m, err := s.load(ctx); err == nil {
				return m, nil
			}
		}
	}
	compiling()
	wasm, err := unpack()
	if err != nil {
		return nil, fmt.Errorf("cannot unpack the embedded Ruby: %w", err)
	}
	if s != nil && !s.verified {
		if m, err := s.fill(ctx, wasm); err == nil {
			return m, nil
		}
	}
	return Compile(ctx, wasm, nil)
}

// CacheName returns the name of the folder in which a cache has the code of an
// image.
func CacheName(about About) string { return "ruby-" + about.Module[:16] }

// store is the folder with the code of one image, under a lock that readers share and
// a writer has alone.
type store struct {
	dir  string // of all images
	name string // of this one's folder
	lock *flock.Flock
	// verified: the folder has the right checksums; otherwise it was removed.
	verified bool
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
	if s.verified = s.verify(); s.verified {
		return s, nil
	}
	// Another process may do the work in between.
	if err := s.lock.Unlock(); err != nil {
		return nil, err
	}
	if _, err := s.lock.TryLockContext(ctx, poll); err != nil {
		return nil, err
	}
	if s.verified = s.verify(); s.verified {
		return s, nil
	}
	if err := os.RemoveAll(s.folder()); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

func (s *store) close() { _ = s.lock.Close() }

func (s *store) folder() string { return filepath.Join(s.dir, s.name) }

// own creates a folder that only this user can write to. It removes the code from one
// that others could write to, because that code cannot be trusted.
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
	if !info.IsDir() {
		return fmt.Errorf("%s is not a folder", dir)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		return err
	}
	if info, err = os.Lstat(dir); err != nil || !private(info) {
		return cmp.Or(err, fmt.Errorf("%s belongs to another user", dir))
	}
	entries, err := filepath.Glob(filepath.Join(dir, "ruby-*"))
	for _, entry := range entries {
		err = cmp.Or(err, os.RemoveAll(entry))
	}
	return err
}

// verify reports whether the files of the folder are exactly those of its sums.
func (s *store) verify() bool {
	said, err := os.ReadFile(filepath.Join(s.folder(), sumsName))
	if err != nil {
		return false
	}
	sums, err := s.sum()
	if err != nil || !bytes.Equal(said, sums) {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(s.folder(), now, now)
	return true
}

// sum returns a line for each part of each file of the folder, except sums itself. It
// reads parts in parallel, because that is a good part of the time of a start.
func (s *store) sum() ([]byte, error) {
	var (
		mu    sync.Mutex
		lines []string
		group errgroup.Group
	)
	group.SetLimit(runtime.GOMAXPROCS(0))
	err := filepath.WalkDir(s.folder(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sumsName {
			return err
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return cmp.Or(err, fmt.Errorf("%s is not a file", path))
		}
		name, err := filepath.Rel(s.folder(), path)
		for at := int64(0); at <= info.Size(); at += part {
			group.Go(guard.Func(func() error {
				sum, err := sumPart(path, at)
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, fmt.Sprintf("%s %d %s\n", sum, at, filepath.ToSlash(name)))
				return err
			}))
		}
		return err
	})
	err = cmp.Or(group.Wait(), err)
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), err
}

const part = 8 << 20

// sumPart returns the checksum and the length of a part. It is to find damage, not
// intent: whoever can change a file here can change the sums, too. CRC-32C takes a
// tenth of the time of SHA-256, as processors compute it.
func sumPart(path string, at int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{io.NewSectionReader(f, at, part)}, make([]byte, 128<<10))
	return fmt.Sprintf("%08x %d", sum.Sum32(), n), err
}

// hollowName is the file of the image without its functions.
const hollowName = "module.wasm"

// load takes the code from the folder. wazero still needs the module, and checks each
// function of it, which takes time: so it gets a module with empty functions, for
// which fill has stored the code.
func (s *store) load(ctx context.Context) (*Module, error) {
	wasm, err := os.ReadFile(filepath.Join(s.folder(), hollowName))
	if err != nil {
		return nil, err
	}
	return compileIn(ctx, wasm, s.folder())
}

// fill compiles the image and stores its code.
func (s *store) fill(ctx context.Context, wasm []byte) (*Module, error) {
	full := filepath.Join(s.folder(), "full")
	m, err := compileIn(ctx, wasm, full)
	if err != nil {
		return nil, err
	}
	// If this fails, the next run does it.
	_ = s.keep(ctx, wasm, full)
	return m, nil
}

// keep stores the code of the image where wazero looks for the code of the module with
// empty functions, and writes its sums.
func (s *store) keep(ctx context.Context, wasm []byte, full string) error {
	empty, err := hollow(wasm)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.folder(), hollowName), empty, 0o600); err != nil {
		return err
	}
	m, err := compileIn(ctx, empty, s.folder())
	if err != nil {
		return err
	}
	if err := m.Close(ctx); err != nil {
		return err
	}
	// wazero creates one folder for its version, with one file for the module.
	from, err := filepath.Glob(filepath.Join(full, "*", "*"))
	if err != nil {
		return err
	}
	to, err := filepath.Glob(filepath.Join(s.folder(), "wazero-*", "*"))
	if err != nil || len(from) != 1 || len(to) != 1 {
		return cmp.Or(err, errors.New("this is not how wazero keeps code"))
	}
	if err := os.Rename(from[0], to[0]); err != nil {
		return err
	}
	if err := os.RemoveAll(full); err != nil {
		return err
	}
	return s.vouch()
}

// compileIn compiles with a folder as wazero's cache.
func compileIn(ctx context.Context, wasm []byte, dir string) (*Module, error) {
	cache, err := wazero.NewCompilationCacheWithDir(dir)
	if err != nil {
		return nil, err
	}
	m, err := Compile(ctx, wasm, cache)
	if err != nil {
		return nil, errors.Join(err, cache.Close(ctx))
	}
	m.cache = cache
	return m, nil
}

// vouch writes the sums of the stored files, and removes unused code of other
// versions.
func (s *store) vouch() error {
	sums, err := s.sum()
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(s.folder(), sumsName), sums, 0o600); err != nil {
		return err
	}
	entries, err := os.ReadDir(s.dir)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && e.IsDir() && e.Name() != s.name && time.Since(info.ModTime()) > unused {
			_ = os.RemoveAll(filepath.Join(s.dir, e.Name()))
		}
	}
	return err
}
