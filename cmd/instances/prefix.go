package instances

import (
	"bytes"
	"io"
	"sync"

	"bootstrap/deployer/report"
)

// withName returns a function that passes on the log lines and warnings of an instance,
// with its name. It drops all other events: those of several instances at the same time
// would be in no useful order.
func withName(name string, pass func(report.Event)) func(report.Event) {
	return func(e report.Event) {
		switch e.Kind {
		case report.Log:
			e.Instance = name
		case report.Warning:
			e.Message = name + ": " + e.Message
		default:
			return
		}
		pass(e)
	}
}

// Prefix writes the lines of several writers to one stream, each with a prefix.
type Prefix struct {
	mu sync.Mutex
	to io.Writer
}

// NewPrefix returns the writer to a stream.
func NewPrefix(to io.Writer) *Prefix { return &Prefix{to: to} }

// mostRest is how long a line may become before it is written in parts: longer than the
// longest that writers for the output of VMs pass on.
const mostRest = 1<<20 + 4<<10

// Lines is a writer of whole lines with a prefix. The caller calls Flush at the end.
type Lines struct {
	all    *Prefix
	prefix string
	rest   []byte
}

// Of returns the writer for an instance.
func (p *Prefix) Of(name string) *Lines { return &Lines{all: p, prefix: name + " | "} }

// Write writes the lines that are complete.
func (l *Lines) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	end := bytes.LastIndexByte(l.rest, '\n') + 1
	if end == 0 && len(l.rest) > mostRest {
		l.rest = append(l.rest, '\n')
		end = len(l.rest)
	}
	err := l.print(l.rest[:end])
	l.rest = append([]byte(nil), l.rest[end:]...)
	return len(data), err
}

// Flush writes the last line, if it is not complete.
func (l *Lines) Flush() error {
	if len(l.rest) == 0 {
		return nil
	}
	err := l.print(append(l.rest, '\n'))
	l.rest = nil
	return err
}

func (l *Lines) print(lines []byte) error {
	var out []byte
	for line := range bytes.Lines(lines) {
		out = append(append(out, l.prefix...), line...)
	}
	if len(out) == 0 {
		return nil
	}
	l.all.mu.Lock()
	defer l.all.mu.Unlock()
	_, err := l.all.to.Write(out)
	return err
}
