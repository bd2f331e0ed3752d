package templates

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"runtime/debug"

	"bootstrap/internal/guard"
	"bootstrap/templates/cruby"
)

// greeting is the first line of a Ruby.
type greeting struct {
	Ruby    string `json:"ruby,omitempty"`    // its version
	Missing string `json:"missing,omitempty"` // a missing library
	Error   string `json:"error,omitempty"`   // why it cannot serve
	Image   string `json:"image,omitempty"`   // of the embedded one: its SHA-256
}

// Serve is the child process of an Engine: the embedded Ruby. It answers the
// requests on in, one per line, until in ends, and then returns even if a
// template still runs; the process must end then. Templates print to log.
// Compiled code is stored in the folder cache. The status is the exit status of
// a template that ended Ruby, else 0.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer, cache string) (status int, err error) {
	// The code of a template occupies its processor until it returns; one must be
	// left for the goroutine that notices the end of the parent.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	module, library, hello, err := load(ctx, cache)
	if err := errors.Join(err, json.NewEncoder(out).Encode(hello)); err != nil {
		return 0, err
	}
	s := &server{module: module, machine: cruby.Machine{Library: library, Output: log}, out: out}
	lines := make(chan []byte)
	guard.Go(ctx, func() { s.read(ctx, in, lines) })
	err = s.serve(ctx, lines)
	if errors.Is(err, errLeft) {
		return 0, nil
	}
	if exit, ok := errors.AsType[*cruby.ExitError](err); ok {
		return exit.Status, nil
	}
	return 0, err
}

// load loads the code of the embedded Ruby, and returns the first line for those who
// want something rendered. Afterwards garbage is never collected: a collection waits
// for the running template.
func load(ctx context.Context, cache string) (*cruby.Module, fs.FS, greeting, error) {
	// A collection while code is loaded would take longer than loading it.
	debug.SetGCPercent(-1)
	failed := func(err error) (*cruby.Module, fs.FS, greeting, error) {
		return nil, nil, greeting{Error: err.Error()}, err
	}
	module, err := cruby.Open(ctx, cache, func() {
		// Compiling takes half a gigabyte, and more if garbage is collected late.
		debug.SetGCPercent(25)
	})
	if err != nil {
		return failed(err)
	}
	library, err := cruby.Library()
	if err != nil {
		return failed(err)
	}
	about, err := cruby.Embedded()
	if err != nil {
		return failed(err)
	}
	debug.SetGCPercent(-1)
	debug.FreeOSMemory()
	return module, library, greeting{Ruby: about.Ruby, Image: about.Module}, nil
}

// server renders with a new Ruby for each job.
type server struct {
	module    *cruby.Module
	machine   cruby.Machine
	out       io.Writer
	ruby      *cruby.Ruby
	rendering <-chan error // gets the end of the template that is rendered
}

// errLeft says that the other side has ended while a template was rendered for it.
var errLeft = errors.New("the template goes on without the process that asked for it")

// read sends the lines of in to the channel, and closes it at the end.
func (s *server) read(ctx context.Context, in io.Reader, lines chan<- []byte) {
	defer close(lines)
	for r := bufio.NewReaderSize(in, 64<<10); ; {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		select {
		case lines <- line:
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) serve(ctx context.Context, lines <-chan []byte) error {
	for line := range lines {
		var text string
		s.rendering = guard.Start(ctx, func() (err error) {
			text, err = s.answer(ctx, line)
			return err
		})
		select {
		case err := <-s.rendering:
			if err != nil {
				return err
			}
			if _, err := io.WriteString(s.out, text+"\n"); err != nil {
				return err
			}
		case <-lines:
			// It waits for an answer before its next request, so it has ended.
			return errLeft
		}
	}
	return nil
}

func (s *server) answer(ctx context.Context, line []byte) (string, error) {
	var req struct {
		Context json.RawMessage `json:"context"`
	}
	if err := json.Unmarshal(line, &req); err != nil {
		return "", fmt.Errorf("cannot read the request: %w", err)
	}
	if req.Context != nil {
		// The next job must not see what the templates of this one changed.
		if err := s.renew(ctx); err != nil {
			return "", err
		}
	}
	if s.ruby == nil {
		return "", errors.New("the first request has no context")
	}
	return s.ruby.Eval(ctx, `BootstrapTemplates.answer("`+base64.StdEncoding.EncodeToString(line)+`".unpack1("m"))`)
}

func (s *server) renew(ctx context.Context) (err error) {
	if s.ruby != nil {
		if err := s.ruby.Close(ctx); err != nil {
			return err
		}
		s.ruby = nil
		runtime.GC()
	}
	s.ruby, err = s.module.Start(ctx, s.machine)
	return err
}
