package packaging

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"bootstrap/internal/fulldisk"
	"bootstrap/internal/printable"
)

const (
	tailLines = 20
	tailWidth = 500 // characters of one line; compilers write very long lines
	tailBytes = 64 << 10
)

// Error is a failed packaging script.
type Error struct {
	Package    string
	ExitStatus int      // -1: killed
	Log        string   // file with the whole output; empty: the output was not kept
	Tail       []string // the last lines of the output, oldest first
	Err        error    // why the script was killed: the cause of the context, or a signal; else nil
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot compile package '%s': the packaging script ", e.Package)
	switch {
	case e.Err != nil:
		fmt.Fprintf(&b, "was stopped: %v", e.Err)
	default:
		fmt.Fprintf(&b, "exited with status %d", e.ExitStatus)
	}
	if e.Log != "" {
		fmt.Fprintf(&b, " (its output is in %s)", e.Log)
	}
	if len(e.Tail) > 0 {
		b.WriteString("; its last lines:")
		for _, line := range e.Tail {
			b.WriteString("\n  | " + line)
		}
	}
	return b.String()
}

func (e *Error) Name() string { return "cpi-package" }

// Is makes errors.Is(err, ENOSPC) true if the script's disk is full.
func (e *Error) Is(target error) bool {
	return target == syscall.ENOSPC && fulldisk.Says(strings.Join(e.Tail, "\n"))
}

// Unwrap returns what ended the script; nil when the script ended by itself.
func (e *Error) Unwrap() error { return e.Err }

// tail returns the last n lines of a file as text that is safe to print.
func tail(f *os.File, n int) ([]string, error) {
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	from := max(0, size-tailBytes)
	data, err := io.ReadAll(io.NewSectionReader(f, from, size-from))
	if err != nil {
		return nil, err
	}
	lines := bytes.Split(bytes.TrimRight(data, "\r\n \t"), []byte("\n"))
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	var text []string
	for _, line := range lines {
		if s := shown(string(line)); s != "" {
			text = append(text, s)
		}
	}
	return text, nil
}

// shown keeps the text after the last carriage return, as a terminal does, and shortens
// long lines for an error.
func shown(line string) string {
	line = strings.TrimRight(line, "\r")
	line = line[strings.LastIndexByte(line, '\r')+1:]
	line = strings.ReplaceAll(printable.Text(line), "\t", " ")
	if runes := []rune(line); len(runes) > tailWidth {
		line = string(runes[:tailWidth]) + "…"
	}
	return strings.TrimRight(line, " ")
}
