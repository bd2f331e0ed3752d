package secrets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/term"

	"bootstrap/internal/guard"
)

// Ask asks on a terminal for the passphrase of what; if confirm is true, for a new
// one, twice.
func Ask(ctx context.Context, in *os.File, screen io.Writer, what string, confirm bool) (string, error) {
	question := "Passphrase of " + what + ": "
	if confirm {
		question = "New passphrase of " + what + ": "
	}
	first, err := hidden(ctx, in, screen, question)
	if err != nil || !confirm {
		return first, err
	}
	second, err := hidden(ctx, in, screen, "The same again: ")
	if err == nil && first != second {
		err = errors.New("the two passphrases differ; run the same command again")
	}
	return first, err
}

// hidden reads a line that the terminal does not show.
func hidden(ctx context.Context, in *os.File, screen io.Writer, question string) (string, error) {
	state, err := term.GetState(int(in.Fd()))
	if err != nil {
		return "", err
	}
	if _, err := fmt.Fprint(screen, question); err != nil {
		return "", err
	}
	type answer struct {
		text []byte
		err  error
	}
	done := make(chan answer, 1)
	guard.Go(ctx, func() {
		// A read from a terminal cannot be interrupted, but the process ends soon.
		text, err := term.ReadPassword(int(in.Fd()))
		done <- answer{text, err}
	})
	select {
	case a := <-done:
		_, _ = fmt.Fprintln(screen)
		if errors.Is(a.err, io.EOF) {
			a.err = errors.New("no passphrase was given")
		}
		return string(a.text), a.err
	case <-ctx.Done():
		_ = term.Restore(int(in.Fd()), state) // ReadPassword has switched the echo off
		_, _ = fmt.Fprintln(screen)
		return "", context.Cause(ctx)
	}
}
