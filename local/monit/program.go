package monit

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"bootstrap/internal/process"
)

// A program is the process of a start, stop, restart or exec statement: a child
// of this process, which may become the service itself.
type program struct {
	pid     int
	began   time.Time
	ended   bool
	err     error     // error of a program that has ended
	killAt  time.Time // when it is killed, after it was asked to end
	cancel  func()    // goroutine that watches it; nil: none
	command string
}

// launch executes argv in its own session.
func (s *Supervisor) launch(argv []string) (*program, error) {
	cmd := s.cfg.Command(context.WithoutCancel(s.ctx), argv)
	process.OwnSession(cmd)
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("cannot run %s: %w", argv[0], startError(err))
	}
	p := &program{pid: cmd.Process.Pid, began: time.Now(), command: argv[0]}
	// The loop collects it: a waiting goroutine would live as long as a program that
	// becomes the service.
	_ = cmd.Process.Release()
	p.cancel, _ = process.Watch(s.ctx, p.pid, s.poke)
	s.children[p.pid] = p
	return p, nil
}

// startError removes the path, because the caller names it in the user's words.
func startError(err error) error {
	if e, ok := err.(*exec.Error); ok {
		return e.Err
	}
	return err
}

// collect collects children that have ended, and kills those that exceeded their time
// to end.
func (s *Supervisor) collect() {
	for pid, p := range s.children {
		ended, err := reap(pid)
		if ended {
			p.ended, p.err = true, err
			p.unwatch()
			delete(s.children, pid)
			continue
		}
		if !p.killAt.IsZero() && !time.Now().Before(p.killAt) {
			process.KillGroup(pid)
		}
	}
}

func (p *program) unwatch() {
	if p.cancel != nil {
		p.cancel()
		p.cancel = nil
	}
}

// running reports whether the program is still running; false for nil.
func (p *program) running() bool { return p != nil && !p.ended }

const killDelay = 2 * time.Second

// end asks the program and its children to end; collect kills them later.
func (p *program) end(now time.Time) {
	if p.killAt.IsZero() {
		p.killAt = now.Add(killDelay)
		process.TerminateGroup(p.pid)
	}
}
