package templates

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	_ "embed" // embeds the driver
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/templates/cruby"

	"bootstrap/internal/process"
)

//go:embed driver.rb
var driver string

// startTimeout is the deadline for the start of a Ruby. Reading Ruby from a slow disk
// takes seconds, and so does compiling the embedded one; on an emulated machine, that
// takes a minute.
const startTimeout = 5 * time.Minute

// request asks the driver to render one template.
type request struct {
	File     string         `json:"file"`
	Template []byte         `json:"template"`
	Context  map[string]any `json:"context,omitempty"` // absent: the context of the last request
}

// answer is a result or an error.
type answer struct {
	Result []byte     `json:"result"`
	Error  *rubyError `json:"error"`
	State  state      `json:"state"` // it is not the answer yet
}

type rubyError struct {
	Class      string   `json:"class"`
	Message    string   `json:"message"`
	Line       int      `json:"line"`
	Properties []string `json:"properties"`
	Owner      *owner   `json:"owner"` // owner of the properties; nil: the job itself
	Link       string   `json:"link"`
}

// owner is the link whose properties a template read, or an instance of that link.
type owner struct {
	Link     string `json:"link"`
	Instance bool   `json:"instance"`
}

func (o *owner) String() string {
	if o.Instance {
		return "an instance of link '" + o.Link + "'"
	}
	return "link '" + o.Link + "'"
}

// formatError is a context that cannot be written as JSON.
type formatError struct{ err error }

func (e *formatError) Error() string {
	return "its properties cannot be given to Ruby: " + e.err.Error()
}

// errGone says that Ruby had ended before the request.
var errGone = errors.New("it had ended")

// ruby is a running driver, or a turn at a shared engine.
type ruby struct {
	cmd    *exec.Cmd // nil: the engine is shared
	in     io.WriteCloser
	out    *bufio.Reader
	closer io.Closer // closes out

	mu      sync.Mutex
	stopped bool // no more signals may be sent to the process group
}

// command returns the command that starts Ruby.
func command(cfg Config) (*exec.Cmd, error) {
	if !cfg.embedded() {
		path := cmp.Or(cfg.Ruby, "ruby")
		if filepath.Base(path) == path {
			if path = lookUp(path, variable(cfg.Env, "PATH")); path == "" {
				return nil, fmt.Errorf("there is no %s on PATH: %s", cmp.Or(cfg.Ruby, "ruby"), howToInstall)
			}
		}
		return exec.Command(path, "-W0", "-EUTF-8", "-e", driver, "-e", "BootstrapTemplates.serve"), nil // #nosec G204 -- the Ruby of --ruby, or this program
	}
	about, err := cruby.Embedded()
	if err != nil {
		return nil, fmt.Errorf("it needs Ruby: %w", err)
	}
	if about.Driver != fmt.Sprintf("%x", sha256.Sum256([]byte(driver))) {
		return nil, errors.New("the embedded Ruby was built with another driver: build it again (make build)")
	}
	return exec.Command(cfg.Self, "plugin", "templates", "--cache", cfg.Cache), nil // #nosec G204 -- the Ruby of --ruby, or this program
}

// startRuby starts the driver and waits until it can render.
func startRuby(ctx context.Context, cfg Config) (*ruby, error) {
	cmd, err := command(cfg)
	if err != nil {
		return nil, err
	}
	r := &ruby{cmd: cmd}
	path := cmd.Path
	r.cmd.Env = environment(cfg.Env)
	process.OwnGroup(r.cmd)
	var stderr firstBytes
	r.cmd.Stderr = &stderr
	// A process that a template left running may keep standard error open.
	r.cmd.WaitDelay = time.Second
	if r.in, err = r.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := r.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	r.out, r.closer = bufio.NewReaderSize(out, 64<<10), out
	if err := r.cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot start Ruby: %w: %s", err, howToInstall)
	}
	sctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	hello, err := r.greeting(sctx, cfg)
	if err != nil {
		r.stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s does not work as a Ruby (%v)%s: %s", path, err, stderr.text(), howToInstall)
	}
	if err := hello.problem(path); err != nil {
		r.stop()
		return nil, err
	}
	return r, nil
}

// greeting waits until Ruby is ready.
func (r *ruby) greeting(ctx context.Context, cfg Config) (hello greeting, err error) {
	for {
		hello = greeting{}
		if err := r.read(ctx, &hello); err != nil || hello.State == "" {
			return hello, err
		}
		cfg.enter(hello.State)
	}
}

// enter is called when a Ruby reports a state.
func (c Config) enter(s state) {
	if (s == compiling || s == crowded) && c.Compiling != nil {
		c.Compiling(s == crowded)
	}
}

// fullError says that Ruby cannot start because a disk is full. It is an ENOSPC.
type fullError string

func (e fullError) Error() string        { return string(e) }
func (e fullError) Is(target error) bool { return target == syscall.ENOSPC }

