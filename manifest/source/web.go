package source

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/printable"
	"bootstrap/internal/proxy"
	"bootstrap/internal/regular"
	"bootstrap/manifest/document"
)

// web is a server with values, reached over HTTPS.
type web struct {
	client *http.Client
	config *tls.Config
	ca     string // the environment variable with its CA
}

// newWeb returns a client that trusts the system's roots and the CA in an environment
// variable, which contains a PEM text or a path; empty: there is no such variable.
func newWeb(c Config, ca string) (*web, error) {
	choose, err := proxy.HTTP(c.Getenv)
	if err != nil {
		return nil, err
	}
	dial := c.Dial
	if dial == nil {
		dial = proxy.Direct().DialContext
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if text := c.Getenv(ca); ca != "" && text != "" {
		if config.RootCAs, err = roots(text); err != nil {
			return nil, fmt.Errorf("cannot use $%s: %w", ca, err)
		}
	}
	return &web{ca: ca, config: config, client: &http.Client{
		Transport: &http.Transport{
			Proxy:               func(r *http.Request) (*url.URL, error) { return choose(r.URL) },
			DialContext:         guard.Dial(dial),
			TLSClientConfig:     config,
			MaxIdleConnsPerHost: atOnce,
			IdleConnTimeout:     5 * time.Second,
		},
		// A redirect would send the token to another server.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// roots returns the system's roots and those of a PEM text or file.
func roots(text string) (*x509.CertPool, error) {
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !strings.Contains(text, "-----BEGIN") {
		path, err := document.ExpandHome(text)
		if err != nil {
			return nil, err
		}
		data, err := regular.Read(path)
		if err != nil {
			return nil, fmt.Errorf("cannot read %s: %w", text, document.Cause(err))
		}
		text = string(data)
	}
	if !pool.AppendCertsFromPEM([]byte(text)) {
		return nil, errors.New("it contains no certificate in PEM")
	}
	return pool, nil
}

// reply is the answer of a server.
type reply struct {
	code   int
	status string
	value  any // the JSON of the body; nil: it is not JSON
}

// send sends a request, and returns the answer whatever its status is, except for
// redirects.
func (w *web) send(ctx context.Context, method string, to *url.URL, header http.Header, form url.Values) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, method, to.String(), strings.NewReader(form.Encode()))
	if err != nil {
		return reply{}, errors.New("its address is not valid")
	}
	req.Header = header
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text repeats the URL
			err = wrapped.Err
		}
		if wrong, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
			return reply{}, fmt.Errorf("%w; set $%s to the CA of the server's certificate", wrong, w.ca)
		}
		return reply{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	switch {
	case err != nil:
		return reply{}, fmt.Errorf("the answer ends early: %w", err)
	case len(body) > maxAnswer:
		return reply{}, errTooLong
	case resp.StatusCode/100 == 3:
		return reply{}, fmt.Errorf("it redirects to %s; name that server if it is the right one", elsewhere(resp))
	}
	r := reply{code: resp.StatusCode, status: resp.Status}
	r.value, _ = fromJSON(body) // an answer without valid JSON has no value
	return r, nil
}

var errTooLong = fmt.Errorf("the answer is larger than the limit of %d MiB", maxAnswer>>20)

// elsewhere returns the host to which a server redirects.
func elsewhere(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil {
		return "another address"
	}
	return cmp.Or(printable.Text(to.Host), "another address")
}

// get returns the value at a path of keys, such as data.type; nil: there is none.
func (r reply) get(path string) any {
	value := r.value
	for key := range strings.SplitSeq(path, ".") {
		m, _ := value.(map[string]any)
		value = m[key]
	}
	return value
}

// text returns the text at a path of keys; empty: there is none.
func (r reply) text(path string) string {
	text, _ := r.get(path).(string)
	return text
}

// explanation returns the server's explanation of the status; empty: there is none.
func (r reply) explanation() string {
	text := cmp.Or(r.text("error_description"), r.text("message"), r.text("error"))
	list, _ := r.get("errors").([]any)
	for _, one := range list {
		if words, ok := one.(string); ok {
			text += " " + words
		}
	}
	return brief(text)
}

// err returns the status as an error.
func (r reply) err() error {
	if why := r.explanation(); why != "" {
		return fmt.Errorf("the server answers %s: %s", r.status, why)
	}
	return fmt.Errorf("the server answers %s", r.status)
}

// maxSaid limits how many bytes of a server's or program's text are shown.
const maxSaid = 600

// brief returns a text of a server or program as one short line.
func brief(text string) string {
	text = strings.Join(strings.Fields(printable.Text(text)), " ")
	if len(text) > maxSaid {
		text = "…" + strings.ToValidUTF8(text[len(text)-maxSaid:], "")
	}
	return text
}
