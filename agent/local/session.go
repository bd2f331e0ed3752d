package local

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"
)

// serveClient serves one connection until it or the server ends.
func (l *logins) serveClient(raw net.Conn, config *ssh.ServerConfig) {
	ctx, cancel := context.WithCancel(l.ctx)
	defer cancel()
	defer raw.Close()
	defer context.AfterFunc(ctx, func() { raw.Close() })()
	_ = raw.SetDeadline(time.Now().Add(sshHandshake))
	conn, channels, requests, err := ssh.NewServerConn(raw, config)
	if err != nil {
		l.vm.log.Warn("an SSH user was not admitted", "cause", err)
		return
	}
	_ = raw.SetDeadline(time.Time{})
	defer conn.Close()
	if !l.enter(conn) {
		return
	}
	defer l.leave(conn)
	l.vm.log.Info("an SSH user came", "user", conn.User())
	var parts sync.WaitGroup
	defer parts.Wait()
	parts.Go(func() { ssh.DiscardRequests(requests) })
	parts.Go(func() { keepAlive(ctx, conn) })
	parts.Go(func() {
		for asked := range channels {
			if asked.ChannelType() != "session" {
				_ = asked.Reject(ssh.UnknownChannelType, "this server runs commands and shells only")
				continue
			}
			channel, requests, err := asked.Accept()
			if err != nil {
				continue
			}
			s := &session{vm: l.vm, user: conn.User(), channel: channel}
			parts.Go(func() { s.serve(ctx, requests) })
		}
	})
	_ = conn.Wait()
	cancel()
}

// session is one command or shell of a user.
type session struct {
	vm      *vm
	user    string
	channel ssh.Channel
	term    string       // TERM; empty without a terminal
	size    *pty.Winsize // nil without a terminal

	mu       sync.Mutex
	terminal *os.File // the near end, while something runs in it
}

// serve answers what the client asks of a session, and runs one program.
func (s *session) serve(ctx context.Context, requests <-chan *ssh.Request) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer func() { cancel(); running.Wait() }()
	started := false
	for r := range requests {
		ok := false
		switch r.Type {
		case "pty-req":
			var want struct {
				Term                         string
				Columns, Rows, Width, Height uint32
				Modes                        string
			}
			if ok = ssh.Unmarshal(r.Payload, &want) == nil && !started; ok {
				s.term, s.size = want.Term, &pty.Winsize{Cols: uint16(want.Columns), Rows: uint16(want.Rows)}
			}
		case "window-change":
			var want struct{ Columns, Rows, Width, Height uint32 }
			if ok = ssh.Unmarshal(r.Payload, &want) == nil; ok {
				s.resize(&pty.Winsize{Cols: uint16(want.Columns), Rows: uint16(want.Rows)})
			}
		case "shell", "exec":
			var want struct{ Command string }
			ok = !started && (r.Type == "shell" || ssh.Unmarshal(r.Payload, &want) == nil)
			if ok {
				started = true
				running.Go(func() { s.run(ctx, want.Command) })
			}
		}
		if r.WantReply {
			_ = r.Reply(ok, nil)
		}
	}
}

func (s *session) resize(size *pty.Winsize) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.terminal != nil {
		_ = pty.Setsize(s.terminal, size)
	}
}

// run runs the command, a shell if there is none, and tells its exit status.
func (s *session) run(ctx context.Context, command string) {
	defer s.channel.Close()
	argv := []string{"bash", "-l"}
	if command != "" {
		argv = []string{"bash", "-c", s.vm.resolveAll(command)}
	}
	cmd := s.vm.command(argv, "USER="+s.user, "LOGNAME="+s.user, "SHELL=/bin/bash")
	cmd.Dir = s.vm.root
	s.vm.log.Info("an SSH user runs something", "user", s.user, "terminal", s.size != nil)
	var err error
	if s.size != nil {
		cmd.Env = append(cmd.Env, "TERM="+s.term)
		err = s.inTerminal(ctx, cmd)
	} else {
		err = s.inPipes(ctx, cmd)
	}
	status := 255
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay):
		status = 0
	case errors.As(err, &exit):
		status = exitCode(exit.ProcessState)
	default:
		_, _ = io.WriteString(s.channel.Stderr(), err.Error()+"\n")
	}
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

// inPipes runs cmd without a terminal. What it leaves behind may hold its
// output for a moment only.
func (s *session) inPipes(ctx context.Context, cmd *exec.Cmd) error {
	ownGroup(cmd)
	cmd.Stdout, cmd.Stderr = s.channel, s.channel.Stderr()
	cmd.WaitDelay = endGrace
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	go func() {
		_, _ = io.Copy(in, s.channel)
		_ = in.Close()
	}()
	return s.wait(ctx, cmd)
}

// inTerminal runs cmd in a terminal of its own.
func (s *session) inTerminal(ctx context.Context, cmd *exec.Cmd) error {
	terminal, err := pty.StartWithSize(cmd, s.size)
	if err != nil {
		return err
	}
	defer terminal.Close()
	// A shell that nobody sees any more is told so by its terminal.
	defer context.AfterFunc(ctx, func() { terminal.Close() })()
	s.mu.Lock()
	s.terminal = terminal
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.terminal = nil
		s.mu.Unlock()
	}()
	go func() { _, _ = io.Copy(terminal, s.channel) }()
	shown := make(chan struct{})
	go func() {
		defer close(shown)
		_, _ = io.Copy(s.channel, terminal) // ends when the last one in the terminal has ended
	}()
	err = s.wait(ctx, cmd)
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case <-shown:
	case <-timer.C:
	}
	return err
}

// wait waits for cmd; its group is ended when the user has gone.
func (s *session) wait(ctx context.Context, cmd *exec.Cmd) error {
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
	}
	endGroup(cmd.Process.Pid, false)
	timer := time.NewTimer(endGrace)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
	}
	endGroup(cmd.Process.Pid, true)
	return <-done
}