// problem returns why a Ruby cannot be used; nil if it can be.
func (g greeting) problem(path string) error {
	switch {
	case g.Full:
		return fullError(g.Error)
	case g.Error != "":
		return errors.New(g.Error)
	case g.Missing != "":
		return fmt.Errorf("the Ruby %s (%s) lacks its library '%s': install it (%s)", g.Ruby, path, g.Missing, libraryHint(g.Missing))
	case !atLeast(g.Ruby, 2, 6):
		return fmt.Errorf("the Ruby %s (%s) is too old, 2.6 is the oldest that works: %s", g.Ruby, path, howToInstall)
	}
	return nil
}

const howToInstall = "use the embedded Ruby, or install one, 2.6 or newer (Debian, Ubuntu: apt install ruby; Fedora: dnf install ruby; macOS: brew install ruby)"

func libraryHint(library string) string {
	return fmt.Sprintf("Debian, Ubuntu: apt install ruby; Fedora: dnf install rubygem-%s; Arch: pacman -S ruby-%[1]s; others: gem install %[1]s", library)
}

// render sends one request and waits for its answer. It kills Ruby when ctx ends, or when
// a template takes too long; late reports the latter. After an error other than a
// formatError, the caller may only call stop.
func (r *ruby) render(ctx context.Context, cfg Config, req request) (a answer, late bool, err error) {
	line, err := json.Marshal(req)
	if err != nil {
		return a, false, &formatError{err}
	}
	late, err = within(ctx, cfg.Timeout, func(ctx context.Context) error {
		defer guard.AfterDone(ctx, r.kill)()
		if _, err := r.in.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("%w: %w", errGone, r.ended(err))
		}
		return r.read(ctx, &a)
	})
	for err == nil && a.State != "" {
		cfg.enter(a.State)
		limit := startTimeout
		if a.State == loaded {
			limit = cfg.Timeout
		}
		a = answer{}
		late, err = within(ctx, limit, func(ctx context.Context) error { return r.read(ctx, &a) })
	}
	return a, late, err
}

// within calls f with a deadline, and reports whether that has passed.
func within(ctx context.Context, limit time.Duration, f func(context.Context) error) (late bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err = f(ctx)
	return ctx.Err() != nil, err
}

// read reads the next line of the driver.
func (r *ruby) read(ctx context.Context, into any) error {
	stop := guard.AfterDone(ctx, r.kill)
	defer stop()
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return r.ended(err)
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("its answer is not JSON: %w", err)
	}
	return nil
}

// ended returns how Ruby ended, which explains more than the pipe's error.
func (r *ruby) ended(err error) error {
	r.stop()
	if r.cmd != nil && r.cmd.ProcessState != nil {
		return errors.New(r.cmd.ProcessState.String())
	}
	return err
}

// kill ends every wait for an answer.
func (r *ruby) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	if r.cmd != nil {
		process.KillGroup(r.cmd.Process.Pid)
	}
	// A daemon that a template started may hold the pipe open.
	_ = r.closer.Close()
}

// stop ends Ruby and the processes that Ruby started. It may be called again.
func (r *ruby) stop() {
	r.kill()
	r.mu.Lock()
	again := r.stopped
	r.stopped = true
	r.mu.Unlock()
	if again {
		return
	}
	_ = r.in.Close()
	if r.cmd != nil {
		_ = r.cmd.Wait()
	}
}

// environment returns the variables that a Ruby, or a version manager of that name,
// needs to start. RUBYOPT, GEM_HOME and the like are left out, because they change the
// results of rendering.
func environment(env []string) []string {
	keep := []string{
		"PATH", "HOME", "TMPDIR", "USER", "LOGNAME", "TZ", "SystemRoot", "TEMP", "TMP",
		"RBENV_ROOT", "RBENV_VERSION", "ASDF_DIR", "ASDF_DATA_DIR", "ASDF_RUBY_VERSION", "MISE_DATA_DIR", "MISE_CONFIG_DIR",
	}
	out := []string{"LANG=C.UTF-8"}
	for _, entry := range env {
		if name, _, _ := strings.Cut(entry, "="); slices.Contains(keep, name) {
			out = append(out, entry)
		}
	}
	return out
}

func variable(env []string, name string) string {
	var value string
	for _, entry := range env {
		if v, ok := strings.CutPrefix(entry, name+"="); ok {
			value = v
		}
	}
	return value
}

// lookUp returns the path of a program in the folders of path; empty if it is in none of
// them.
func lookUp(program, path string) string {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		if found, err := exec.LookPath(filepath.Join(dir, program)); err == nil {
			return found
		}
	}
	return ""
}

func atLeast(version string, major, minor int) bool {
	parts := strings.Split(version, ".")
	if len(parts) < 2 {
		return false
	}
	a, _ := strconv.Atoi(parts[0])
	b, _ := strconv.Atoi(parts[1])
	return a > major || a == major && b >= minor
}

// firstBytes is a writer that keeps only the beginning.
type firstBytes struct {
	mu   sync.Mutex
	kept []byte
}

func (b *firstBytes) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.kept = append(b.kept, p[:min(len(p), 300-len(b.kept))]...)
	return len(p), nil
}

func (b *firstBytes) text() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if text := bytes.TrimSpace(b.kept); len(text) > 0 {
		return ": " + strconv.QuoteToASCII(string(text))
	}
	return ""
}
