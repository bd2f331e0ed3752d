package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"golang.org/x/term"

	"bootstrap/cmd/ui"
	"bootstrap/manifest/document"
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

// Terminal returns the terminal behind a stream, or nil.
func (c *Console) Terminal(stream io.Writer) *os.File {
	if o, ok := stream.(*output); ok {
		stream = o.to
	}
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Canvas returns the terminal behind a stream if lines may be drawn again there,
// or nil.
func (c *Console) Canvas(stream io.Writer) *os.File {
	if c.given.plainLines || c.Getenv("TERM") == "dumb" {
		return nil
	}
	return c.Terminal(stream)
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

// HelpWidth returns the width of the terminal to which help goes; false: lines are not
// broken, because no terminal shows them.
func (c *Console) HelpWidth() (int, bool) {
	f := c.Terminal(c.out)
	if f == nil || c.given.json || c.given.plainLines {
		return 0, false
	}
	return widthOf(f)(), true
}

// Width returns the width of the terminal of the standard output; 0: it is none.
func (c *Console) Width() int {
	if f := c.Terminal(c.out); f != nil {
		return widthOf(f)()
	}
	return 0
}

// Writer returns a writer of text for people to a stream, with colours if it is a
// terminal, unless flags or variables say otherwise: https://no-color.org and
// https://bixense.com/clicolors.
func (c *Console) Writer(stream io.Writer) *ui.Writer {
	out := c.Redactor.Writer(stream)
	if f := c.Canvas(stream); f != nil {
		out.Within(widthOf(f))
	}
	colours := c.Terminal(stream) != nil && c.Getenv("TERM") != "dumb"
	if force := c.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" {
		colours = true
	}
	if c.Getenv("NO_COLOR") != "" {
		colours = false
	}
	switch {
	case c.given.noColour || c.given.colour == "never":
		colours = false
	case c.given.colour == "always":
		colours = true
	}
	if colours {
		out.Coloured()
	}
	return out
}

// Product prints the requested result as it is; only on a terminal, control
// characters are escaped.
func (c *Console) Product(kind, text string) {
	c.end.quiet = true
	if c.given.json {
		c.PrintProduct(kind, TextLine{text})
		return
	}
	if c.Terminal(c.out) != nil {
		text = ui.Visible(text)
	}
	_, _ = io.WriteString(c.out, text) // finish reports the error
}

// TextLine is a text as --json prints it.
type TextLine struct {
	Text string `json:"text"`
}

// Print prints a result for people.
func (c *Console) Print(write func(out *ui.Writer)) {
	c.end.quiet = true
	out := c.Writer(c.out)
	write(out)
	_ = out.Flush() // finish reports the error
}

// Lines returns a writer of a result as JSON, one object per line.
func (c *Console) Lines() *ui.Lines {
	c.Quiet()
	return c.Redactor.Lines(c.out)
}

// PrintObject prints a result of one object as JSON.
func (c *Console) PrintObject(kind string, value any) { c.Lines().Print(kind, value) }

// PrintProduct prints the requested result as JSON, complete and unchanged.
func (c *Console) PrintProduct(kind string, value any) { c.Lines().Product(kind, value) }

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

// PrintDocument prints a document, or the value at a path in it. The output is
// not redacted: the user asked for it.
func (c *Console) PrintDocument(doc *document.Document, part bool, path string) error {
	if !part {
		path = ""
	}
	found, err := doc.Find(path)
	if err != nil {
		return err
	}
	if part && found.IsText() {
		c.Product("document", found.Scalar()+"\n")
		return nil
	}
	data, err := found.YAML()
	if err != nil {
		return err
	}
	c.Product("document", string(data))
	return nil
}
