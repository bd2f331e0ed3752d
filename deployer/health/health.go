// Package health runs the health checks of an instance group, which test its service from
// outside.
package health

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os/exec"
	"strings"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/process"
	"bootstrap/internal/wait"
	"bootstrap/manifest"
)

// From says from where checks are run.
type From struct {
	Address string // address of the instance
	Dir     string // working folder of programs: the folder of the manifest
	Env     []string
	// Dial opens connections; nil: directly.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
}

// attempt is the time limit of one attempt.
const attempt = 10 * time.Second

// UnhealthyError says that a check did not pass in time.
type UnhealthyError struct {
	Check    string
	Waited   time.Duration
	Previous bool // deploy --previous can put back an earlier deploy
	Err      error
}

func (e *UnhealthyError) Error() string {
	return fmt.Sprintf("the health check %s did not pass within %s, its timeout: %v", e.Check, e.Waited, e.Err)
}

func (e *UnhealthyError) Name() string { return "health-check" }

func (e *UnhealthyError) Hint() string { return Remedy(e.Previous) }

// Remedy returns what to do about jobs that do not run or do not work. previous is true
// if deploy --previous can put back an earlier deploy.
func Remedy(previous bool) string {
	next := `"bootstrap logs MANIFEST" fetches all of their logs; correct the cause and deploy again`
	if previous {
		next += `, or "bootstrap deploy MANIFEST --previous" puts back the last version that worked`
	}
	return next
}

// Unwrap returns why the last attempt failed.
func (e *UnhealthyError) Unwrap() error { return e.Err }

// Wait tries a check until it passes. It calls say with the cause of each failure. After
// the check's timeout the error is an *UnhealthyError.
func Wait(ctx context.Context, c manifest.HealthCheck, from From, say func(string)) error {
	late := errors.New("no answer by then")
	limited, cancel := context.WithTimeoutCause(ctx, max(c.Timeout, time.Second), late)
	defer cancel()
	var before error // cause of the last failed attempt
	for {
		err := Once(limited, c, from)
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if before != nil && errors.Is(err, late) { // An interrupted attempt shows nothing about the service.
			err = before
		}
		before = err
		say(err.Error())
		if wait.For(limited, max(c.Interval, 50*time.Millisecond)) == nil {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return &UnhealthyError{Check: Name(c), Waited: c.Timeout, Err: err}
	}
}

// Name describes the check without its secrets.
func Name(c manifest.HealthCheck) string {
	switch {
	case c.HTTP != "":
		if u, err := url.Parse(c.HTTP); err == nil {
			return "http " + u.Redacted()
		}
		return "http"
	case c.TCP != "":
		return "tcp " + c.TCP
	}
	if len(c.Exec) == 0 {
		return "exec"
	}
	return "exec " + c.Exec[0]
}

// Once tries a check once, for up to ten seconds.
func Once(ctx context.Context, c manifest.HealthCheck, from From) error {
	ctx, cancel := context.WithTimeoutCause(ctx, attempt, fmt.Errorf("no answer within %s", attempt))
	defer cancel()
	if from.Dial == nil {
		from.Dial = (&net.Dialer{}).DialContext
	}
	var err error
	printed := ""
	switch {
	case c.HTTP != "":
		err = from.get(ctx, c)
	case c.TCP != "":
		err = from.connect(ctx, c.TCP)
	default:
		printed, err = from.run(ctx, c.Exec)
	}
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil && printed != "" {
		err = fmt.Errorf("%w: %s", err, printed)
	}
	return err
}

// at adds the instance's address if the host is missing.
func (f From) at(host string) (string, error) {
	if host != "" {
		return host, nil
	}
	if f.Address == "" {
		return "", errors.New("the address of the instance is not known: name a host in the check")
	}
	return f.Address, nil
}

func (f From) connect(ctx context.Context, address string) error {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if host, err = f.at(host); err != nil {
		return err
	}
	conn, err := f.Dial(ctx, "tcp", net.JoinHostPort(host, port))
	if err != nil {
		return err
	}
	return conn.Close()
}

func (f From) get(ctx context.Context, c manifest.HealthCheck) error {
	u, err := url.Parse(c.HTTP)
	if err != nil {
		return errors.New("its URL cannot be read")
	}
	host, err := f.at(u.Hostname())
	if err != nil {
		return err
	}
	switch port := u.Port(); {
	case port != "":
		u.Host = net.JoinHostPort(host, port)
	case strings.Contains(host, ":"):
		u.Host = "[" + host + "]"
	default:
		u.Host = host
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return errors.New("ca contains no certificate")
		}
	}
	client := &http.Client{
		Transport:     &http.Transport{DialContext: guard.Dial(f.Dial), TLSClientConfig: config, DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return errors.New("its URL cannot be read")
	}
	resp, err := client.Do(req)
	if err != nil {
		var wrapped *url.Error // This error repeats the URL.
		if errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 1<<20) // The service may not expect that the connection is closed early.
	switch {
	case c.Status != 0 && resp.StatusCode != c.Status:
		return fmt.Errorf("the status is %s, not %d", resp.Status, c.Status)
	case c.Status == 0 && (resp.StatusCode < 200 || resp.StatusCode > 399):
		return fmt.Errorf("the status is %s", resp.Status)
	}
	return nil
}

// run runs a program of this machine, and returns the last line of its output.
func (f From) run(ctx context.Context, words []string) (printed string, err error) {
	if len(words) == 0 {
		return "", errors.New("no program is named")
	}
	cmd := exec.Command(words[0], words[1:]...) // #nosec G204 -- a check of the manifest that the person deploys
	cmd.Dir = f.Dir
	cmd.Env = append(append([]string{}, f.Env...), "BOOTSTRAP_ADDRESS="+f.Address)
	process.OwnGroup(cmd)
	cmd.WaitDelay = time.Second // A child of the program may keep the output open.
	var out tail
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		return "", fmt.Errorf("cannot start it: %w", err)
	}
	_, err = process.Wait(ctx, cmd, func() time.Duration { return time.Second })
	return out.lastLine(), err
}

// tail keeps the end of the text that is written to it.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - 4096; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

// lastLine returns the last line that is not empty.
func (t *tail) lastLine() string {
	data := bytes.TrimSpace(t.data)
	return string(data[bytes.LastIndexByte(data, '\n')+1:])
}
