package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/manifest/document"
)

// List is a program or a server that lists something. The caller reads the list.
type List struct {
	Exec    []string          // the program and its arguments; empty: the list is at URL
	Dir     string            // working directory of the program; a path with a slash starts from it
	URL     string            // https://, or http:// to this machine
	CA      string            // path of a file with the CA of the server; empty: the system's
	Headers map[string]string // of the request
}

// CheckURL returns what is wrong with the address of a list. Its errors contain no
// password.
func CheckURL(text string) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Hostname() == "":
		return errors.New("must be a URL such as https://host/path")
	case u.User != nil:
		return errors.New("must not contain credentials: give them as headers")
	case !safe(u):
		return errors.New("must begin with https://, because headers and the list must not be read or changed on the way; http:// only to this machine")
	}
	return nil
}

// Name returns the list's name for messages.
func (l List) Name() string {
	if len(l.Exec) > 0 {
		return "the output of " + l.Exec[0]
	}
	address, _, _ := strings.Cut(l.URL, "?")
	return address
}

// ReadList returns the list as the program prints it, or as the server sends it.
func (c Config) ReadList(ctx context.Context, l List) ([]byte, error) {
	ctx, end := context.WithTimeoutCause(ctx, answerTime, fmt.Errorf("there was no answer within %s", answerTime.Round(time.Second)))
	defer end()
	if len(l.Exec) == 0 {
		return c.fetchList(ctx, l)
	}
	path, err := document.ExpandHome(l.Exec[0])
	switch {
	case err != nil:
		return nil, err
	case strings.ContainsAny(path, `/\`) && !filepath.IsAbs(path):
		path = filepath.Join(l.Dir, path)
	}
	found, err := exec.LookPath(path)
	if failed, ok := errors.AsType[*exec.Error](err); ok {
		err = document.Cause(failed.Err)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot run the program: %w", err)
	}
	c.dir = l.Dir
	out, _, err := c.run(ctx, found, passedVariables(), l.Exec[1:]...)
	return out, err
}

// fetchList returns the body of a server's answer.
func (c Config) fetchList(ctx context.Context, l List) ([]byte, error) {
	w, err := newWeb(c, "")
	if err != nil {
		return nil, err
	}
	if l.CA != "" {
		pool, err := roots(l.CA)
		if err != nil {
			return nil, err
		}
		w.config.RootCAs = pool
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL, nil)
	if err != nil {
		return nil, errors.New("its address is not valid")
	}
	req.Header.Set("Accept", "application/json")
	for name, value := range l.Headers {
		req.Header.Set(name, value)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
			err = wrapped.Err
		}
		if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return nil, fmt.Errorf("%w; name the CA of the server's certificate as ca", wrong)
		}
		if ctx.Err() != nil {
			err = cmp.Or(context.Cause(ctx), err)
		}
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the answer ends early: %w", err)
	case len(body) > maxAnswer:
		return nil, errTooLong
	case resp.StatusCode/100 == 3:
		return nil, fmt.Errorf("it redirects to %s; name that server if it is the right one", elsewhere(resp))
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("the server answers %s", resp.Status)
	}
	return body, nil
}
