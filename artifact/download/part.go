package download

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/internal/digest"
	"bootstrap/internal/guard"
)

// part is an unfinished download: the bytes so far, and the server's statements about
// the file.
type part struct {
	path string
	file *os.File
	size int64
	want digest.Digest
	sum  *digest.Sums // digests of the first size bytes
	meta partMeta
	// total is the size of the whole file as the server says; 0 or -1: unknown.
	total int64
}

// partMeta is stored in a file next to the part, so that a later run can request the rest
// of the file.
type partMeta struct {
	URL       string `json:"url"` // digest of the URL, because the URL may contain secrets
	Validator string `json:"validator"`
}

func (p *part) metaPath() string { return p.path + ".json" }

// openPart opens the part that an earlier run left, or a new file.
func openPart(path string, want digest.Digest) (*part, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	p := &part{path: path, file: f, want: want}
	if p.size, err = fileSize(f); err == nil {
		p.sum = digest.NewSums("sha256", want.Algorithm)
		_, err = io.CopyBuffer(struct{ io.Writer }{p.sum}, struct{ io.Reader }{f}, make([]byte, archive.BufferSize))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	// Without a validator of the server, the digest shows whether the pieces belong
	// together.
	_ = cache.ReadJSON(p.metaPath(), &p.meta)
	return p, nil
}

func (p *part) close() error {
	if p.file == nil {
		return nil
	}
	err := p.file.Close()
	p.file = nil
	return err
}

// reset starts the download again.
func (p *part) reset() error {
	p.size, p.sum, p.meta = 0, digest.NewSums("sha256", p.want.Algorithm), partMeta{}
	os.Remove(p.metaPath())
	if err := p.file.Truncate(0); err != nil {
		return err
	}
	_, err := p.file.Seek(0, io.SeekStart)
	return err
}

func (p *part) verify() error {
	return p.want.Check(p.sum.Hex()[p.want.Algorithm])
}

// stallError says that the server stalls a download.
type stallError struct{ text string }

func (e *stallError) Error() string { return e.text }

// come returns a text that says how many bytes have arrived.
func (p *part) come() string {
	if p.total > 0 {
		return fmt.Sprintf("the part of %d of %d bytes", p.size, p.total)
	}
	return fmt.Sprintf("the part of %d bytes", p.size)
}

// get makes one attempt to download the rest of a file.
func (p *part) get(ctx context.Context, client *http.Client, from File, slowest Pace, progress archive.Progress) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watch := guard.AfterFunc(ctx, slowest.Silence, func() {
		cancel(&stallError{fmt.Sprintf("the server sent nothing for %v", slowest.Silence)})
	})
	defer watch.Stop()
	resp, err := p.ask(ctx, client, from)
	if err != nil {
		return p.explain(ctx, err)
	}
	defer resp.Body.Close()
	p.total, err = p.accept(resp, from)
	if err != nil || p.total == p.size {
		return err
	}
	buf := make([]byte, archive.BufferSize)
	window, inWindow := time.Now(), int64(0)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			watch.Reset(slowest.Silence)
			if p.size+int64(n) > from.Limit {
				return &permanentError{errors.Join(tooLarge(-1, from.Limit), p.reset())}
			}
			if err := p.write(buf[:n]); err != nil {
				return &permanentError{err}
			}
			if progress != nil {
				progress(p.size, max(p.total, 0))
			}
		}
		switch {
		case errors.Is(err, io.EOF) && (p.total < 0 || p.size == p.total):
			return nil
		case errors.Is(err, io.EOF):
			return fmt.Errorf("it ended after %d of %d bytes", p.size, p.total)
		case err != nil:
			return p.explain(ctx, err)
		}
		inWindow += int64(n)
		if passed := time.Since(window); passed >= slowest.Window {
			if inWindow < slowest.Floor {
				return &stallError{fmt.Sprintf("the server sent only %d bytes in %v", inWindow, passed.Round(time.Millisecond))}
			}
			window, inWindow = time.Now(), 0
		}
	}
}

// tooLarge returns the error for a file that is too large; size is -1 if the server
// has not sent it.
func tooLarge(size, limit int64) error {
	if size < 0 {
		return fmt.Errorf("it is larger than the limit of %d bytes", limit)
	}
	return fmt.Errorf("it has %d bytes, more than the limit of %d bytes", size, limit)
}

func (p *part) write(b []byte) error {
	n, err := p.file.Write(b)
	p.sum.Write(b[:n])
	p.size += int64(n)
	return err
}

func (p *part) ask(ctx context.Context, client *http.Client, from File) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, from.URL.String(), nil)
	if err != nil {
		return nil, &permanentError{err}
	}
	if p.size > 0 {
		req.Header.Set("Range", fmt.Sprintf("bytes=%d-", p.size))
		if p.meta.Validator != "" && p.meta.URL == urlKey(from.URL) {
			req.Header.Set("If-Range", p.meta.Validator)
		}
	}
	if from.Sign != nil {
		from.Sign(req)
	}
	return client.Do(req)
}

