package cpi

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/regular"
	"bootstrap/internal/scratch"
	"bootstrap/internal/wait"
)

// record is the file for the replies of a client's calls; nil: a temporary file.
type record struct {
	file string
}

// Recorded returns a client whose calls write the CPI's reply to file, mode 0600, and the
// CPI's process to a file beside it. If this process is killed, the CPI still finishes,
// and Recover returns its reply. Each call overwrites the file.
func (c *Client) Recorded(file string) *Client {
	recorded := *c
	recorded.record = &record{file: file}
	return &recorded
}

// announced is the content of a reply's file until the CPI is about to be
// started.
const announced = "the CPI is not started yet\n"

// ErrNotBegun says that a recorded call was announced, but that its CPI was not started.
var ErrNotBegun = errors.New("the CPI was not started")

// Announce makes the file of a reply before the call. As long as the file is
// unchanged, the call has certainly not begun. A missing file proves nothing.
func Announce(file string) error {
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(announced)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = atomicfile.SyncDir(filepath.Dir(file))
	}
	if err != nil {
		_ = os.Remove(file)
	}
	return err
}

// Recover returns the CID that a recorded call returned; empty for a call that deletes,
// or that did not change the CID of a disk. If the CPI process that writes file still
// runs, Recover waits for its end. The error is ErrNotBegun for a call that was only
// announced, and an fs.ErrNotExist, which proves nothing, if there is no file. Other
// errors are those of the call. waiting, unless nil, is called once with the process if
// Recover has to wait for it; its PID is 0 if unknown.
func (c *Client) Recover(ctx context.Context, method, file string, waiting func(Child)) (string, error) {
	stdout, err := finished(ctx, file, waiting)
	if err == nil && string(stdout) == announced {
		err = ErrNotBegun
	}
	if err != nil {
		return "", fmt.Errorf("cannot read the CPI's reply to %s: %w", method, err)
	}
	reply, err := decodeReply(method, output{stdout: stdout}, c.cfg.Redact)
	if err != nil {
		return "", err
	}
	if reply.Error != nil {
		return "", c.refused(method, reply.Error)
	}
	switch {
	case strings.HasPrefix(method, "delete_") || method == "resize_disk":
		return "", nil
	case method == "update_disk":
		return c.decodeNewCID(method, reply.Result)
	}
	vm, err := c.decodeVM(method, reply.Result)
	return vm.CID, err
}

// finished returns the content of the file when its writer has ended. If the content is a
// complete result, it is returned at once. When the CPI process itself has ended, any
// content is returned, because processes that the CPI left running may hold the file open
// for ever.
func finished(ctx context.Context, file string, waiting func(Child)) ([]byte, error) {
	f, _, err := regular.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for {
		writing, err := beingWritten(f)
		if err != nil {
			return nil, err
		}
		child, known := childOf(file)
		if known && !child.runs() {
			writing = false
		}
		stdout, err := readHead(f, maxStdout+1)
		if err != nil || !writing {
			return stdout, err
		}
		if reply, err := parseReply(stdout); err == nil && reply.Error == nil {
			return stdout, nil
		}
		if waiting != nil {
			waiting(child)
			waiting = nil
		}
		if err := wait.For(ctx, 50*time.Millisecond); err != nil {
			return nil, fmt.Errorf("the CPI still runs: %w", err)
		}
	}
}

func (r *record) open(ctx context.Context) (*os.File, error) {
	if r == nil {
		return scratch.Unnamed()
	}
	f, err := os.OpenFile(r.file, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := r.lock(ctx, f); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s is in use: %w", r.file, err)
	}
	// After this, the file no longer proves that the call has not begun, even after a
	// power failure.
	_ = os.Remove(childFile(r.file))
	if err := errors.Join(f.Truncate(0), f.Sync(), atomicfile.SyncDir(filepath.Dir(r.file))); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// lock locks the reply. It waits, because a child that another goroutine forks may hold
// the file of an earlier call for a moment.
func (r *record) lock(ctx context.Context, f *os.File) error {
	ctx, cancel := context.WithTimeout(ctx, briefly)
	defer cancel()
	for {
		err := lockReply(f)
		if err == nil {
			return nil
		}
		if child, known := childOf(r.file); known && child.runs() {
			return err
		}
		if wait.For(ctx, 5*time.Millisecond) != nil {
			return err
		}
	}
}

func (r *record) close(f *os.File) {
	if r == nil {
		scratch.Discard(f)
		return
	}
	_ = f.Close()
}

// started records which process writes the reply.
func (r *record) started(pid int) {
	if r != nil {
		recordChild(r.file, pid)
	}
}
