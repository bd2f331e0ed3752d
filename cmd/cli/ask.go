package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/internal/guard"
)

// Asking has the flags of a command about its questions.
type Asking struct {
	yes, silent bool
}

// Flags adds the flags of commands that ask.
func (a *Asking) Flags(f *pflag.FlagSet) {
	f.BoolVarP(&a.yes, "yes", "y", false, "never prompt: answer yes to every question")
	f.BoolVarP(&a.silent, "non-interactive", "n", false, "the same as --yes")
}

// NeverAsks reports whether the person does not want to be asked.
func (c *Console) NeverAsks() bool { return c.given.neverAsks }

// Stopped returns the error of a command that a signal ended while it asked.
func Stopped() error { return &deployer.NotConfirmedError{Interrupted: true} }

// Confirm returns the function that asks; nil: every answer is yes. Without a terminal on
// standard input, the function does not ask: it refuses to destroy data, and allows
// everything else.
func (c *Console) Confirm(a Asking) func(context.Context, deployer.Question) (bool, error) {
	if a.yes || a.silent || c.given.neverAsks {
		return nil
	}
	return func(ctx context.Context, q deployer.Question) (bool, error) {
		in := c.input()
		if in == nil {
			if q.Data {
				return false, &deployer.UnaskedError{What: q.What}
			}
			return true, nil
		}
		d, err := c.dialogueOn(in)
		if err != nil {
			return false, &deployer.UnaskedError{What: q.What}
		}
		defer d.Close()
		text, err := d.ask(ctx, false, func() error {
			w := c.Writer(d.screen)
			ui.Ask(w, q.What)
			return w.Flush()
		})
		if _, unseen := errors.AsType[*unseenError](err); unseen {
			return false, &deployer.UnaskedError{What: q.What}
		}
		if ctx.Err() != nil {
			return false, Stopped()
		}
		if err != nil && !errors.Is(err, io.EOF) {
			text = ""
		}
		typed := strings.ToLower(strings.TrimSpace(text))
		return typed == "y" || typed == "yes", nil
	}
}

// Agreed asks with the result of Confirm, and returns an error unless the answer is yes.
func Agreed(ctx context.Context, confirm func(context.Context, deployer.Question) (bool, error), q deployer.Question) error {
	if confirm == nil {
		return nil
	}
	yes, err := confirm(ctx, q)
	if err == nil && !yes {
		err = &deployer.NotConfirmedError{}
	}
	return err
}

// Dialogue asks the person at the terminal.
type Dialogue struct {
	c           *Console
	in          *os.File
	screen      io.Writer
	closeScreen func()
}

// CanAsk reports whether there is a terminal and questions are allowed.
func (c *Console) CanAsk() bool { return !c.given.neverAsks && c.input() != nil }

// Dialogue returns a dialogue with the person at the terminal; nil if questions are
// impossible. The caller must close it.
func (c *Console) Dialogue() *Dialogue {
	if !c.CanAsk() {
		return nil
	}
	d, err := c.dialogueOn(c.input())
	if err != nil {
		return nil
	}
	return d
}

// dialogueOn shows questions on standard output or standard error, if one of them is a
// terminal, or on the controlling terminal of the process. With JSON it is never standard
// output.
func (c *Console) dialogueOn(in *os.File) (*Dialogue, error) {
	streams := []io.Writer{c.Stdout, c.Stderr}
	if c.json {
		streams = streams[1:]
	}
	for _, s := range streams {
		if f, ok := s.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return &Dialogue{c, in, f, func() {}}, nil
		}
	}
	f, err := os.OpenFile(terminalDevice, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	return &Dialogue{c, in, f, func() { _ = f.Close() }}, nil
}

// Close ends the dialogue.
func (d *Dialogue) Close() { d.closeScreen() }

// Show prints text before the next question; an error is reported by that question.
func (d *Dialogue) Show(write func(out *ui.Writer)) {
	w := d.c.Writer(d.screen)
	write(w)
	_ = w.Flush()
}

// Say prints a line unchanged.
func (d *Dialogue) Say(text string) {
	_, _ = io.WriteString(d.screen, text+"\n") // The next question reports the error.
}

// Line asks for a line. The error is io.EOF if the terminal was closed, and the cause of
// the context's end after a signal.
func (d *Dialogue) Line(ctx context.Context, question string) (string, error) {
	return d.line(ctx, question, false)
}

// Hidden asks for a line that the terminal does not show.
func (d *Dialogue) Hidden(ctx context.Context, question string) (string, error) {
	return d.line(ctx, question, true)
}

// Choose asks for one of several words, which the caller has shown with their numbers. An empty answer
// means the first one.
func (d *Dialogue) Choose(ctx context.Context, of []string) (string, error) {
	for {
		answer, err := d.Line(ctx, "Number or word ["+of[0]+"]: ")
		if err != nil {
			return "", err
		}
		answer = cmp.Or(strings.TrimSpace(answer), of[0])
		if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(of) {
			return of[n-1], nil
		}
		if slices.Contains(of, answer) {
			return answer, nil
		}
		d.Say(fmt.Sprintf("Type a number from 1 to %d, or one of the words above.", len(of)))
	}
}

func (d *Dialogue) line(ctx context.Context, question string, hidden bool) (string, error) {
	text, err := d.ask(ctx, hidden, func() error {
		_, err := io.WriteString(d.screen, question)
		return err
	})
	if hidden || ctx.Err() != nil {
		d.Say("")
	}
	if unseen, ok := errors.AsType[*unseenError](err); ok {
		err = unseen.error
	}
	return text, err
}

// unseenError says why a question could not be shown.
type unseenError struct{ error }

// ask shows a question and reads the line that answers it. While it waits, Ctrl-C is an
// answer.
func (d *Dialogue) ask(ctx context.Context, hidden bool, show func() error) (string, error) {
	state, err := term.GetState(int(d.in.Fd()))
	if err != nil {
		return "", err
	}
	d.c.Signals.asking.Store(true) // set before the question can be seen
	if err := show(); err != nil {
		d.c.Signals.asking.Store(false)
		return "", &unseenError{err}
	}
	type answer struct {
		text string
		err  error
	}
	done := make(chan answer, 1)
	guard.Go(ctx, func() {
		// A read from a terminal cannot be interrupted, but the process ends soon.
		if hidden {
			text, err := term.ReadPassword(int(d.in.Fd()))
			done <- answer{string(text), err}
			return
		}
		text, err := readLine(d.in)
		done <- answer{text, err}
	})
	select {
	case a := <-done:
		d.c.Signals.asking.Store(false)
		return a.text, a.err
	case <-ctx.Done(): // asking stays true, because the signal was the answer.
		_ = term.Restore(int(d.in.Fd()), state) // ReadPassword has switched the echo off.
		return "", context.Cause(ctx)
	}
}

// readLine reads a single line and nothing after it, because the next question may switch
// off the echo. With an error it returns the text before the error.
func readLine(in io.Reader) (string, error) {
	var line []byte
	for one := make([]byte, 1); ; {
		n, err := in.Read(one)
		switch {
		case n == 1 && one[0] == '\n':
			return string(line), nil
		case n == 1:
			line = append(line, one[0])
		case err != nil:
			return string(line), err
		}
	}
}
