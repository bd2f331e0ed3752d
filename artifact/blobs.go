package artifact

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/blobstore"
	"bootstrap/artifact/cache"
	"bootstrap/artifact/download"
	"bootstrap/artifact/metadata"
	"bootstrap/internal/digest"
	"bootstrap/internal/failure"
	"bootstrap/internal/guard"
)

// blob is a file of a release that is not in git: one of config/blobs.yml,
// or the archive of a vendored package.
type blob struct {
	name   string // of config/blobs.yml: its path below blobs/; else packages/NAME/FINGERPRINT
	id     string // name in the blobstore; empty: the blob was never uploaded
	digest string // multi-digest as written in the list
	want   digest.Digest
	size   int64 // bytes; 0: not known
	// vendored is true for the archive of a vendored package.
	vendored bool
	// other says how the file in the folder differs, if it is not this blob.
	other string
}

// maxBlob limits a blob of unknown size: the archive of a vendored package.
const maxBlob = 16 << 30

// parseBlobs reads config/blobs.yml. It leaves out unusable entries, which some
// public releases have; bad describes one of them.
func parseBlobs(text []byte) (blobs map[string]blob, bad, err error) {
	var list map[string]struct {
		Size     any    `yaml:"size"`
		ObjectID string `yaml:"object_id"`
		SHA      string `yaml:"sha"` // SHA is a string, because YAML reads a digest such as 12e4… as a number
	}
	bad = metadata.DecodeRuby(text, &list)
	if bad != nil && len(list) == 0 {
		return nil, nil, bad
	}
	blobs = map[string]blob{}
	for _, name := range sortedKeys(list) {
		entry := list[name]
		bl, err := newBlob(name, entry.Size, entry.ObjectID, entry.SHA)
		if err != nil {
			bad = fmt.Errorf("%q in it: %w", name, err)
			continue
		}
		if same, twice := blobs[bl.name]; twice && same.want != bl.want {
			bad = fmt.Errorf("%q in it: another entry has the same path and another digest", name)
			continue
		}
		blobs[bl.name] = bl
	}
	return blobs, bad, nil
}

func newBlob(name string, size any, id, multi string) (blob, error) {
	bl := blob{name: name, id: id, digest: multi}
	// Other tools once wrote names such as a//b. bosh stores them at the cleaned path.
	if !strings.HasPrefix(name, "/") && !slices.Contains(strings.Split(name, "/"), "..") {
		bl.name = path.Clean(name)
	}
	if !blobstore.ValidName(bl.name) {
		return bl, errors.New("it is not a path below blobs/")
	}
	if id != "" && !blobstore.ValidName(id) {
		return bl, fmt.Errorf("%q is not a valid object_id", id)
	}
	parsed, err := digest.Parse(multi)
	if err != nil {
		return bl, err
	}
	bl.want = parsed.Strongest()
	if size != nil {
		n, ok := size.(int)
		if !ok || n < 0 {
			return bl, fmt.Errorf("its size %v is not a number of bytes", size)
		}
		bl.size = int64(n)
	}
	return bl, nil
}

func (s *Store) blobPath(want digest.Digest) string {
	return s.dir.Path("blobs", want.Algorithm+"-"+strings.ToLower(want.Hex))
}

// findBlob looks for a blob on this machine and returns its file and SHA-256.
func (s *Store) findBlob(ctx context.Context, store *blobstore.Store, bl blob) (file, sha256 string, ok bool) {
	if bl.want.Algorithm == "" {
		return "", "", false
	}
	places := []string{s.blobPath(bl.want)}
	if plainName(bl.digest) {
		// BOSH's tools keep the archives of vendored packages there.
		places = append(places, s.dir.Path(bl.digest))
	}
	if store != nil && store.Folder != "" && bl.id != "" {
		places = append(places, filepath.Join(store.Folder, filepath.FromSlash(bl.id)))
	}
	for _, file := range places {
		digests, err := s.dir.Check(ctx, file, bl.want, nil)
		if err == nil && digests != nil {
			return file, digests["sha256"], true
		}
	}
	return "", "", false
}

