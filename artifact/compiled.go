package artifact

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/internal/digest"
	"bootstrap/internal/regular"
	"bootstrap/internal/removal"
)

// CompiledKey identifies a package compiled on a VM. Two packages with the same key are
// interchangeable for everybody who may read that key.
type CompiledKey struct {
	// Owner is the deployment, or the group of deployments, whose VMs compiled the
	// package: their jobs could have changed it. Empty: the VM had run no job.
	Owner             string
	Name, Fingerprint string
	// Dependencies lists the packages it is compiled with, including those of its
	// dependencies, as "name/fingerprint" in any order.
	Dependencies []string
	// Stemcell is "os/version" of the VM.
	Stemcell string
	// Sources are digests of the archives from which it was compiled and of the stemcell.
	// They belong to the key of a package without an owner, because any release can claim
	// a fingerprint, and any stemcell a version.
	Sources []string
}

// compiledFormat is part of an entry's name: a version of the program with
// another format compiles again. Entries of format 1 had no owner.
const compiledFormat = "2"

func (k CompiledKey) hash() string {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %q %q %q\n", compiledFormat, k.Owner, k.Name, k.Fingerprint, strings.ToLower(k.Stemcell))
	for _, d := range slices.Compact(slices.Sorted(slices.Values(k.Dependencies))) {
		fmt.Fprintf(h, "%q\n", d)
	}
	if k.Owner == "" {
		for _, d := range slices.Compact(slices.Sorted(slices.Values(k.Sources))) {
			fmt.Fprintf(h, "source %q\n", d)
		}
	}
	return hex.EncodeToString(h.Sum(nil))
}

// Compiled is a compiled package in the cache.
type Compiled struct {
	Path   string
	Digest string // multi-digest from the agent
	Size   int64
	// After lists the packages that the VM had compiled before. It is set for entries
	// without an owner: only a run that compiles all of these, too, can trust the
	// package.
	After []string
	// Owned says that the jobs of the key's owner could have changed the package.
	Owned bool
}

// compiledIndex describes a compiled package in the cache. The time of its file is
// that of the last use.
type compiledIndex struct {
	Name        string     `json:"name"`
	Fingerprint string     `json:"fingerprint"`
	Stemcell    string     `json:"stemcell"`
	Digest      string     `json:"digest"`
	Archive     cache.File `json:"archive"`
	Compiled    time.Time  `json:"compiled"`
	Owner       string     `json:"owner,omitempty"`
	After       []string   `json:"after,omitempty"`
}

func (s *Store) compiledIndexPath(hash string) string {
	return s.dir.Path("packages", hash+".json")
}

// Archives are named by their contents, so that an index never belongs to another one.
func (s *Store) compiledPath(sha256 string) string {
	return s.dir.Path("packages", sha256+".tgz")
}

// Compiled returns a compiled package from the cache. It removes a damaged one,
// and reports it as not found.
func (s *Store) Compiled(ctx context.Context, key CompiledKey) (Compiled, bool, error) {
	if err := s.use(ctx); err != nil {
		return Compiled{}, false, err
	}
	hash := key.hash()
	found, ok := s.loadCompiled(ctx, key, hash)
	if ok || ctx.Err() != nil {
		return found, ok, context.Cause(ctx)
	}
	if _, err := os.Lstat(s.compiledIndexPath(hash)); err != nil {
		return Compiled{}, false, nil
	}
	// The lock is exclusive, because another run may be about to write an intact one.
	unlock, err := s.dir.Lock(ctx, "package-"+hash)
	if err != nil {
		return Compiled{}, false, err
	}
	defer unlock()
	if found, ok = s.loadCompiled(ctx, key, hash); !ok && ctx.Err() == nil {
		s.dropCompiled(ctx, hash)
	}
	return found, ok, context.Cause(ctx)
}

// dropCompiled removes an entry, and its archive if the archive is damaged.
func (s *Store) dropCompiled(ctx context.Context, hash string) {
	var ix compiledIndex
	file := s.compiledIndexPath(hash)
	if cache.ReadJSON(file, &ix) == nil && plainName(ix.Archive.SHA256) {
		path := s.compiledPath(ix.Archive.SHA256)
		if !cache.IntactAt(ctx, path, &ix.Archive) && ctx.Err() == nil {
			removal.Tree(path)
		}
	}
	removal.Tree(file)
}

func (s *Store) loadCompiled(ctx context.Context, key CompiledKey, hash string) (Compiled, bool) {
	var ix compiledIndex
	file := s.compiledIndexPath(hash)
	if cache.ReadJSON(file, &ix) != nil || ix.Name != key.Name || ix.Fingerprint != key.Fingerprint || ix.Owner != key.Owner {
		return Compiled{}, false
	}
	path := s.compiledPath(ix.Archive.SHA256)
	before := ix.Archive.Identity
	if !cache.IntactAt(ctx, path, &ix.Archive) {
		return Compiled{}, false
	}
	if ix.Archive.Identity != before {
		// After a failure, the next run only takes longer.
		_ = cache.WriteJSON(file, &ix)
	}
	cache.Touch(file)
	return Compiled{Path: path, Digest: ix.Digest, Size: ix.Archive.Identity.Size, After: ix.After, Owned: key.Owner != ""}, true
}

