package templates

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // for the driver
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
	"time"
)

//go:embed driver.rb
var driver string

// startTimeout is the deadline for a Ruby to come up; a cold disk takes seconds.
const startTimeout = 30 * time.Second

// request asks the driver for one template.
type request struct {
	File     string         `json:"file"`
	Template []byte         `json:"template"`
	Context  map[string]any `json:"context,omitempty"` // absent: that of the last request
}

// answer is a result or an error.
type answer struct {
	Result []byte     `json:"result"`
	Error  *rubyError `json:"error"`
}

type rubyError struct {
	Class      string   `json:"class"`
	Message    string   `json:"message"`
	Line       int      `json:"line"`
	Properties []string `json:"properties"`
	Link       string   `json:"link"`
}

// formatError is a context that is not JSON.
type formatError struct{ err error }

func (e *formatError) Error() string {
	return "its properties cannot be given to Ruby: " + e.err.Error()
}

// errGone is a Ruby that had ended before it was asked.
var errGone = errors.New("it was not running any more")

// ruby is a running driver.
type ruby struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	closer io.Closer // of out

	mu      sync.Mutex
	stopped bool // nothing may be sent to the process group any more
}

// startRuby starts the driver and waits until it can render.
func startRuby(ctx context.Context, cfg Config) (*ruby, error) {
	path := cfg.Ruby
	if path == "" {
		path = lookUp("ruby", variable(cfg.Env, "PATH"))
	}
	if path == "" {
		return nil, errors.New("it needs Ruby, and no ruby is on PATH: " + howToInstall)
	}
	r := &ruby{cmd: exec.Command(path, "-W0", "-EUTF-8", "-e", driver, "-e", "BootstrapTemplates.serve")}
	r.cmd.Env = environment(cfg.Env)
	ownGroup(r.cmd)
	var stderr firstBytes
	r.cmd.Stderr = &stderr
	// What a template left running may hold standard error open.
	r.cmd.WaitDelay = time.Second
	var err error
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
	var hello struct{ Ruby, Missing string }
	err = r.read(sctx, &hello)
	if err != nil {
		r.stop()
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, fmt.Errorf("%s does not work as a Ruby (%v)%s: %s", path, err, stderr.text(), howToInstall)
	}
	if hello.Missing != "" {
		r.stop()
		return nil, fmt.Errorf("the Ruby %s (%s) lacks its library '%s': install it (%s)", hello.Ruby, path, hello.Missing, libraryHint(hello.Missing))
	}
	if !atLeast(hello.Ruby, 2, 6) {
		r.stop()
		return nil, fmt.Errorf("the Ruby %s (%s) is too old, 2.6 is the oldest that works: %s", hello.Ruby, path, howToInstall)
	}
	return r, nil
}

const howToInstall = "install Ruby 2.6 or newer (Debian, Ubuntu: apt install ruby; Fedora: dnf install ruby; macOS: brew install ruby)"

func libraryHint(library string) string {
	return fmt.Sprintf("Debian, Ubuntu: apt install ruby; Fedora: dnf install rubygem-%s; Arch: pacman -S ruby-%[1]s; others: gem install %[1]s", library)
}

// render sends one request and waits for its answer. When ctx ends, Ruby is
// killed. After an error nothing but stop may be called, except after a
// formatError.
func (r *ruby) render(ctx context.Context, req request) (answer, error) {
	var a answer
	line, err := json.Marshal(req)
	if err != nil {
		return a, &formatError{err}
	}
	stop := context.AfterFunc(ctx, r.kill)
	defer stop()
	if _, err := r.in.Write(append(line, '\n')); err != nil {
		return a, fmt.Errorf("%w: %w", errGone, r.ended(err))
	}
	return a, r.read(ctx, &a)
}

// read reads the next line of the driver.
func (r *ruby) read(ctx context.Context, into any) error {
	stop := context.AfterFunc(ctx, r.kill)
	defer stop()
	line, err := r.out.ReadBytes('\n')
	if err != nil {
		return r.ended(err)
	}
	if err := json.Unmarshal(line, into); err != nil {
		return fmt.Errorf("its answer is no JSON: %w", err)
	}
	return nil
}

// ended says how Ruby ended, where the pipe only says that it did.
func (r *ruby) ended(err error) error {
	r.stop()
	if state := r.cmd.ProcessState; state != nil {
		return errors.New(state.String())
	}
	return err
}

// kill makes whoever waits for an answer stop waiting.
func (r *ruby) kill() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped {
		return
	}
	killGroup(r.cmd)
	// A daemon that a template started may hold the pipe open.
	_ = r.closer.Close()
}

// stop ends Ruby and what it has started. It may be called again.
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
	_ = r.cmd.Wait()
}

// environment keeps what a Ruby, or the version manager behind that name,
// needs to start. RUBYOPT, GEM_HOME and the like are left out: they change what
// is rendered.
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

// lookUp finds a program in the folders of path, empty if there is none.
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

// firstBytes keeps the beginning of what is written to it.
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
