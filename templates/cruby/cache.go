package cruby

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gofrs/flock"
	"github.com/tetratelabs/wazero"
	"golang.org/x/sync/errgroup"

	"bootstrap/internal/guard"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/regular"
)

// unused is how long unused code of another version is kept.
const unused = 30 * 24 * time.Hour

// sumsName is the file with the checksums of the other files in its folder. It is
// written last.
const sumsName = "sums"

// OpenReached is like Open, but only for the functions that templates call according to
// the image's profile. Compiling these takes a third of the time, and for most machines
// this program contains their code. A call of another function is an ErrMissing.
func OpenReached(ctx context.Context, dir string, compiling func(full bool)) (*Module, error) {
	return source{name: CacheName, wasm: reached, shipped: true, compiling: compiling}.open(ctx, dir)
}

// Open loads the compiled code of the embedded image from dir, which takes a fraction of
// a second. If the code is missing or damaged, or if another user could have written it,
// Open compiles the image, which takes seconds, and stores the code. dir is created with
// mode 0700; empty: nothing is stored. compiling is called before Open compiles; its
// argument is true if dir has no room for the code.
func Open(ctx context.Context, dir string, compiling func(full bool)) (*Module, error) {
	return source{name: wholeName, wasm: whole, compiling: compiling}.open(ctx, dir)
}

// CacheName returns the name of the folder in which a cache has the code of OpenReached
// for an image.
func CacheName(about About) string {
	return fmt.Sprintf("ruby-%x", sha256.Sum256([]byte(about.Module+about.Profile)))[:len("ruby-")+16]
}

func wholeName(about About) string { return wholePrefix + about.Module[:16] }

const wholePrefix = "ruby-whole-"

// lockName returns the file whose lock belongs to a folder. Compiling the whole code
// has its own lock, so that it does not delay runs that do not need that code.
func lockName(name string) string {
	if strings.HasPrefix(name, wholePrefix) {
		return "lock-whole"
	}
	return "lock"
}

// source provides code that is not stored yet.
type source struct {
	name      func(About) string
	wasm      func() ([]byte, error)
	shipped   bool // this program may contain the machine code
	compiling func(full bool)
}

func (c source) open(ctx context.Context, dir string) (*Module, error) {
	about, err := Embedded()
	if err != nil {
		return nil, err
	}
	full := false
	for range 2 {
		s, err := openStore(ctx, dir, c.name(about))
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			full = noRoom(err)
			break
		}
		m, err := c.from(ctx, s)
		s.close()
		if err == nil {
			return m, nil
		}
		if full = noRoom(err); full {
			break // the second attempt would compile in vain
		}
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
	}
	// Without a folder, nothing is stored.
	c.compiling(full)
	wasm, err := c.wasm()
	if err != nil {
		return nil, fmt.Errorf("cannot unpack the embedded Ruby: %w", err)
	}
	memory, err := unpack(memoryName)
	if err != nil {
		return nil, fmt.Errorf("cannot unpack the embedded Ruby: %w", err)
	}
	return CompileImage(ctx, wasm, memory)
}

// from loads the code from its folder. If the content of the folder is not valid, it
// first stores the code there.
func (c source) from(ctx context.Context, s *store) (*Module, error) {
	if s.verified {
		m, err := s.load(ctx)
		if err != nil {
			// The next process that opens the folder fills it again.
			err = errors.Join(err, os.Remove(filepath.Join(s.folder(), sumsName)))
		}
		return m, err
	}
	if c.shipped {
		m, err := s.unship(ctx)
		if err == nil {
			return m, nil
		}
		if err := errors.Join(os.RemoveAll(s.folder()), whenFull(err)); err != nil {
			return nil, err
		}
	}
	c.compiling(false)
	wasm, err := c.wasm()
	if err != nil {
		return nil, err
	}
	return s.fill(ctx, wasm)
}

