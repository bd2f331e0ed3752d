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

	"bootstrap/internal/fulldisk"
	"bootstrap/internal/guard"
	"bootstrap/templates/cruby"
)

// greeting is the first line of a Ruby.
type greeting struct {
	Ruby    string `json:"ruby,omitempty"`    // version of Ruby
	Missing string `json:"missing,omitempty"` // a missing library
	Error   string `json:"error,omitempty"`   // why this process cannot serve
	Full    bool   `json:"full,omitempty"`    // because a disk is full
	Image   string `json:"image,omitempty"`   // SHA-256 of the embedded image
	State   state  `json:"state,omitempty"`   // present activity, sent before the greeting
}

// state is the activity of the embedded Ruby before a greeting or an answer, sent as a
// line of its own.
type state string

const (
	loading   state = "loading"   // it loads the code, or waits for another process that compiles it
	compiling state = "compiling" // it compiles the code, which takes seconds
	crowded   state = "crowded"   // it compiles, because the cache has no room for the code
	loaded    state = "loaded"
)

// Serve is the child process of an Engine: the embedded Ruby. It answers the requests
// on in, one per line, until in ends, and then returns even if a template still runs;
// the process must end then. The output of templates goes to log. Compiled code is
// stored in the folder cache. The status is the exit status of a template that ended
// Ruby, else 0.
func Serve(ctx context.Context, in io.Reader, out, log io.Writer, cache string) (status int, err error) {
	// The code of a template occupies its processor until it returns; one processor
	// must be left for the goroutine that notices the end of the parent.
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	// Writing fails only if the other side has ended, which read notices.
	report := func(s state) { _ = json.NewEncoder(out).Encode(greeting{State: s}) }
	module, library, hello, err := load(ctx, cache, report)
	if err := errors.Join(err, json.NewEncoder(out).Encode(hello)); err != nil {
		return 0, err
	}
	s := &server{module: module, out: out, log: jobLog{to: log}}
	s.machine = cruby.Machine{Library: library, Output: &s.log}
	s.whole = func() (*cruby.Module, error) {
		report(loading)
		defer report(loaded)
		return loadCode(report, func(compile func(full bool)) (*cruby.Module, error) { return cruby.Open(ctx, cache, compile) })
	}
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

// load loads the code of the embedded Ruby, and returns the greeting. Afterwards
// garbage is never collected, because a collection waits for the running template.
func load(ctx context.Context, cache string, report func(state)) (*cruby.Module, fs.FS, greeting, error) {
	failed := func(err error) (*cruby.Module, fs.FS, greeting, error) {
		return nil, nil, greeting{Error: err.Error(), Full: fulldisk.Is(err)}, err
	}
	module, err := loadCode(report, func(compile func(full bool)) (*cruby.Module, error) { return cruby.OpenReached(ctx, cache, compile) })
	if err != nil {
		return failed(err)
	}
	about, err := cruby.Embedded()
	if err != nil {
		return failed(err)
	}
	return module, cruby.Library(), greeting{Ruby: about.Ruby, Image: about.Module}, nil
}

// loadCode calls open without garbage collections. It gives open a function to call
// before open compiles.
func loadCode(report func(state), open func(compile func(full bool)) (*cruby.Module, error)) (*cruby.Module, error) {
	// A collection while code is loaded would take longer than loading it.
	debug.SetGCPercent(-1)
	defer debug.SetGCPercent(-1)
	compiles := false
	m, err := open(func(full bool) {
		compiles = true
		if full {
			report(crowded)
		} else {
			report(compiling)
		}
		// Compiling takes half a gigabyte, and more if garbage is collected late.
		debug.SetGCPercent(25)
	})
	if compiles {
		debug.FreeOSMemory()
	}
	return m, err
}

// server renders with a new Ruby for each job.
type server struct {
	module    *cruby.Module
	machine   cruby.Machine
	out       io.Writer
	ruby      *cruby.Ruby
	rendering <-chan error // gets the result of the template that is being rendered
	log       jobLog
	job       [][]byte // the requests since the last one with a context
	// whole opens the code with all functions of Ruby; nil: this server does not use that
	// code.
	whole func() (*cruby.Module, error)
}

// errLeft says that the other side ended while its template was being rendered.
var errLeft = errors.New("the template continues, although the process that requested it has ended")

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
			// The other side sends its next request only after an answer; so reading
			// anything here means that it has ended.
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
		s.job = nil
		s.log.begin()
	}
	if s.ruby == nil {
		return "", errors.New("the first request has no context")
	}
	s.job = append(s.job, line)
	text, err := s.eval(ctx, line)
	if errors.Is(err, cruby.ErrMissing) && s.whole != nil {
		return s.repeat(ctx)
	}
	return text, err
}

func (s *server) eval(ctx context.Context, line []byte) (string, error) {
	return s.ruby.Eval(ctx, `BootstrapTemplates.answer("`+base64.StdEncoding.EncodeToString(line)+`".unpack1("m"))`)
}

// repeat renders the templates of the job again, with all functions of Ruby, and
// returns the last answer. A Ruby cannot continue after it needed a missing function.
func (s *server) repeat(ctx context.Context) (text string, err error) {
	err = errors.Join(s.ruby.Close(ctx), s.module.Close(ctx))
	s.ruby = nil
	if err != nil {
		return "", err
	}
	if s.module, err = s.whole(); err != nil {
		return "", err
	}
	s.whole = nil
	if err := s.renew(ctx); err != nil {
		return "", err
	}
	s.log.repeat()
	for _, line := range s.job {
		if text, err = s.eval(ctx, line); err != nil {
			return "", err
		}
	}
	return text, nil
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

// jobLog gets the output of a job's templates, and leaves out the output that repeat
// causes a second time.
type jobLog struct {
	to            io.Writer
	written, skip int
}

func (l *jobLog) begin() { l.written, l.skip = 0, 0 }

func (l *jobLog) repeat() { l.written, l.skip = 0, l.written }

func (l *jobLog) Write(p []byte) (int, error) {
	l.written += len(p)
	again := min(l.skip, len(p))
	l.skip -= again
	n, err := l.to.Write(p[again:])
	return again + n, err
}
