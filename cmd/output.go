package cmd

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/term"

	"bootstrap/cmd/ui"
)

// output is a stream that remembers whether all writes succeeded.
type output struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.to.Write(p)
	if err != nil {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.err == nil {
			o.err = err
		}
	}
	return n, err
}

// lost returns why some of the output was lost. If the reader has closed the
// pipe, nothing was lost: it wanted no more.
func (o *output) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(o.err, syscall.EPIPE) {
		return nil
	}
	return o.err
}

// terminalOf returns the terminal behind a stream, or nil.
func (c *console) terminalOf(stream io.Writer) *os.File {
	if o, ok := stream.(*output); ok {
		stream = o.to
	}
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// screenOf returns the terminal behind a stream if lines may be drawn again there,
// or nil.
func screenOf(c *console, stream io.Writer) *os.File {
	if c.plainLines || c.getenv("TERM") == "dumb" {
		return nil
	}
	return c.terminalOf(stream)
}

// widthOf returns a function that returns the width of a terminal.
func widthOf(f *os.File) func() int {
	return func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80
		}
		return width
	}
}

// writerTo returns a writer of text for people to a stream, with colours if it is a
// terminal, unless flags or variables say otherwise: https://no-color.org and
// https://bixense.com/clicolors.
func writerTo(c *console, stream io.Writer) *ui.Writer {
	out := c.redactor.Writer(stream)
	if f := screenOf(c, stream); f != nil {
		out.Within(widthOf(f))
	}
	colours := c.terminalOf(stream) != nil && c.getenv("TERM") != "dumb"
	if force := c.getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		colours = true
	}
	if c.getenv("NO_COLOR") != "" {
		colours = false
	}
	switch {
	case c.noColour || c.colour == "never":
		colours = false
	case c.colour == "always":
		colours = true
	}
	if colours {
		out.Coloured()
	}
	return out
}

// progressStream returns the stream for progress of a command that prints its result to
// standard output. With --json, that is standard output, too: the kinds
// distinguish them.
func (c *console) progressStream() io.Writer {
	if c.json {
		return c.out
	}
	return c.stderr
}

// product prints the requested result as it is; only on a terminal, control
// characters are escaped.
func (c *console) product(kind, text string) {
	c.quiet = true
	if c.json {
		c.redactor.Lines(c.out).Product(kind, textLine{text})
		return
	}
	if c.terminalOf(c.out) != nil {
		text = ui.Visible(text)
	}
	_, _ = io.WriteString(c.out, text) // finish reports the error
}

type textLine struct {
	Text string `json:"text"`
}

// print prints a result for people.
func (c *console) print(write func(out *ui.Writer)) {
	c.quiet = true
	out := writerTo(c, c.out)
	write(out)
	_ = out.Flush() // finish reports the error
}

// printLines prints a result as JSON, one object per line.
func printLines[T any](c *console, kind string, list []T) {
	c.quiet = true
	out := c.redactor.Lines(c.out)
	for _, v := range list {
		out.Print(kind, v)
	}
}

// wantsJSON reports whether the arguments request JSON, even if a wrong one
// precedes the flag.
func wantsJSON(args []string) bool {
	for _, arg := range args {
		switch arg {
		case "--json", "--json=true":
			return true
		case "--":
			return false
		}
	}
	return false
}