// Compiling keeps other runs from compiling the package of that key until done is
// called. It waits, at most for limit, for another run that compiles it; after that the
// caller should look in the cache again.
func (s *Store) Compiling(ctx context.Context, key CompiledKey, limit time.Duration) (done func(), err error) {
	waiting, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done, err = s.dir.Lock(waiting, "compile-"+key.hash())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil: // it is better that two runs compile the same package than that none does
		done = func() {}
	}
	return done, nil
}

// NewCompiled is a package that a VM has compiled.
type NewCompiled struct {
	Keys   []CompiledKey           // under which it is found; they differ in their owner
	After  []string                // set for a key without an owner; see Compiled
	Digest string                  // multi-digest that the agent returned
	Fetch  func(w io.Writer) error // writes the archive
	// Place is a text that occurs only in the files of this VM: its CID. A package that
	// contains this text is not kept, because it would not work on other VMs.
	Place string
}

// KeepCompiled adds a compiled package to the cache, atomically. kept is false
// if the package works only on its VM.
func (s *Store) KeepCompiled(ctx context.Context, c NewCompiled) (kept bool, err error) {
	kept, err = s.keepCompiled(ctx, c)
	if err != nil {
		return false, fmt.Errorf("cannot keep the compiled package %s/%s: %w", c.Keys[0].Name, c.Keys[0].Fingerprint, archive.Cause(err))
	}
	return kept, nil
}

func (s *Store) keepCompiled(ctx context.Context, c NewCompiled) (bool, error) {
	if err := s.use(ctx); err != nil {
		return false, err
	}
	dir, done, err := s.dir.Work(ctx)
	if err != nil {
		return false, err
	}
	defer done()
	want := digest.Digest{Algorithm: "sha1"}
	if c.Digest != "" {
		sum, err := digest.Parse(c.Digest)
		if err != nil {
			return false, err
		}
		want = sum.Strongest()
	}
	file := filepath.Join(dir, "compiled.tgz")
	sums, err := fetchTo(file, want.Algorithm, c.Fetch)
	if err != nil {
		return false, err
	}
	if c.Digest == "" {
		c.Digest = sums["sha1"]
	} else if err := want.Check(sums[want.Algorithm]); err != nil {
		return false, err
	}
	if bound, err := mentions(ctx, file, c.Place); err != nil || bound {
		return false, err
	}
	placed, err := cache.PlaceAt(file, s.compiledPath(sums["sha256"]), sums["sha256"])
	if err != nil {
		return false, err
	}
	for _, key := range c.Keys {
		if err := s.indexCompiled(ctx, c, key, placed); err != nil {
			return false, err
		}
	}
	return true, nil
}

// ShareCompiled adds keys of owners to a compiled package in the cache.
func (s *Store) ShareCompiled(ctx context.Context, c Compiled, keys ...CompiledKey) error {
	placed := cache.File{SHA256: strings.TrimSuffix(filepath.Base(c.Path), ".tgz"), Identity: cache.IdentifyPath(c.Path)}
	for _, key := range keys {
		if err := s.indexCompiled(ctx, NewCompiled{Digest: c.Digest}, key, placed); err != nil {
			return fmt.Errorf("cannot keep the compiled package %s/%s: %w", key.Name, key.Fingerprint, archive.Cause(err))
		}
	}
	return nil
}

// indexCompiled adds an archive in the cache to the index, under a key.
func (s *Store) indexCompiled(ctx context.Context, c NewCompiled, key CompiledKey, placed cache.File) error {
	hash := key.hash()
	unlock, err := s.dir.Lock(ctx, "package-"+hash)
	if err != nil {
		return err
	}
	defer unlock()
	ix := compiledIndex{
		Name: key.Name, Fingerprint: key.Fingerprint, Stemcell: key.Stemcell, Owner: key.Owner,
		Digest: c.Digest, Archive: placed, Compiled: time.Now().UTC().Truncate(time.Second),
	}
	if key.Owner == "" {
		ix.After = c.After
	}
	return cache.WriteJSON(s.compiledIndexPath(hash), ix)
}

// fetchTo writes what fetch writes to a new file, and returns its digests:
// SHA-256 and that of algorithm.
func fetchTo(path, algorithm string, fetch func(io.Writer) error) (map[string]string, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	sums := digest.NewSums("sha256", algorithm)
	if err = fetch(io.MultiWriter(f, sums)); err == nil {
		err = f.Sync() // a verified file is not read again after a crash
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return sums.Hex(), err
}

// shortestPlace is the length of the shortest text that cannot occur by chance.
const shortestPlace = 6

// mentions searches the unpacked archive for a text: in names, links and
// contents.
func mentions(ctx context.Context, path, text string) (bool, error) {
	f, _, err := regular.Open(path)
	if err != nil {
		return false, err
	}
	defer f.Close()
	// The archive is read even if there is no text to search for: if it cannot be
	// unpacked, it is not a package.
	u, err := archive.Unpack(&archive.Input{Ctx: ctx, R: f}, archive.Limits{})
	if err != nil {
		return false, err
	}
	defer u.Close()
	buf := make([]byte, archive.BufferSize)
	for have := 0; ; {
		n, err := u.Read(buf[have:])
		have += n
		if len(text) >= shortestPlace && bytes.Contains(buf[:have], []byte(text)) {
			return true, nil
		}
		if err == io.EOF {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		// The text may begin in one read and end in the next one.
		rest := min(have, max(len(text)-1, 0))
		copy(buf, buf[have-rest:have])
		have = rest
	}
}
