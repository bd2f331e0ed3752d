package agent

import (
	"context"
	"crypto/sha1" //nolint:gosec // the protocol's paths and oldest digests
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"bootstrap/internal/digest"
	"bootstrap/internal/guard"
	"bootstrap/internal/regular"
	"bootstrap/internal/wait"
)

const (
	blobTries = 3
	blobPause = 250 * time.Millisecond
)

// DigestError says that the content of a blob does not match its digest.
type DigestError struct{ ID, Want, Got string }

func (e *DigestError) Error() string {
	return fmt.Sprintf("cannot use the blob %s: its digest is %s, want %s", e.ID, e.Got, e.Want)
}

// PutBlob uploads the file as the blob id, with at most three tries. progress, unless
// nil, is called with the number of bytes sent so far.
func (c *Client) PutBlob(ctx context.Context, id, path string, progress func(done, total int64)) error {
	if err := checkID(id); err != nil {
		return err
	}
	c.trace("put_blob", "before")
	err := c.tryBlob(ctx, func() (bool, error) { return c.putOnce(ctx, id, path, progress) })
	c.trace("put_blob", "after")
	return blobError("upload", id, err)
}

// Size limits for blobs that are downloaded from a VM, in bytes.
const (
	LogsLimit     = 8 << 30 // an archive of logs
	CompiledLimit = 2 << 30 // a compiled package
)

// TooLargeError says that a blob on the VM is larger than the limit for its kind.
type TooLargeError struct {
	ID    string
	Limit int64 // bytes
}

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("cannot download the blob %s: it is larger than the limit of %d MiB", e.ID, e.Limit>>20)
}

// GetBlobUpTo downloads the blob id and checks it against multi, a multi-digest as in
// Blob.SHA1, unless multi is empty. If the blob is larger than limit bytes, the error is
// a *TooLargeError. An interrupted download is resumed, at most three times; a download
// without progress ends. After an error w may contain a part of the blob.
func (c *Client) GetBlobUpTo(ctx context.Context, limit int64, id string, w io.Writer, multi string, progress func(done, total int64)) error {
	if err := checkID(id); err != nil {
		return err
	}
	var want digest.Digest // empty: the content is not checked
	if multi = strings.TrimSpace(multi); multi != "" {
		sum, err := digest.Parse(multi)
		if err != nil {
			return blobError("download", id, err)
		}
		want = sum.Strongest()
	}
	got := digest.NewSums(want.Algorithm)
	var done int64
	w = io.MultiWriter(got, w)
	c.trace("get_blob", "before")
	err := c.tryBlob(ctx, func() (bool, error) { return c.getOnce(ctx, limit, id, w, &done, progress) })
	c.trace("get_blob", "after")
	if err != nil {
		return blobError("download", id, err)
	}
	var other *digest.Error
	if want != (digest.Digest{}) && errors.As(want.Check(got.Hex()[want.Algorithm]), &other) {
		return &DigestError{ID: id, Want: other.Want, Got: other.Got}
	}
	return nil
}

// HasBlob reports whether the agent has the blob id, without downloading it.
func (c *Client) HasBlob(ctx context.Context, id string) (has bool, err error) {
	if err := checkID(id); err != nil {
		return false, err
	}
	const verb = "look for"
	err = c.tryBlob(ctx, func() (again bool, err error) {
		ctx, _, _, end := c.paced(ctx)
		defer end()
		resp, met, err := c.blobExchange(ctx, http.MethodGet, id, nil, 0) // agents do not support HEAD
		if err != nil {
			return c.blobBroke(ctx, verb, id, err, met)
		}
		defer resp.Body.Close()
		has = resp.StatusCode == http.StatusOK
		if has || resp.StatusCode == http.StatusNotFound {
			return false, nil
		}
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return c.blobStatus(ctx, verb, id, resp.StatusCode, text, met)
	})
	return has, blobError(verb, id, err)
}

// checkID refuses ids that name a folder or another blob: agents use the last
// element of the path.
func checkID(id string) error {
	if id == "" || id == "." || id == ".." || strings.ContainsAny(id, "/\\\x00") {
		return fmt.Errorf("cannot use %q as a blob id: it must be one path element", id)
	}
	return nil
}

// tryBlob repeats a transfer that the network interrupted. Other errors are final.
func (c *Client) tryBlob(ctx context.Context, transfer func() (again bool, err error)) error {
	for try := 1; ; try++ {
		again, err := transfer()
		if err == nil || !again || try == blobTries || ctx.Err() != nil {
			return err
		}
		if stop := wait.For(ctx, blobPause*time.Duration(try)); stop != nil {
			return stop
		}
	}
}

func (c *Client) putOnce(ctx context.Context, id, path string, progress func(done, total int64)) (again bool, err error) {
	const verb = "upload"
	file, info, err := regular.Open(path)
	if err != nil {
		return false, err
	}
	defer file.Close()
	ctx, alive, patient, end := c.paced(ctx)
	defer end()
	total := info.Size()
	var (
		mu          sync.Mutex // needed because the transport continues to read after an early answer
		ended       bool
		done        int64
		stopWaiting = func() {}
	)
	defer func() { mu.Lock(); ended = true; stopWaiting(); mu.Unlock() }()
	count := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if n == 0 || ended {
			return
		}
		done += int64(n)
		alive(n)
		if done == total {
			patient()
			stopWaiting = c.reportWaiting(ctx, "put_blob")
		}
		if progress != nil {
			progress(done, total)
		}
	}
	// The transport reads in a goroutine of its own.
	body := &counted{r: io.LimitReader(file, total), moved: func(n int) { guard.Part(ctx, func() { count(n) })() }}
	resp, met, err := c.blobExchange(ctx, http.MethodPut, id, body, total)
	if err != nil {
		return c.blobBroke(ctx, verb, id, err, met)
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if resp.StatusCode == http.StatusCreated || resp.StatusCode == http.StatusNoContent {
		return false, nil
	}
	return c.blobStatus(ctx, verb, id, resp.StatusCode, text, met)
}

