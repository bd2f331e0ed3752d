package source

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/process"
	"bootstrap/manifest/document"
)

// noValue is the exit code of a program without a value for a variable.
const noValue = 3

// program asks a program for each variable.
type program struct {
	config Config
	path   string
	found  string // its absolute path
}

func (p *program) open(context.Context) (err error) {
	path, err := document.ExpandHome(p.path)
	if err == nil {
		p.found, err = exec.LookPath(path)
	}
	if failed, ok := errors.AsType[*exec.Error](err); ok {
		err = document.Cause(failed.Err)
	}
	if err != nil {
		return fmt.Errorf("cannot run the program: %w", err)
	}
	p.found, err = filepath.Abs(p.found)
	return err
}

func (p *program) find(ctx context.Context, name string) (any, error) {
	out, code, err := p.config.run(ctx, p.found, passedVariables(), name)
	text := strings.TrimSpace(string(out))
	switch {
	case code == noValue:
		return nil, nil
	case err != nil:
		return nil, err
	case text == "":
		return nil, nil
	}
	value, err := document.ParseAnswer(string(out))
	switch {
	case err != nil:
		return nil, fmt.Errorf("cannot read its output as YAML: %w", err)
	case value == nil && strings.HasPrefix(text, "#"):
		return nil, errors.New("it printed a text that begins with #, which YAML reads as a comment: let it print quotes around it")
	}
	return value, nil
}

// sops reads the values of an encrypted file.
type sops struct {
	config Config
	file   string
	values map[string]any
}

func (s *sops) open(ctx context.Context) error {
	file, err := document.ExpandHome(s.file)
	if err == nil {
		file, err = filepath.Abs(file)
	}
	if err == nil {
		_, err = os.Stat(file)
	}
	if err != nil {
		return &document.FileError{Err: fmt.Errorf("cannot read the file: %w", document.Cause(err))}
	}
	path, err := exec.LookPath("sops")
	if err != nil {
		return errors.New("the program sops is not in PATH: install sops 3 (github.com/getsops/sops)")
	}
	// All versions accept -d; the subcommand decrypt exists since 3.9.
	out, _, err := s.config.run(ctx, path, append(passedVariables(), sopsVariables()...), "-d", "--output-type", "json", file)
	if err != nil {
		return err
	}
	value, err := fromJSON(out)
	if err != nil {
		return err
	}
	values, ok := value.(map[string]any)
	if !ok {
		return errors.New("the file is not a map of names to values")
	}
	s.values = values
	return nil
}

func (s *sops) find(_ context.Context, name string) (any, error) { return s.values[name], nil }

// passedVariables lists environment variables that are passed to programs. A name that ends with an
// underscore stands for all names with that prefix.
func passedVariables() []string {
	return []string{"PATH", "HOME", "USER", "LANG", "TMPDIR", "SystemRoot"}
}

// sopsVariables lists the variables in which sops looks for its keys.
func sopsVariables() []string {
	return []string{"SOPS_", "AWS_", "AZURE_", "GOOGLE_", "VAULT_", "XDG_", "GNUPGHOME", "GPG_TTY", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"}
}

// environment returns the variables of the list, and those of --pass-env.
func (c Config) environment(list []string) []string {
	return slices.DeleteFunc(slices.Clone(c.Environ), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		return !slices.Contains(c.PassEnv, name) && !slices.ContainsFunc(list, func(one string) bool {
			return name == one || strings.HasSuffix(one, "_") && strings.HasPrefix(name, one)
		})
	})
}

// endTime is how long a program may take to end after its deadline.
const endTime = time.Second

// run runs a program without standard input, and returns its output and its exit code.
// If the program failed, the error contains the end of its standard error.
func (c Config) run(ctx context.Context, path string, variables []string, args ...string) (out []byte, code int, err error) {
	cmd := exec.Command(path, args...)
	cmd.Env, cmd.Dir = c.environment(variables), c.dir
	process.OwnGroup(cmd)
	cmd.WaitDelay = endTime // a child of the program may keep the output open
	var stdout limited
	var stderr tail
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return nil, 0, fmt.Errorf("cannot run the program: %w", document.Cause(err))
	}
	ended, err := process.Wait(ctx, cmd, func() time.Duration { return endTime })
	if ended {
		process.KillGroup(cmd.Process.Pid) // its children may have ignored the signal
		return nil, 0, cmp.Or(context.Cause(ctx), err)
	}
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	code = cmd.ProcessState.ExitCode()
	switch words := brief(string(stderr.data)); {
	case stdout.over:
		return nil, 0, errTooLong
	case err != nil && words != "":
		return nil, code, fmt.Errorf("the program ends with %w: %s", err, words)
	case err != nil:
		return nil, code, fmt.Errorf("the program ends with %w", err)
	}
	return stdout.data.Bytes(), code, nil
}

// limited keeps the beginning of its input, up to the limit of an answer.
type limited struct {
	data bytes.Buffer
	over bool
}

func (l *limited) Write(p []byte) (int, error) {
	if l.data.Len()+len(p) > maxAnswer {
		l.over = true
		return 0, errTooLong
	}
	return l.data.Write(p)
}

// tail keeps the end of its input.
type tail struct{ data []byte }

func (t *tail) Write(p []byte) (int, error) {
	t.data = append(t.data, p...)
	if over := len(t.data) - 4096; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}