// LackingError lists the needed files of a release that are not in its folder
// and cannot be fetched.
type LackingError struct {
	Dir   string // folder of the release
	Files []LackingFile
}

// LackingFile is a file that is not in git.
type LackingFile struct {
	Path     string   // path in the folder of the release
	Packages []string // packages that need the file
	Why      string
	// Vendored is true for the archive of a vendored package, which has no place in the
	// folder.
	Vendored bool
	Differs  string // how the file in the folder differs from the listed one; empty: there is none
}

// lackingShown is how many files an error names.
const lackingShown = 20

func (e *LackingError) Error() string {
	var b strings.Builder
	blobs, vendored, what := false, false, "are not in its folder"
	for _, f := range e.Files {
		if f.Differs != "" {
			what += " or are not those of config/blobs.yml,"
			break
		}
	}
	fmt.Fprintf(&b, "%d files of the release %s and cannot be fetched:\n", len(e.Files), what)
	for i, f := range e.Files {
		blobs, vendored = blobs || !f.Vendored, vendored || f.Vendored
		if i < lackingShown {
			why := f.Why
			if f.Differs != "" {
				why = f.Differs + "; the listed file: " + why
			}
			fmt.Fprintf(&b, "  %s (package %s): %s\n", f.Path, strings.Join(f.Packages, ", "), why)
		}
	}
	if more := len(e.Files) - lackingShown; more > 0 {
		fmt.Fprintf(&b, "  and %d more\n", more)
	}
	fmt.Fprintf(&b, "What to do in %s:", e.Dir)
	if blobs {
		b.WriteString(" put the files at the paths named; or run bosh sync-blobs, with credentials in config/private.yml if the blobstore needs them; or replace a file with bosh add-blob FILE PATH.")
	}
	if vendored {
		b.WriteString(" For vendored packages, run bosh create-release --force; or write a package of the same name, with spec and packaging beside its spec.lock, which replaces it.")
	}
	b.WriteString(" Or name a tarball of the release in the url.")
	return b.String()
}

func (e *LackingError) Name() string { return "release-blobs" }

// Lack is the list of files that must be fetched for a release folder.
type Lack struct {
	Count int
	Size  int64 // bytes of the files whose size is known

	dir   string
	store *blobstore.Store
	files []lacking
}

// lacking is a blob that is missing on this machine, with the packages that need it.
type lacking struct {
	blob
	packages []string
}

// notIn says why a file cannot be requested from a blobstore.
func notIn(store *blobstore.Store) func(int) string {
	return func(int) string { return "it is not in " + store.Name }
}

func lackingError(dir string, files []lacking, why func(i int) string) error {
	e := &LackingError{Dir: dir}
	for i, f := range files {
		if text := why(i); text != "" {
			place := f.name
			if !f.vendored {
				place = "blobs/" + f.name
			}
			e.Files = append(e.Files, LackingFile{place, f.packages, text, f.vendored, f.other})
		}
	}
	if len(e.Files) == 0 {
		return nil
	}
	return e
}

// Lacking returns the files that must be fetched for the needed packages of a release
// folder; nil: none. Release reports defects of the folder.
func (s *Store) Lacking(ctx context.Context, f File) (*Lack, error) {
	if !f.Folder || f.Kind != KindRelease || f.Needs.Only && (f.Needs.Try || len(f.Needs.Jobs) == 0) {
		return nil, nil
	}
	if err := s.use(ctx); err != nil {
		return nil, fmt.Errorf("cannot read %s: %w", f.Source, err)
	}
	if known, err := s.knownFolder(ctx, f); err == nil && known.index != nil {
		return nil, nil
	}
	b, err := s.readReleaseFolder(ctx, f, true)
	if err != nil {
		return nil, context.Cause(ctx)
	}
	needed := b.skeleton().needed(f.Needs)
	if b.problems(needed) != nil {
		return nil, nil
	}
	lack := &Lack{dir: place(f), store: b.store, files: b.lacking(needed)}
	for _, file := range lack.files {
		// A blob that cannot be requested is reported before the others are fetched.
		if file.id == "" || b.storeErr != nil {
			return nil, nil
		}
		lack.Count++
		lack.Size += file.size
	}
	if lack.Count == 0 {
		return nil, nil
	}
	return lack, nil
}

