package artifact

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	"bootstrap/artifact/archive"
	"bootstrap/internal/digest"
	"bootstrap/internal/wait"
)

// retry says how often a download is tried.
type retry struct {
	tries          int           // attempts in a row without progress
	stalls         int           // of these, attempts that end because the server stalls
	pause, longest time.Duration // between attempts: the first and the longest
	pace           pace
}

// pace is the lowest speed that is accepted from a server.
type pace struct {
	silence time.Duration // without a single byte
	window  time.Duration // in which at least floor bytes must come
	floor   int64
}

// progressMade is how many bytes an attempt must transfer to reset the count.
const progressMade = 1 << 20

// maxDownload limits files whose size is not known beforehand. The largest
// stemcells have about 20 GiB.
const maxDownload = 64 << 30

// remoteFile is a file on a server.
type remoteFile struct {
	url   *url.URL
	limit int64               // bytes; a larger file is refused
	sign  func(*http.Request) // adds credentials; may be nil
}

// download returns the verified file of a remote source. The file is named by its
// digest, so that several URLs of one file share it.
func (s *Store) download(ctx context.Context, src Source, p archive.Progress) (path string, cached bool, err error) {
	u, err := url.Parse(src.URL)
	if err != nil || u.Host == "" {
		return "", false, fmt.Errorf("not a valid URL: %s", publicURL(src.URL))
	}
	if src.Digest == "" {
		return "", false, fmt.Errorf("its url %s is remote, so it needs a digest (sha1): without one the download cannot be checked", publicURL(src.URL))
	}
	want, err := wanted(src.Digest)
	if err != nil {
		return "", false, err
	}
	name := want.Algorithm + "-" + strings.ToLower(want.Hex)
	path = filepath.Join(s.downloads(), name)
	if s.known(path, want) {
		touch(s.recordPath(path))
		return path, true, nil
	}
	if err := os.MkdirAll(s.downloads(), 0o700); err != nil {
		return "", false, err
	}
	unlock, err := s.lock(ctx, name)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if ok, err := s.verified(ctx, path, want, p); ok || err != nil {
		return path, ok, err
	}
	// create-env names its downloads by the texts of URL and digest.
	sum := sha1.Sum([]byte(src.URL))
	if theirs := filepath.Join(s.downloads(), hex.EncodeToString(sum[:])+"-"+src.Digest); plainName(filepath.Base(theirs)) {
		if ok, err := s.verified(ctx, theirs, want, p); ok || err != nil {
			return theirs, ok, err
		}
	}
	if err := s.transfer(ctx, remoteFile{url: u, limit: s.maxDownload}, path, want, s.retry, p); err != nil {
		return "", false, fmt.Errorf("cannot download %s: %w", publicURL(src.URL), err)
	}
	return path, false, nil
}

// lock keeps other goroutines and processes from loading the same file.
func (s *Store) lock(ctx context.Context, name string) (unlock func(), err error) {
	if err := os.MkdirAll(s.cache("locks"), 0o700); err != nil {
		return nil, err
	}
	l := flock.New(s.cache("locks", name+".lock"), flock.SetPermissions(0o600))
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", l.Path(), err)
	}
	return func() { l.Unlock() }, nil
}

// known reports whether a file was verified before and has not changed since.
func (s *Store) known(path string, want digest.Digest) bool {
	id := identifyPath(path)
	rec := s.recall(path, id)
	return id.Regular && rec.satisfies(want) == nil
}

// verified reports whether path is the wanted file. It reads the file unless that
// is known.
func (s *Store) verified(ctx context.Context, path string, want digest.Digest, p archive.Progress) (bool, error) {
	digests, err := s.check(ctx, path, want, p)
	return digests != nil, err
}

// check returns the digests of path, or nil if it is not the wanted file. It reads
// the file unless they are known.
func (s *Store) check(ctx context.Context, path string, want digest.Digest, p archive.Progress) (map[string]string, error) {
	if id := identifyPath(path); id.Regular {
		if rec := s.recall(path, id); rec.satisfies(want) == nil {
			touch(s.recordPath(path))
			return rec.Digests, nil
		}
	}
	f, rec, err := s.open(path)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	if !rec.Identity.Regular {
		return nil, nil
	}
	sum := digest.NewSums("sha256", want.Algorithm)
	if err := archive.Drain(&archive.Input{Ctx: ctx, R: f, Total: rec.Identity.Size, Progress: p, Each: sum}); err != nil {
		return nil, context.Cause(ctx)
	}
	digests := sum.Hex()
	if want.Check(digests[want.Algorithm]) != nil {
		return nil, nil
	}
	return digests, s.learn(f, rec, func(rec *record) { rec.know(digests) })
}

// transfer downloads a file to path, and resumes what an earlier attempt or run left.
func (s *Store) transfer(ctx context.Context, from remoteFile, path string, want digest.Digest, try retry, p archive.Progress) error {
	client, done, err := s.net.client()
	if err != nil {
		return err
	}
	defer done()
	part, err := openPart(path+".part", want)
	if err != nil {
		return err
	}
	defer part.close()
	pauses := wait.Jitter(try.pause, try.longest)
	mismatches := 0
	for failed, stalled := 0, 0; ; {
		before := part.size
		err := part.get(ctx, client, from, try.pace, p)
		if err == nil {
			if err = part.verify(); err == nil {
				return s.keep(part, path)
			}
			if mismatches++; mismatches == 2 {
				return errors.Join(err, part.reset())
			}
			if reset := part.reset(); reset != nil {
				return reset
			}
			continue
		}
		if ended := context.Cause(ctx); ended != nil {
			return ended
		}
		var permanent *permanentError
		if errors.As(err, &permanent) {
			return permanent.error
		}
		if part.size-before >= progressMade {
			failed, stalled = 0, 0
			pauses.Reset()
		}
		var stall *stallError
		if errors.As(err, &stall) {
			if stalled++; stalled >= try.stalls {
				return fmt.Errorf("%w (tried %d times); %s is kept and the next run goes on from there where the server allows it: look at the network and the proxies, or fetch the file by other means and name it by a file:// URL",
					err, stalled, part.come())
			}
		}
		if failed++; failed >= try.tries {
			return fmt.Errorf("%w (tried %d times)", err, failed)
		}
		if err := wait.For(ctx, retryAfter(err, pauses.Next(), try.longest)); err != nil {
			return err
		}
	}
}

// permanentError is an error that another attempt does not end.
type permanentError struct{ error }

// keep moves a verified download to its place and remembers it.
func (s *Store) keep(part *part, path string) error {
	digests := part.sum.Hex()
	// Synced, because a file that is recorded as verified is not read again.
	if err := part.file.Sync(); err != nil {
		return err
	}
	if err := part.close(); err != nil {
		return err
	}
	if err := os.Rename(part.path, path); err != nil {
		return err
	}
	os.Remove(part.metaPath())
	rec := record{Path: path, Identity: identifyPath(path)}
	rec.know(digests)
	return s.remember(rec)
}

// publicURL returns a URL without what must not be shown: user, password, and the
// query, which may be a signature.
func publicURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		scheme, _, _ := strings.Cut(raw, ":")
		return scheme + ":…"
	}
	u.User, u.Fragment, u.RawFragment = nil, "", ""
	if u.RawQuery != "" {
		u.RawQuery = ""
		return u.String() + "?…"
	}
	return u.String()
}

// fileSize returns the size of a file, 0 if it does not exist.
func fileSize(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	if !info.Mode().IsRegular() {
		return 0, &fs.PathError{Op: "open", Path: f.Name(), Err: errors.New("it is not a regular file")}
	}
	return info.Size(), nil
}
