package local

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// guestRoot is what a real VM calls the folder that is $VCAP_ROOT here.
const guestRoot = "/var/vcap"

// How long a script may take to end when it was cancelled by a message, and
// when the agent itself has to end.
const (
	cancelGrace = 10 * time.Second
	endGrace    = 2 * time.Second
)

// command makes the process that runs a program inside the VM. Everything that the VM runs comes from here, or has the
// environment made here, except packaging scripts (artifact/packaging): this
// is where a mount namespace with a real /var/vcap is to come in.
func (v *vm) command(argv []string, env ...string) *exec.Cmd {
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Dir = v.path("bosh")
	cmd.Env = append(v.env(), env...)
	return cmd
}

// env is the environment of everything inside the VM. VCAP_ROOT names the VM:
// by it the CPI finds what is left of one. Nothing of the agent's own
// environment is passed on.
func (v *vm) env() []string {
	lang := "C.UTF-8"
	if runtime.GOOS == "darwin" {
		lang = "en_US.UTF-8"
	}
	return []string{
		"PATH=" + guestPath(),
		"VCAP_ROOT=" + v.root,
		"HOME=" + v.path("data", "home"),
		"TMPDIR=" + v.path("data", "tmp"),
		"LANG=" + lang,
	}
}

// guestPath is the PATH of a real VM's scripts and what a laptop needs beside.
func guestPath() string {
	path := "/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/bin"
	if runtime.GOOS == "darwin" {
		path += ":/opt/homebrew/bin"
	}
	return path
}

// resolve maps a path as jobs write it to where it is on this machine.
func (v *vm) resolve(path string) string {
	if path == guestRoot || strings.HasPrefix(path, guestRoot+"/") {
		return v.root + path[len(guestRoot):]
	}
	return path
}

// resolveAll maps every path in a text, such as a command for a shell.
func (v *vm) resolveAll(text string) string {
	inPath := func(c byte) bool {
		return c == '.' || c == '-' || c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
	}
	var out strings.Builder
	for {
		i := strings.Index(text, guestRoot)
		if i < 0 {
			return out.String() + text
		}
		end := i + len(guestRoot)
		whole := (i == 0 || !inPath(text[i-1]) && text[i-1] != '/') && (end == len(text) || !inPath(text[end]))
		out.WriteString(text[:i])
		if whole {
			out.WriteString(v.root)
		} else {
			out.WriteString(guestRoot)
		}
		text = text[end:]
	}
}

// run runs a script in a process group of its own and waits for it; when ctx ends first, its group is asked to end
// and, after a grace period, made to. The error is then the cause of the context's
// end. Output must go to files: a daemon that a script leaves behind would
// keep a pipe open.
func run(ctx context.Context, cmd *exec.Cmd, started func(pid int)) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	ownGroup(cmd)
	if err := cmd.Start(); err != nil {
		return err
	}
	if started != nil {
		started(cmd.Process.Pid)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	endGroup(cmd.Process.Pid, false)
	grace := endGrace
	if errors.Is(context.Cause(ctx), errCanceled) {
		grace = cancelGrace
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
		endGroup(cmd.Process.Pid, true)
		<-done
	}
	return context.Cause(ctx)
}

// exited tells whether the error of run is that of a process that ran.
func exited(err error) bool {
	var exit *exec.ExitError
	return err == nil || errors.As(err, &exit)
}

// captured is a file that takes output, removed when it is closed.
type captured struct{ *os.File }

func (v *vm) capture() (*captured, error) {
	f, err := os.CreateTemp(v.temp(), "output-")
	if err != nil {
		return nil, err
	}
	return &captured{f}, nil
}

func (c *captured) text() (string, error) {
	data, err := os.ReadFile(c.Name())
	return string(data), err
}

func (c *captured) close() {
	_ = c.File.Close()
	_ = os.Remove(c.Name())
}

// monitCommand makes the process of a start or stop program. Unmodified
// releases name what they installed below /var/vcap.
func (v *vm) monitCommand(_ context.Context, argv []string) *exec.Cmd {
	mapped := make([]string, len(argv))
	for i, arg := range argv {
		mapped[i] = v.resolveAll(arg)
	}
	return v.command(mapped)
}
