// Package download downloads files from servers: verified, through proxies, and
// resumed after an interruption.
package download

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/internal/digest"
	"bootstrap/internal/wait"
)

// Retry limits the attempts of a download.
type Retry struct {
	Tries          int           // attempts in a row without progress
	Stalls         int           // attempts, among these, that ended because the server stalled
	Pause, Longest time.Duration // between attempts: the first and the longest
	Pace           Pace
}

// Pace is the lowest speed that is accepted from a server.
type Pace struct {
	Silence time.Duration // longest time without a single byte
	Window  time.Duration // time in which at least Floor bytes must arrive
	Floor   int64
}

// progressMade is how many bytes an attempt must transfer to reset the count.
const progressMade = 1 << 20

// File is a file on a server.
type File struct {
	URL   *url.URL
	Limit int64               // bytes; a larger file is refused
	Sign  func(*http.Request) // adds credentials; may be nil
}

// Client downloads files, and records in the cache that it has verified them.
type Client struct {
	dir     cache.Dir
	Network Network
	Retry   Retry
}

// New returns a client that waits for slow servers, and tries again when
// they fail.
func New(dir cache.Dir, net Network) Client {
	return Client{dir: dir, Network: net, Retry: Retry{
		Tries: 5, Stalls: 3, Pause: 500 * time.Millisecond, Longest: 20 * time.Second,
		Pace: Pace{Silence: 30 * time.Second, Window: time.Minute, Floor: 64 << 10},
	}}
}

// Once returns a client that makes a single attempt.
func (c Client) Once() Client {
	c.Retry.Tries, c.Retry.Stalls = 1, 1
	return c
}

// Fetch downloads a file to path, and continues an unfinished download of an earlier
// attempt or run. If the file has another digest, the error is a *digest.Error.
func (c Client) Fetch(ctx context.Context, from File, path string, want digest.Digest, p archive.Progress) error {
	try := c.Retry
	client, done, err := c.Network.client()
	if err != nil {
		return err
	}
	defer done()
	part, err := openPart(path+".part", want)
	if err != nil {
		return err
	}
	defer part.close()
	pauses := wait.Jitter(try.Pause, try.Longest)
	mismatches := 0
	for failed, stalled := 0, 0; ; {
		before := part.size
		err := part.get(ctx, client, from, try.Pace, p)
		if err == nil {
			if err = part.verify(); err == nil {
				return c.keep(part, path)
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
			if stalled++; stalled >= try.Stalls {
				return fmt.Errorf("%w (tried %d times); %s is kept, and the next run continues there if the server supports that: look at the network and the proxies, or fetch the file by other means and name it by a file:// URL",
					err, stalled, part.come())
			}
		}
		if failed++; failed >= try.Tries {
			return fmt.Errorf("%w (tried %d times)", err, failed)
		}
		if err := wait.For(ctx, retryAfter(err, pauses.Next(), try.Longest)); err != nil {
			return err
		}
	}
}

// permanentError is an error that another attempt cannot avoid.
type permanentError struct{ error }

// keep moves a verified download to its place and records it.
func (c Client) keep(part *part, path string) error {
	digests := part.sum.Hex()
	// The file is synced, because a file that is recorded as verified is not read again.
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
	rec := cache.Record{Path: path, Identity: cache.IdentifyPath(path)}
	rec.Know(digests)
	return c.dir.Remember(rec)
}

// PublicURL returns a URL without its secrets: user, password, and the query, which may
// be a signature.
func PublicURL(raw string) string {
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
