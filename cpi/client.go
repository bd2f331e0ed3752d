package cpi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"bootstrap/internal/printable"

	"bootstrap/internal/wait"
)

// maxRetries is how often a call is repeated after an error that the CPI marks
// as ok to retry.
const maxRetries = 5

// Config says how to call a CPI.
type Config struct {
	Path       string              // bin/cpi of the installation
	Env        []string            // the child's whole environment
	DirectorID string              // director_uuid of the requests' context
	Log        io.Writer           // gets the CPI's standard error and log by line; may be nil
	LogFile    string              // the file that Log writes to, which errors name; may be empty
	Redact     func(string) string // applied to all text from the CPI; may be nil
	// StemcellAPI is the API version of the stemcell in use; 0 if no stemcell is in use
	// yet.
	StemcellAPI int
	Running     *Running // lists the running processes; may be nil
	// Trace is called before a process is started, while it is running, and
	// after it has ended; kill ends its process group. It may be nil.
	Trace   func(method, moment string, kill func())
	Timeout time.Duration // limit of one process; 0: 2 hours
	Grace   time.Duration // time between TERM and KILL after the deadline; 0: 5 seconds
}

// Supported returns why no CPI can be installed or called on an operating system, and
// what to do about it; nil: CPIs can be used there.
func Supported(system string) error {
	if system == "windows" {
		return errors.New("no CPI runs on Windows, because CPIs are made of scripts for bash: run this command in WSL 2, in the container image of bootstrap, or on Linux or macOS; see docs/platforms.md")
	}
	return nil
}

// Client calls one CPI. It may be used by several goroutines.
type Client struct {
	cfg    Config
	shared *shared
	record *record
}

// shared has the fields that all copies of a Client share.
type shared struct {
	mu   sync.Mutex
	info *Info

	asking sync.Mutex // held during the call of info
	log    sync.Mutex // held while lines are written
}

// New returns a client, which starts nothing before the first call.
func New(cfg Config) *Client {
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Hour
	}
	if cfg.Grace == 0 {
		cfg.Grace = 5 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = io.Discard
	}
	if cfg.Redact == nil {
		cfg.Redact = func(text string) string { return text }
	}
	return &Client{cfg: cfg, shared: &shared{}}
}

// Info calls info once; later calls return the same result. A CPI that does not
// implement info has API version 1.
func (c *Client) Info(ctx context.Context) (Info, error) {
	c.shared.asking.Lock()
	defer c.shared.asking.Unlock()
	if info := c.shared.known(); info != nil {
		return *info, nil
	}
	asker := *c
	asker.record = nil
	result, err := asker.exchange(ctx, "info", 1, nil)
	info := Info{APIVersion: 1}
	switch {
	case NotImplemented(err):
	case err != nil:
		return Info{}, err
	default:
		if info, err = c.decodeInfo(result); err != nil {
			return Info{}, err
		}
	}
	c.shared.mu.Lock()
	defer c.shared.mu.Unlock()
	c.shared.info = &info
	return info, nil
}

func (s *shared) known() *Info {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.info
}

// Call calls a method in the API version that the CPI speaks and returns its
// result. The other methods are Calls with names and types.
func (c *Client) Call(ctx context.Context, method string, args ...any) (json.RawMessage, error) {
	info, err := c.Info(ctx)
	if err != nil {
		return nil, &StartError{Method: method, Err: err}
	}
	return c.exchange(ctx, method, info.APIVersion, args)
}

// exchange sends one request, and repeats it while the CPI allows that.
func (c *Client) exchange(ctx context.Context, method string, version int, args []any) (json.RawMessage, error) {
	request, err := c.request(method, version, args)
	if err != nil {
		return nil, &StartError{Method: method, Err: fmt.Errorf("its arguments are not JSON: %w", err)}
	}
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return nil, &StartError{Method: method, Err: context.Cause(ctx)}
		}
		result, err := c.once(ctx, method, request)
		var refused *Error
		if !errors.As(err, &refused) {
			return result, err
		}
		refused.Tries = try
		if !refused.OKToRetry || try > maxRetries {
			return nil, refused
		}
		pause := time.Second << (try - 1)
		c.logLines(method, fmt.Sprintf("%s; trying again in %s", refused.Message, pause))
		if err := wait.For(ctx, pause); err != nil {
			return nil, fmt.Errorf("%w; not tried again: %w", refused, err)
		}
	}
}

func (c *Client) request(method string, version int, args []any) ([]byte, error) {
	if args == nil {
		args = []any{}
	}
	request := Request{Method: method, Arguments: args, APIVersion: version}
	request.Context.DirectorUUID = c.cfg.DirectorID
	if api := c.cfg.StemcellAPI; api > 0 {
		request.Context.VM = &ContextVM{}
		request.Context.VM.Stemcell.APIVersion = api
	}
	return json.Marshal(request)
}

// once starts one CPI process and reads its reply.
func (c *Client) once(ctx context.Context, method string, request []byte) (json.RawMessage, error) {
	c.trace(method, "before", func() {})
	out, err := c.run(ctx, method, request)
	c.trace(method, "after", func() {})
	if err != nil {
		return nil, err
	}
	c.logLines(method, out.stderr)
	reply, err := decodeReply(method, out, c.cfg.Redact)
	if err != nil {
		return nil, err
	}
	c.logLines(method, reply.Log)
	if reply.Error != nil {
		return nil, c.refused(method, reply.Error)
	}
	if out.status != "" {
		c.logLines(method, "the CPI gave a result, but ended with "+out.status)
	}
	return reply.Result, nil
}

func (c *Client) trace(method, moment string, kill func()) {
	if c.cfg.Trace != nil {
		c.cfg.Trace(method, moment, kill)
	}
}

func (c *Client) refused(method string, e *ResponseError) *Error {
	c.logLines(method, e.Type+": "+e.Message)
	return &Error{
		Log:       c.cfg.LogFile,
		Method:    method,
		Type:      shorten(printable.Text(e.Type), 200),
		Message:   printable.Text(c.cfg.Redact(e.Message)),
		OKToRetry: e.OKToRetry,
	}
}