func noRoom(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// whenFull returns the error if its cause is a full disk.
func whenFull(err error) error {
	if noRoom(err) {
		return err
	}
	return nil
}

// whole returns the code of the image.
func whole() ([]byte, error) { return unpack(codeName) }

// reached returns the code of the image with the functions of its profile.
func reached() ([]byte, error) {
	wasm, err := whole()
	if err != nil {
		return nil, err
	}
	profile, err := image.ReadFile("image/" + profileName)
	if err != nil {
		return nil, err
	}
	return reduce(wasm, profile)
}

// store is the folder with the code of one image, under a lock that readers share and
// a writer has alone.
type store struct {
	dir  string // the folder of all images
	name string // the folder of this image
	lock *flock.Flock
	// verified: the folder has the right checksums; otherwise its content was removed.
	verified bool
	files    map[string]int64 // sizes of the files by path, if the folder is verified
}

func openStore(ctx context.Context, dir, name string) (*store, error) {
	if dir == "" {
		return nil, errors.New("no folder is given")
	}
	if err := own(dir); err != nil {
		return nil, err
	}
	s := &store{dir: dir, name: name, lock: lockfile.New(filepath.Join(dir, lockName(name)))}
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

// own creates a folder that only this user can write to. If others could write to the
// folder, own removes the code in it, because that code cannot be trusted.
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

// verify reports whether the folder contains exactly the files of its list of sums.
func (s *store) verify() bool {
	recorded, err := regular.Read(filepath.Join(s.folder(), sumsName))
	if err != nil {
		return false
	}
	if s.files, err = s.list(); err != nil {
		return false
	}
	sums, err := s.sum()
	if err != nil || !bytes.Equal(recorded, sums) {
		return false
	}
	now := time.Now()
	_ = os.Chtimes(s.folder(), now, now)
	return true
}

// list returns the sizes of the files of the folder, except sums itself.
func (s *store) list() (map[string]int64, error) {
	files := map[string]int64{}
	err := filepath.WalkDir(s.folder(), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == sumsName {
			return err
		}
		info, err := d.Info()
		if err != nil || !info.Mode().IsRegular() {
			return cmp.Or(err, fmt.Errorf("%s is not a file", path))
		}
		name, err := filepath.Rel(s.folder(), path)
		files[filepath.ToSlash(name)] = info.Size()
		return err
	})
	return files, err
}

// sum returns a line for each part of each of the files. It reads parts in parallel,
// because reading is a large part of the start time.
func (s *store) sum() ([]byte, error) {
	var (
		mu    sync.Mutex
		lines []string
		group errgroup.Group
	)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for name, size := range s.files {
		for _, p := range parts(name, size) {
			group.Go(guard.Func(func() error {
				sum, err := sumPart(filepath.Join(s.folder(), filepath.FromSlash(name)), p)
				mu.Lock()
				defer mu.Unlock()
				lines = append(lines, fmt.Sprintf("%s %d %d %s\n", sum, p.at, p.size, name))
				return err
			}))
		}
	}
	err := group.Wait()
	slices.Sort(lines)
	return []byte(strings.Join(lines, "")), err
}

// part is a part of a file with one checksum.
type part struct{ at, size int64 }

const (
	partSize = 8 << 20
	headSize = 1 << 20 // larger than the tables in front of the machine code
	tailSize = 4 << 10 // larger than the data after the machine code
)

// parts returns the parts of a file that are summed. wazero checks machine code with a
// checksum of its own when it loads it.
func parts(name string, size int64) []part {
	if isCode(name) && size > headSize+tailSize {
		return []part{{0, headSize}, {size - tailSize, tailSize}}
	}
	var list []part
	for at := int64(0); at == 0 || at < size; at += partSize {
		list = append(list, part{at, min(partSize, size-at)})
	}
	return list
}

// isCode reports whether wazero made the file.
func isCode(name string) bool { return strings.HasPrefix(name, "wazero-") }

// sumPart returns the checksum of a part. It protects against damage, not against
// attackers: whoever can change a file here can change the sums, too. CRC-32C takes a
// tenth of the time of SHA-256, because processors compute it.
func sumPart(path string, p part) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli))
	n, err := io.CopyBuffer(struct{ io.Writer }{sum}, struct{ io.Reader }{io.NewSectionReader(f, p.at, p.size)}, make([]byte, 128<<10))
	if err == nil && n != p.size {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Sprintf("%08x", sum.Sum32()), err
}

// The files of a folder besides wazero's file.
const (
	hollowName = "module.wasm" // the code of the image with functions that only fail
	storedName = "memory"      // see PackMemory
)

// load loads the code from the folder. wazero still needs the module, and checks each
// of its functions, which takes time. It therefore gets a module with empty functions,
// and the folder contains the machine code of the real ones for it.
func (s *store) load(ctx context.Context) (*Module, error) {
	wasm, err := os.ReadFile(filepath.Join(s.folder(), hollowName))
	if err != nil {
		return nil, err
	}
	m, err := s.compile(ctx, wasm, s.folder())
	if err != nil {
		return nil, err
	}
	// If another version of wazero or another processor needs other code, wazero has now
	// compiled the empty functions.
	files, err := s.list()
	if err != nil || !maps.Equal(files, s.files) {
		return nil, errors.Join(err, errors.New("the stored code is for another machine"), m.Close(ctx))
	}
	return m, nil
}

// fill compiles code and stores it.
func (s *store) fill(ctx context.Context, wasm []byte) (*Module, error) {
	if err := s.storeMemory(); err != nil {
		return nil, err
	}
	full := filepath.Join(s.folder(), "full")
	m, err := s.compile(ctx, wasm, full)
	if err != nil {
		return nil, err
	}
	// After a failure, the next run stores the code.
	_ = s.keep(ctx, wasm, full)
	return m, nil
}

// storeMemory creates the folder with the memory of the image.
func (s *store) storeMemory() error {
	if err := os.MkdirAll(s.folder(), 0o700); err != nil {
		return err
	}
	return unpackTo(memoryName, filepath.Join(s.folder(), storedName))
}

// keep stores the machine code in full, and writes the sums.
func (s *store) keep(ctx context.Context, wasm []byte, full string) error {
	if err := place(ctx, wasm, full, s.folder()); err != nil {
		return err
	}
	return s.vouch()
}

// place moves machine code from one folder to the place in the other where wazero looks
// for the code of the module with empty functions, and writes this module.
func place(ctx context.Context, wasm []byte, full, folder string) error {
	empty, err := reduce(wasm, nil)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, hollowName), empty, 0o600); err != nil {
		return err
	}
	m, err := compileIn(ctx, empty, folder)
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
	to, err := filepath.Glob(filepath.Join(folder, "wazero-*", "*"))
	if err != nil || len(from) != 1 || len(to) != 1 {
		return cmp.Or(err, errors.New("it is not in the format in which wazero keeps code"))
	}
	if err := os.Rename(from[0], to[0]); err != nil {
		return err
	}
	return os.RemoveAll(full)
}

// compile compiles the module with a folder as wazero's cache, for the stored memory.
func (s *store) compile(ctx context.Context, wasm []byte, cache string) (*Module, error) {
	memory, err := openInitial(filepath.Join(s.folder(), storedName))
	if err != nil {
		return nil, err
	}
	m, err := compileIn(ctx, wasm, cache)
	if err != nil {
		return nil, errors.Join(err, memory.Close())
	}
	m.initial = memory
	return m, nil
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

// vouch writes the sums of the stored files, and removes unused code of other versions.
func (s *store) vouch() error {
	files, err := s.list()
	if err != nil {
		return err
	}
	s.files = files
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
