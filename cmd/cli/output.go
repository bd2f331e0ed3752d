package cli

import (
	"errors"
	"io"
	"os"
	"sync"
	"syscall"

	"github.com/spf13/pflag"
	"golang.org/x/term"

	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/manifest/document"
)

// tracked is a stream that records whether all writes succeeded.
type tracked struct {
	mu  sync.Mutex
	to  io.Writer
	err error
}

func (o *tracked) Write(p []byte) (int, error) {
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

// lost returns why some of the output was lost. If the reader has closed the pipe, that
// is no error.
func (o *tracked) lost() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if errors.Is(o.err, syscall.EPIPE) {
		return nil
	}
	return o.err
}

// Output prints the output of the commands.
type Output struct {
	Process
	Redactor   *ui.Redactor
	out        *tracked // the standard output, for everything that is printed there
	json       bool     // --json
	plainLines bool     // --plain: a terminal gets the same as a pipe
	colour     string   // --color
	noColour   bool     // --no-color
	asTerminal bool     // --tty, BOSH_TTY: colours even without a terminal
	quiet      bool     // the command has printed its result
}

// flags adds the flags for the form of the output.
func (o *Output) flags(f *pflag.FlagSet) {
	f.BoolVar(&o.json, "json", false, "print one JSON event per line")
	f.Var(values.Choice{To: &o.colour, Of: []string{"auto", "always", "never"}}, "color", "colours: auto (on a terminal), always or never")
	f.BoolVar(&o.noColour, "no-color", false, "the same as --color never")
	f.BoolVar(&o.asTerminal, "tty", false, "print colours, as to a terminal")
	f.BoolVar(&o.plainLines, "plain", false, "shorten and redraw nothing; print what a pipe gets")
}

// Terminal returns the terminal behind a stream, or nil.
func (o *Output) Terminal(stream io.Writer) *os.File {
	if t, ok := stream.(*tracked); ok {
		stream = t.to
	}
	if f, ok := stream.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Canvas returns the terminal behind a stream if lines can be redrawn there, or nil.
func (o *Output) Canvas(stream io.Writer) *os.File {
	if o.plainLines || o.Getenv("TERM") == "dumb" {
		return nil
	}
	return o.Terminal(stream)
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

// HelpWidth returns the width of the terminal for help; false: there is no terminal, so
// lines are not broken.
func (o *Output) HelpWidth() (int, bool) {
	f := o.Terminal(o.out)
	if f == nil || o.json || o.plainLines {
		return 0, false
	}
	return widthOf(f)(), true
}

// Width returns the width of the terminal of standard output; 0: there is none.
func (o *Output) Width() int {
	if f := o.Terminal(o.out); f != nil {
		return widthOf(f)()
	}
	return 0
}

// Writer returns a writer of text for people to a stream, with colours if it is a
// terminal, unless flags or variables say otherwise: https://no-color.org and
// https://bixense.com/clicolors.
func (o *Output) Writer(stream io.Writer) *ui.Writer {
	out := o.Redactor.Writer(stream)
	if f := o.Canvas(stream); f != nil {
		out.Within(widthOf(f))
	}
	colours := o.Terminal(stream) != nil && o.Getenv("TERM") != "dumb"
	if force := o.Getenv("CLICOLOR_FORCE"); force != "" && force != "0" || o.asTerminal {
		colours = true
	}
	if o.Getenv("NO_COLOR") != "" {
		colours = false
	}
	switch {
	case o.noColour || o.colour == "never":
		colours = false
	case o.colour == "always":
		colours = true
	}
	if colours {
		out.Coloured()
	}
	return out
}

// Product prints the requested result unchanged; only on a terminal, control characters
// are escaped.
func (o *Output) Product(kind, text string) {
	o.quiet = true
	if o.json {
		o.PrintProduct(kind, TextLine{text})
		return
	}
	if o.Terminal(o.out) != nil {
		text = ui.Visible(text)
	}
	_, _ = io.WriteString(o.out, text) // The method finish reports the error.
}

// TextLine is a text as --json prints it.
type TextLine struct {
	Text string `json:"text"`
}

// Print prints a result for people.
func (o *Output) Print(write func(out *ui.Writer)) {
	o.quiet = true
	out := o.Writer(o.out)
	write(out)
	_ = out.Flush() // The method finish reports the error.
}

// Lines returns a writer of a result as JSON, one object per line.
func (o *Output) Lines() *ui.Lines {
	o.Quiet()
	return o.Redactor.Lines(o.out)
}

// PrintObject prints a result of one object as JSON.
func (o *Output) PrintObject(kind string, value any) { o.Lines().Print(kind, value) }

// PrintProduct prints the requested result as JSON, complete and unchanged.
func (o *Output) PrintProduct(kind string, value any) { o.Lines().Product(kind, value) }

// wantsJSON reports whether the arguments request JSON, even after a wrong argument.
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

// PrintDocument prints a document, or the value at a path in it. The output is not
// redacted, because the user asked for it.
func (o *Output) PrintDocument(doc *document.Document, part bool, path string) error {
	if !part {
		path = ""
	}
	found, err := doc.Find(path)
	if err != nil {
		return err
	}
	if part && found.IsText() {
		o.Product("document", found.Scalar()+"\n")
		return nil
	}
	data, err := found.YAML()
	if err != nil {
		return err
	}
	o.Product("document", string(data))
	return nil
}

// ProgressStream returns the stream for the progress of a command that prints its result
// to standard output. With --json, it is standard output, too: the kinds distinguish
// them.
func (o *Output) ProgressStream() io.Writer {
	if o.json {
		return o.out
	}
	return o.Stderr
}

// JSON reports whether the output is for programs.
func (o *Output) JSON() bool { return o.json }

// Out returns the standard output, for everything that is printed there.
func (o *Output) Out() io.Writer { return o.out }

// Quiet records that the command has printed its result.
func (o *Output) Quiet() { o.quiet = true }