func (c *Client) getOnce(ctx context.Context, limit int64, id string, w io.Writer, done *int64, progress func(done, total int64)) (again bool, err error) {
	const verb = "download"
	ctx, alive, _, end := c.paced(ctx)
	defer end()
	resp, met, err := c.blobExchange(ctx, http.MethodGet, id, nil, 0)
	if err != nil {
		return c.blobBroke(ctx, verb, id, err, met)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusNotFound {
		return false, fmt.Errorf("the agent at %s does not have it", c.Address())
	}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return c.blobStatus(ctx, verb, id, resp.StatusCode, text, met)
	}
	total := max(resp.ContentLength, 0)
	if total > limit {
		return false, &TooLargeError{ID: id, Limit: limit}
	}
	body := &counted{r: resp.Body, moved: alive}
	// The agent does not support ranges: bytes that an earlier try received are
	// read again and discarded.
	if _, err := io.CopyN(io.Discard, body, *done); err != nil {
		return c.blobBroke(ctx, verb, id, err, met)
	}
	buffer := make([]byte, 64<<10)
	for {
		n, err := body.Read(buffer)
		if *done+int64(n) > limit {
			return false, &TooLargeError{ID: id, Limit: limit}
		}
		if n > 0 {
			if _, werr := w.Write(buffer[:n]); werr != nil {
				return false, werr
			}
			*done += int64(n)
			if progress != nil {
				progress(*done, total)
			}
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return c.blobBroke(ctx, verb, id, err, met)
		}
	}
}

func (c *Client) blobExchange(ctx context.Context, method, id string, body io.Reader, size int64) (*http.Response, *stage, error) {
	met := new(stage)
	folder := sha1.Sum([]byte(id)) //nolint:gosec // the path of the protocol
	address := *c.base
	address.Path = fmt.Sprintf("/blobs/%02x/%s", folder[0], id)
	if size == 0 {
		// An empty reader would be sent in chunks.
		body = http.NoBody
	}
	req, err := http.NewRequestWithContext(met.trace(ctx), method, address.String(), body)
	if err != nil {
		return nil, met, err
	}
	req.ContentLength = size
	c.authorize(req)
	resp, err := c.http.Do(req)
	return resp, met, err
}

func (c *Client) blobStatus(ctx context.Context, verb, id string, status int, text []byte, met *stage) (again bool, err error) {
	_, err = c.blobBroke(ctx, verb, id, &statusError{status: status, text: excerpt(c.clean(string(text)), 200)}, met)
	return status >= 500, err
}

// blobBroke returns the error of a transfer, and whether another try may succeed.
func (c *Client) blobBroke(ctx context.Context, verb, id string, err error, met *stage) (again bool, _ error) {
	cause := context.Cause(ctx)
	stuck := errors.Is(cause, errSilent) || errors.Is(cause, errSlow)
	if stuck {
		err = cause
	} else if cause != nil {
		return false, cause
	}
	probe := c.classify(err, met)
	// A transfer that made no progress within its whole time limit would make none in
	// another attempt either.
	return !probe.hopeless() && !stuck, &UnreachableError{Address: c.Address(), Method: verb, Last: probe, doing: verb + " the blob " + id}
}

// blobError says in the error what could not be done, unless the error already says so.
func blobError(verb, id string, err error) error {
	var silent *UnreachableError
	var large *TooLargeError
	if err == nil || errors.As(err, &silent) || errors.As(err, &large) {
		return err
	}
	return fmt.Errorf("cannot %s the blob %s: %w", verb, id, err)
}

var (
	errSilent = errors.New("no data was transferred for too long")
	errSlow   = fmt.Errorf("the transfer is too slow: less than %d KiB in %s", slowest>>10, paceTime)
)

// paced ends the context in three cases: no bytes were reported to alive for
// silenceTimeout, fewer than slowest bytes within paceTime, or nothing for storeTimeout
// after patient was called. A task's time limit shortens each of these times.
func (c *Client) paced(ctx context.Context) (_ context.Context, alive func(n int), patient, end func()) {
	limit := func(d time.Duration) time.Duration {
		if c.cfg.TaskTimeout > 0 {
			return min(d, c.cfg.TaskTimeout)
		}
		return d
	}
	ctx, cancel := context.WithCancelCause(ctx)
	silence := guard.AfterFunc(ctx, limit(silenceTimeout), func() { cancel(errSilent) })
	var mu sync.Mutex
	var pace *time.Timer
	var moved int
	over := false
	stop := func() {
		mu.Lock()
		defer mu.Unlock()
		over = true
		pace.Stop()
	}
	mu.Lock()
	defer mu.Unlock()
	pace = guard.AfterFunc(ctx, paceTime, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case over:
		case moved == 0: // errSilent covers this case
		case moved < slowest:
			cancel(errSlow)
		default:
			moved = 0
			pace.Reset(paceTime)
		}
	})
	alive = func(n int) {
		silence.Reset(limit(silenceTimeout))
		mu.Lock()
		defer mu.Unlock()
		moved += n
	}
	return ctx, alive, func() { stop(); silence.Reset(limit(storeTimeout)) }, func() { stop(); silence.Stop(); cancel(nil) }
}

// counted calls a function after every read.
type counted struct {
	r     io.Reader
	moved func(n int)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.moved(n)
	return n, err
}