func urlKey(u *url.URL) string {
	sum := digest.NewSums("sha256")
	io.WriteString(sum, u.String())
	return sum.Hex()["sha256"]
}

// accept checks the head of a reply and prepares p for its body. total is -1 if the
// server does not send it.
func (p *part) accept(resp *http.Response, from File) (total int64, err error) {
	switch resp.StatusCode {
	case http.StatusOK:
		if err := p.reset(); err != nil {
			return 0, &permanentError{err}
		}
		if resp.ContentLength > from.Limit {
			return 0, &permanentError{tooLarge(resp.ContentLength, from.Limit)}
		}
		p.meta = partMeta{URL: urlKey(from.URL), Validator: validator(resp.Header)}
		if err := cache.WriteJSON(p.metaPath(), p.meta); err != nil {
			return 0, &permanentError{err}
		}
		return resp.ContentLength, nil
	case http.StatusPartialContent:
		start, total, ok := contentRange(resp.Header.Get("Content-Range"))
		if !ok || start != p.size {
			return 0, errors.Join(fmt.Errorf("the server sent another part than the requested one"), p.reset())
		}
		if total > from.Limit {
			return 0, &permanentError{errors.Join(tooLarge(total, from.Limit), p.reset())}
		}
		return total, nil
	case http.StatusRequestedRangeNotSatisfiable:
		if _, total, ok := contentRange(resp.Header.Get("Content-Range")); ok && total == p.size {
			return total, nil
		}
		return 0, errors.Join(statusError(resp), p.reset())
	}
	return 0, statusError(resp)
}

// validator returns what If-Range may contain: a strong ETag or a date.
func validator(h http.Header) string {
	if etag := h.Get("ETag"); strings.HasPrefix(etag, `"`) {
		return etag
	}
	return h.Get("Last-Modified")
}

// contentRange reads "bytes 5-9/10", "bytes 5-9/*" and "bytes */10".
func contentRange(text string) (start, total int64, ok bool) {
	text, ok = strings.CutPrefix(text, "bytes ")
	span, size, found := strings.Cut(text, "/")
	if !ok || !found {
		return 0, 0, false
	}
	total = -1
	var err error
	if size != "*" {
		if total, err = strconv.ParseInt(size, 10, 64); err != nil {
			return 0, 0, false
		}
	}
	if span == "*" {
		return -1, total, true
	}
	first, _, _ := strings.Cut(span, "-")
	start, err = strconv.ParseInt(first, 10, 64)
	return start, total, err == nil
}

// busyError is a reply of a server that may answer differently later.
type busyError struct {
	status string
	after  time.Duration
}

func (e *busyError) Error() string { return "the server answered " + e.status }

// RefusedError is a reply that a repeated request would get again.
type RefusedError struct {
	Code   int
	Region string // region of the bucket, as S3 says
}

func (e *RefusedError) Error() string {
	status := fmt.Sprintf("the server answered %d %s", e.Code, http.StatusText(e.Code))
	if e.Code == http.StatusUnauthorized || e.Code == http.StatusForbidden {
		return status + ": check user and password in the url"
	}
	return status
}

func (e *RefusedError) Name() string { return "download-refused" }

func statusError(resp *http.Response) error {
	switch code := resp.StatusCode; {
	case code >= 500 && code != http.StatusNotImplemented,
		code == http.StatusTooManyRequests, code == http.StatusRequestTimeout, code == http.StatusTooEarly,
		code == http.StatusRequestedRangeNotSatisfiable:
		const day = 24 * 60 * 60
		seconds, _ := strconv.Atoi(resp.Header.Get("Retry-After")) // 0 if it is a date, the largest int if it is larger
		return &busyError{fmt.Sprintf("%d %s", code, http.StatusText(code)), time.Duration(min(max(seconds, 0), day)) * time.Second}
	}
	return &permanentError{&RefusedError{resp.StatusCode, resp.Header.Get("X-Amz-Bucket-Region")}}
}

// retryAfter returns the pause that the server asks for, at most the longest one.
func retryAfter(err error, pause, longest time.Duration) time.Duration {
	var busy *busyError
	if errors.As(err, &busy) && busy.after > pause {
		return min(busy.after, longest)
	}
	return pause
}

// explain returns the cause of a failed exchange without the URL, which may contain a
// password. An error that another attempt would get again becomes permanent.
func (p *part) explain(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	var ue *url.Error
	if errors.As(err, &ue) {
		err = ue.Err
	}
	var authority x509.UnknownAuthorityError
	var host x509.HostnameError
	var invalid x509.CertificateInvalidError
	var verification *tls.CertificateVerificationError
	var config *configError
	if errors.As(err, &authority) || errors.As(err, &host) || errors.As(err, &invalid) || errors.As(err, &verification) || errors.As(err, &config) {
		return &permanentError{err}
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("the connection ended after %d bytes", p.size)
	}
	return err
}
