package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"bootstrap/cmd/ui"
)

// asking says whether a person is asked before something is destroyed.
type asking struct {
	yes, silent bool
}

func (a *asking) flags(f *pflag.FlagSet) {
	f.BoolVarP(&a.yes, "yes", "y", false, "do not ask, the answer is yes")
	f.BoolVarP(&a.silent, "non-interactive", "n", false, "do not ask, as where there is no terminal")
}

// confirm returns how to ask; nil where nobody is to be asked or is there.
func (c *console) confirm(a asking) func(context.Context, []string) (bool, error) {
	in, ok := c.stdin.(*os.File)
	out, isFile := c.stdout.(*os.File)
	if a.yes || a.silent || c.json || !ok || !isFile || !term.IsTerminal(int(in.Fd())) || !term.IsTerminal(int(out.Fd())) {
		return nil
	}
	return func(ctx context.Context, what []string) (bool, error) {
		w := c.redactor.Writer(c.stdout)
		ui.Ask(w, what)
		_ = w.Flush()
		answer := make(chan string, 1)
		go func() {
			// A read of a terminal cannot be ended; the process is about to.
			line, err := bufio.NewReader(in).ReadString('\n')
			if err != nil && err != io.EOF {
				line = ""
			}
			answer <- line
		}()
		select {
		case line := <-answer:
			said := strings.ToLower(strings.TrimSpace(line))
			return said == "y" || said == "yes", nil
		case <-ctx.Done():
			return false, fmt.Errorf("not answered: %w", ctx.Err())
		}
	}
}
