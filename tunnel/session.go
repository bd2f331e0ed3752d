package tunnel

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"slices"

	"golang.org/x/crypto/ssh"

	"bootstrap/internal/guard"
)

// Session is a command or a shell on another machine.
type Session struct {
	Command        string // empty: a login shell
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       *Terminal // nil: the session has no terminal
}

// Terminal is the user's terminal.
type Terminal struct {
	Type    string // TERM
	Size    func() (columns, rows int)
	Resized <-chan struct{} // signals that Size has changed
	// Raw passes every key to the other side until restore is called.
	Raw func() (restore func(), err error)
}

// Run logs in to cfg's machine and runs the session to its end. It returns the exit
// status like a shell, and ends the session when ctx ends.
func Run(ctx context.Context, cfg Config, s Session) (status int, err error) {
	cfg.setDefaults()
	a, err := newAuth(cfg)
	if err != nil {
		return 0, fmt.Errorf("cannot log in to %s: %w", cfg.address(), err)
	}
	client, err := a.dial(ctx)
	if err != nil {
		return 0, fmt.Errorf("cannot log in to %s: %w", cfg.address(), err)
	}
	defer watch(ctx, client, cfg.KeepAlive)()
	defer guard.AfterDone(ctx, func() { _ = client.Close() })()
	session, err := client.NewSession()
	if err != nil {
		return 0, fmt.Errorf("cannot start a session on %s: %w", cfg.address(), err)
	}
	defer session.Close()
	session.Stdout, session.Stderr = s.Stdout, s.Stderr
	// Not session.Stdin: Wait would wait for the reader, perhaps a keyboard.
	in, err := session.StdinPipe()
	if err != nil {
		return 0, err
	}
	if s.Terminal != nil {
		restore, err := s.Terminal.enter(ctx, session)
		if err != nil {
			return 0, err
		}
		defer restore()
	}
	if s.Command == "" {
		err = session.Shell()
	} else {
		err = session.Start(s.Command)
	}
	if err != nil {
		return 0, fmt.Errorf("cannot run the command on %s: %w", cfg.address(), err)
	}
	guard.Go(ctx, func() {
		defer in.Close()
		if s.Stdin != nil {
			_, _ = io.Copy(in, s.Stdin)
		}
	})
	return ended(ctx, cfg, session.Wait())
}

// ended converts the end of a session to an exit status.
func ended(ctx context.Context, cfg Config, err error) (int, error) {
	var exit *ssh.ExitError
	switch {
	case err == nil:
		return 0, nil
	case errors.As(err, &exit) && exit.Signal() != "":
		return 128 + signalNumber(exit.Signal()), nil
	case errors.As(err, &exit):
		return exit.ExitStatus(), nil
	case ctx.Err() != nil:
		return 0, ctx.Err()
	}
	return 0, fmt.Errorf("the session on %s was interrupted: %w", cfg.address(), err)
}

// signalNumber returns the number of a signal that RFC 4254 names.
func signalNumber(name string) int {
	names := []string{"HUP", "INT", "QUIT", "ILL", "TRAP", "ABRT", "BUS", "FPE", "KILL", "USR1", "SEGV", "USR2", "PIPE", "ALRM", "TERM"}
	return slices.Index(names, name) + 1
}

// enter requests a terminal for the session.
func (t *Terminal) enter(ctx context.Context, session *ssh.Session) (restore func(), err error) {
	columns, rows := t.Size()
	if err := session.RequestPty(t.Type, rows, columns, ssh.TerminalModes{}); err != nil {
		return nil, fmt.Errorf("cannot get a terminal: %w", err)
	}
	cook, err := t.Raw()
	if err != nil {
		return nil, err
	}
	done := make(chan struct{})
	guard.Go(ctx, func() {
		for {
			select {
			case <-done:
				return
			case <-t.Resized:
				columns, rows := t.Size()
				_ = session.WindowChange(rows, columns)
			}
		}
	})
	return func() { close(done); cook() }, nil
}

// OneTimeKey generates a key for one login, and returns the private one as PEM and
// the public one as a line of authorized_keys.
func OneTimeKey() (private, public string, err error) {
	public25519, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return "", "", fmt.Errorf("cannot make a key: %w", err)
	}
	block, err := ssh.MarshalPrivateKey(key, "")
	if err != nil {
		return "", "", fmt.Errorf("cannot make a key: %w", err)
	}
	line, err := ssh.NewPublicKey(public25519)
	if err != nil {
		return "", "", fmt.Errorf("cannot make a key: %w", err)
	}
	return string(pem.EncodeToMemory(block)), string(bytes.TrimSpace(ssh.MarshalAuthorizedKey(line))), nil
}