// FetchBlobs fetches the lacking files into the cache, several at a time, and
// verifies each by its digest. One *LackingError lists all that cannot be fetched.
func (s *Store) FetchBlobs(ctx context.Context, lack *Lack, p archive.Progress) error {
	if lack.store.Ask == nil {
		return lackingError(lack.dir, lack.files, notIn(lack.store))
	}
	var group errgroup.Group
	group.SetLimit(2 * cap(s.blobSlots))
	why := make([]string, len(lack.files))
	sum := newSummed(lack.files, p)
	var unreachable atomic.Bool
	for i, f := range lack.files {
		group.Go(guard.Func(func() error {
			// The limit is for all releases together, so that a deploy does not
			// flood the server.
			select {
			case s.blobSlots <- struct{}{}:
				defer func() { <-s.blobSlots }()
			case <-ctx.Done():
				return nil
			}
			client := s.client
			if unreachable.Load() {
				client = client.Once()
			}
			err := s.fetchBlob(ctx, client, lack.store, f.blob, sum.of(i))
			var refused *download.RefusedError
			switch {
			case err == nil:
			case errors.As(err, &refused):
				why[i] = lack.store.Refusal(refused)
			default:
				unreachable.Store(true)
				why[i] = err.Error()
			}
			return nil
		}))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return lackingError(lack.dir, lack.files, func(i int) string { return why[i] })
}

// fetchBlob downloads one blob into the cache.
func (s *Store) fetchBlob(ctx context.Context, client download.Client, store *blobstore.Store, bl blob, p archive.Progress) error {
	path := s.blobPath(bl.want)
	unlock, err := s.dir.Lock(ctx, filepath.Base(path))
	if err != nil {
		return err
	}
	defer unlock()
	if ok, err := s.dir.Verified(ctx, path, bl.want, p); ok || err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	region := ""
	for {
		from := store.Ask(bl.id, region)
		if from.Limit = maxBlob; bl.size > 0 {
			from.Limit = bl.size
		}
		err := client.Fetch(ctx, from, path, bl.want, p)
		var refused *download.RefusedError
		if errors.As(err, &refused) && refused.Region != "" && region == "" && refused.Code != 404 {
			region = refused.Region // the bucket is in another region
			continue
		}
		if err != nil {
			return failure.Named("download-failed", fmt.Errorf("cannot download %s: %w", download.PublicURL(from.URL.String()), err))
		}
		return s.nameBlob(path, bl.name)
	}
}

// nameBlob stores the name by which people know the file.
func (s *Store) nameBlob(path, name string) error {
	rec := s.dir.Recall(path, cache.IdentifyPath(path))
	rec.Blob = name
	return s.dir.Remember(rec)
}

// summed adds up the progress of several files.
type summed struct {
	p     archive.Progress
	total int64 // 0 unless all sizes are known
	mu    sync.Mutex
	done  []int64
}

func newSummed(files []lacking, p archive.Progress) *summed {
	s := &summed{p: p, done: make([]int64, len(files))}
	for _, f := range files {
		s.total += f.size
		if f.size == 0 {
			s.total = 0
			break
		}
	}
	return s
}

func (s *summed) of(i int) archive.Progress {
	if s.p == nil {
		return nil
	}
	return func(done, _ int64) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.done[i] = done
		sum := int64(0)
		for _, n := range s.done {
			sum += n
		}
		s.p(sum, s.total)
	}
}
