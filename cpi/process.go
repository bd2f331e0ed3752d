package cpi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"bootstrap/internal/process"
	"bootstrap/internal/scratch"
	"bootstrap/internal/wait"
)

// How much of a call's output is read. A longer standard output is an error; of a longer
// standard error, only the end is read.
const (
	maxStdout = 32 << 20
	maxStderr = 4 << 20
)

// output is what one process wrote, and how it ended.
type output struct {
	stdout  []byte
	stderr  string
	status  string // empty for success
	timeout time.Duration
}

// run starts the CPI in its own process group and waits for its end. All three streams
// are files, so that the CPI survives the end of this process. A CPI that runs is not
// killed when the context ends.
func (c *Client) run(ctx context.Context, method string, request []byte) (output, error) {
	cannot := func(err error) (output, error) {
		return output{}, &StartError{Method: method, Err: fmt.Errorf("cannot start the CPI: %w", err)}
	}
	stdin, err := scratch.Unnamed()
	if err != nil {
		return cannot(err)
	}
	defer scratch.Discard(stdin)
	if _, err := stdin.Write(request); err != nil {
		return cannot(err)
	}
	stderr, err := scratch.Unnamed()
	if err != nil {
		return cannot(err)
	}
	defer scratch.Discard(stderr)
	stdout, err := c.record.open(ctx)
	if err != nil {
		return cannot(err)
	}
	defer c.record.close(stdout)

	cmd, err := c.start(ctx, stdin, stdout, stderr)
	if err != nil {
		return cannot(err)
	}
	defer c.cfg.Running.begin(method, cmd.Process.Pid)()
	c.record.started(cmd.Process.Pid)
	c.trace(method, "running", func() { process.KillGroup(cmd.Process.Pid) })
	var out output
	if c.wait(ctx, cmd) {
		out.timeout = c.cfg.Timeout
	}
	if !cmd.ProcessState.Success() {
		out.status = cmd.ProcessState.String()
	}
	if out.stdout, err = readHead(stdout, maxStdout+1); err != nil {
		return output{}, fmt.Errorf("cannot read the CPI's reply to %s: %w", method, err)
	}
	if out.stderr, err = readTail(stderr, maxStderr); err != nil {
		return output{}, fmt.Errorf("cannot read the CPI's messages of %s: %w", method, err)
	}
	return out, nil
}

// briefly limits how long a process that is being started may hold a file.
const briefly = 5 * time.Second

// start starts the process. If that fails because a child that another goroutine forks
// still holds a new bin/cpi open for writing, it tries again.
func (c *Client) start(ctx context.Context, stdin, stdout, stderr *os.File) (*exec.Cmd, error) {
	limited, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	for {
		if _, err := stdin.Seek(0, io.SeekStart); err != nil {
			return nil, err
		}
		cmd := exec.Command(c.cfg.Path) // #nosec G204 -- the CPI is what a deploy runs
		cmd.Env = c.cfg.Env
		if cmd.Env == nil {
			cmd.Env = []string{} // nil would be our own environment
		}
		cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
		process.OwnGroup(cmd)
		err := cmd.Start()
		if err == nil {
			return cmd, nil
		}
		if !busy(err) || wait.For(limited, 5*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// wait waits for the end of the process. After the timeout it ends the whole
// process group, by TERM and then by KILL, and returns true.
func (c *Client) wait(ctx context.Context, cmd *exec.Cmd) (late bool) {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.cfg.Timeout)
	defer cancel()
	// ProcessState contains the error, too.
	late, _ = process.Wait(limited, cmd, func() time.Duration { return c.cfg.Grace })
	if late {
		process.KillGroup(cmd.Process.Pid) // kills the processes that the CPI has left running
	}
	return late
}

// logLines writes text to the log, each line after the method's name. The text
// is redacted as a whole, because a secret may have several lines.
func (c *Client) logLines(method, text string) {
	text = strings.TrimRight(c.cfg.Redact(text), "\n")
	if text == "" {
		return
	}
	var lines bytes.Buffer
	for line := range strings.SplitSeq(text, "\n") {
		fmt.Fprintf(&lines, "%s: %s\n", method, strings.TrimRight(line, "\r"))
	}
	c.shared.log.Lock()
	defer c.shared.log.Unlock()
	// A call that did its work must not fail because of its log.
	_, _ = c.cfg.Log.Write(lines.Bytes())
}

func readHead(f *os.File, n int64) ([]byte, error) {
	return io.ReadAll(io.NewSectionReader(f, 0, n))
}

func readTail(f *os.File, n int64) (string, error) {
	info, err := f.Stat()
	if err != nil {
		return "", err
	}
	from := max(0, info.Size()-n)
	text, err := io.ReadAll(io.NewSectionReader(f, from, n))
	if err != nil && !errors.Is(err, io.EOF) {
		return "", err
	}
	if from > 0 {
		// The first line is incomplete: a secret in it may be, too, and the
		// redactor would not recognize that.
		_, text, _ = bytes.Cut(text, []byte("\n"))
		return "…\n" + string(text), nil
	}
	return string(text), nil
}
