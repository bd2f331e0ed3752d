package sshd

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/local/machine"

	"github.com/creack/pty"
	"golang.org/x/crypto/ssh"

	"bootstrap/internal/process"
)

// endGrace is how long a command may take to end after TERM, and how long its last output
// may take to arrive after its end.
const endGrace = 2 * time.Second

// session is one command or shell of a user.
type session struct {
	vm      machine.VM
	log     *slog.Logger
	user    string
	home    string // empty: the VM's environment
	channel ssh.Channel
	term    string       // the variable TERM; empty without a terminal
	size    *pty.Winsize // nil without a terminal

	mu       sync.Mutex
	terminal *os.File // this end of it; nil while nothing is running in it
	stdout   *os.File // the output of the command; nil in a terminal and before the start
	deaf     bool     // the client does not read stdout any more
}

// serve answers the client's requests about a session, and runs one program.
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
		case "eow@openssh.com": // end of write: the client's reader has ended
			s.stopReading()
			ok = true
		case "shell", "exec":
			var want struct{ Command string }
			ok = !started && (r.Type == "shell" || ssh.Unmarshal(r.Payload, &want) == nil)
			if ok {
				started = true
				running.Go(guard.Part(ctx, func() { s.run(ctx, want.Command) }))
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

// stopReading closes the end of the pipe that the command writes to: its next write
// causes SIGPIPE, as in a shell's pipeline.
func (s *session) stopReading() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.deaf = true
	if s.stdout != nil {
		_ = s.stdout.Close()
	}
}

// run runs the command, or a shell if there is none, and sends its exit status.
func (s *session) run(ctx context.Context, command string) {
	defer s.channel.Close()
	argv := []string{"bash", "-l"}
	if command != "" {
		argv = []string{"bash", "-c", s.vm.ResolveAll(command)}
	}
	cmd := s.vm.Command(argv, "USER="+s.user, "LOGNAME="+s.user, "SHELL=/bin/bash")
	cmd.Dir = s.vm.Root()
	if s.home != "" {
		cmd.Env, cmd.Dir = append(cmd.Env, "HOME="+s.home), s.home
	}
	s.log.Info("an SSH user runs a command", "user", s.user, "terminal", s.size != nil)
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
		status = process.ExitCode(exit.ProcessState)
	default:
		_, _ = io.WriteString(s.channel.Stderr(), err.Error()+"\n")
	}
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status)}))
}

// inPipes runs cmd without a terminal. Processes that it leaves running may keep its
// output open for at most endGrace.
func (s *session) inPipes(ctx context.Context, cmd *exec.Cmd) error {
	process.OwnGroup(cmd)
	stdout, far, err := os.Pipe()
	if err != nil {
		return err
	}
	defer stdout.Close()
	cmd.Stdout, cmd.Stderr = far, s.channel.Stderr()
	cmd.WaitDelay = endGrace
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	_ = far.Close() // the command has a copy of its own
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.stdout = stdout
	if s.deaf {
		_ = stdout.Close()
	}
	s.mu.Unlock()
	guard.Go(ctx, func() {
		defer in.Close()
		_, _ = io.Copy(in, s.channel)
	})
	shown := s.show(ctx, stdout)
	_, err = process.Wait(ctx, cmd, func() time.Duration { return endGrace })
	await(shown)
	return err
}

// inTerminal runs cmd in a terminal of its own.
func (s *session) inTerminal(ctx context.Context, cmd *exec.Cmd) error {
	terminal, err := pty.StartWithSize(cmd, s.size)
	if err != nil {
		return err
	}
	defer terminal.Close()
	// The terminal's end shows a shell that the user has disconnected.
	defer guard.AfterDone(ctx, func() { terminal.Close() })()
	s.setTerminal(terminal)
	defer s.setTerminal(nil)
	guard.Go(ctx, func() { _, _ = io.Copy(terminal, s.channel) })
	shown := s.show(ctx, terminal)
	_, err = process.Wait(ctx, cmd, func() time.Duration { return endGrace })
	await(shown)
	return err
}

func (s *session) setTerminal(terminal *os.File) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.terminal = terminal
}

// show sends output to the client. The channel is closed at its end, when the last
// process that can write to it has ended.
func (s *session) show(ctx context.Context, output io.Reader) <-chan struct{} {
	shown := make(chan struct{})
	guard.Go(ctx, func() {
		defer close(shown)
		_, _ = io.Copy(s.channel, output)
	})
	return shown
}

// await waits for the end of the output, for endGrace at most.
func await(shown <-chan struct{}) {
	_ = wait.Event(context.Background(), endGrace, shown)
}
