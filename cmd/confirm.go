package cmd

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/internal/guard"
)

// asking reports whether the user is asked before something is destroyed.
type asking struct {
	yes, silent bool
}

func (a *asking) flags(f *pflag.FlagSet) {
	f.BoolVarP(&a.yes, "yes", "y", false, "never prompt: answer yes to every question")
	f.BoolVarP(&a.silent, "non-interactive", "n", false, "the same as --yes")
}

// confirm returns the function that asks, or nil if the answer is always yes.
// Without a terminal on standard input it does not ask: it refuses to destroy
// data, and allows everything else.
func (c *console) confirm(a asking) func(context.Context, deployer.Question) (bool, error) {
	if a.yes || a.silent || c.neverAsks {
		return nil
	}
	return func(ctx context.Context, q deployer.Question) (bool, error) {
		in, ok := c.stdin.(*os.File)
		if !ok || !term.IsTerminal(int(in.Fd())) {
			if q.Data {
				return false, &deployer.UnaskedError{What: q.What}
			}
			return true, nil
		}
		screen, closeScreen, err := c.screen()
		if err != nil {
			return false, &deployer.UnaskedError{What: q.What}
		}
		defer closeScreen()
		w := writerTo(c, screen)
		c.asking.Store(true) // before the question can be seen: its answer may be Ctrl-C
		ui.Ask(w, q.What)
		if err := w.Flush(); err != nil {
			c.asking.Store(false)
			return false, &deployer.UnaskedError{What: q.What}
		}
		yes, err := answer(ctx, in)
		if err == nil {
			c.asking.Store(false)
		}
		return yes, err
	}
}

// agreed asks with what confirm returned, and returns an error unless the answer is yes.
func agreed(ctx context.Context, confirm func(context.Context, deployer.Question) (bool, error), lines []string) error {
	if confirm == nil {
		return nil
	}
	yes, err := confirm(ctx, deployer.Question{What: lines})
	if err == nil && !yes {
		err = &deployer.NotConfirmedError{}
	}
	return err
}

// screen returns where a question is shown: standard output or standard error, if one
// of them is a terminal, else the controlling terminal of the process. With JSON it is
// never standard output.
func (c *console) screen() (w io.Writer, closeIt func(), err error) {
	streams := []io.Writer{c.stdout, c.stderr}
	if c.json {
		streams = streams[1:]
	}
	for _, s := range streams {
		if f, ok := s.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
			return f, func() {}, nil
		}
	}
	f, err := os.OpenFile(terminalDevice, os.O_WRONLY, 0)
	if err != nil {
		return nil, nil, err
	}
	return f, func() { _ = f.Close() }, nil
}

// answer reads a line from the terminal: only y and yes count as yes.
func answer(ctx context.Context, in *os.File) (bool, error) {
	line := make(chan string, 1)
	guard.Go(ctx, func() {
		// A read from a terminal cannot be interrupted, but the process ends
		// soon.
		text, err := bufio.NewReader(in).ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			text = ""
		}
		line <- text
	})
	select {
	case text := <-line:
		typed := strings.ToLower(strings.TrimSpace(text))
		return typed == "y" || typed == "yes", nil
	case <-ctx.Done():
		return false, &deployer.NotConfirmedError{Interrupted: true}
	}
}
