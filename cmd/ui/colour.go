package ui

// A style is a colour of text on a terminal: the parameters of SGR, select graphic
// rendition, ECMA-48 8.3.117. Only the eight basic colours are used, because a terminal's
// theme keeps them readable on its background. Only red is also bold: many terminals draw
// bold colours brighter, and bright green is not readable on white.
type style string

const (
	usual  style = ""
	bold   style = "1"
	faint  style = "2"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
	cyan   style = "36"
	alarm  style = "1;31"
)

// Coloured makes the writer use colours, and returns it.
func (w *Writer) Coloured() *Writer {
	w.coloured = true
	return w
}

// paint writes text in a style, if the writer uses colours.
func (w *Writer) paint(s style, text string) {
	if !w.coloured || s == usual || text == "" {
		_, _ = w.Write([]byte(text)) // a Writer never fails
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.send("\x1b[" + string(s) + "m")
	w.pass(text, 0)
	w.send("\x1b[0m")
}
