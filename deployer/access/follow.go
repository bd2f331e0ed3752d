package access

import (
	"archive/tar"
	"cmp"
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/internal/scratch"
	"bootstrap/internal/wait"
)

// followEvery is the time between two requests for the logs. For each request, the agent
// packs all logs.
const followEvery = 3 * time.Second

// follower records how much of each log was shown.
type follower struct {
	shown map[string]int64 // bytes of complete lines that were shown, by name of the log
	first int              // how many last lines to show first; -1 after that
}

// followLogs shows the last lines of each log and then new ones, until ctx ends.
// If the agent stops answering, it is asked again.
func (v *VM) followLogs(ctx context.Context, what LogsOptions) error {
	f := &follower{shown: map[string]int64{}, first: what.Tail}
	var silent *agent.UnreachableError
	for began := false; ; {
		err := v.followOnce(ctx, f, what)
		switch {
		case ctx.Err() != nil:
			return nil // The caller ends the context to stop.
		case err == nil:
			began = true
		case !began || !errors.As(err, &silent):
			return err
		default:
			v.Report.Warning(err.Error() + "; asking again")
		}
		if wait.For(ctx, followEvery) != nil {
			return nil
		}
	}
}

func (v *VM) followOnce(ctx context.Context, f *follower, what LogsOptions) error {
	archive, _, err := fetchLogs(ctx, v.Agent, what.kinds(), what.filters(), "")
	if err != nil {
		return err
	}
	defer scratch.Discard(archive)
	return f.read(archive, v.Report.Log)
}

// read shows the new lines in an archive, in the order of the names. An
// incomplete last line is shown when it is complete.
func (f *follower) read(archive io.Reader, show func(name string, lines []string)) error {
	var files []logTail
	err := eachLog(archive, func(h *tar.Header, content io.Reader) error {
		seen, known := f.shown[h.Name]
		n := maxLogLines
		switch {
		case h.Size < seen:
			seen = 0 // a new log has the same name
		case !known && f.first >= 0:
			n = f.first
		}
		if _, err := io.CopyN(io.Discard, content, seen); err != nil {
			return err
		}
		lines, size, _, err := readLines(content, n, maxLogLine)
		if err != nil {
			return err
		}
		f.shown[h.Name] = seen + size
		if len(lines) > 0 {
			files = append(files, logTail{name: h.Name, lines: lines})
		}
		return nil
	})
	f.first = -1
	slices.SortStableFunc(files, func(a, b logTail) int { return cmp.Compare(a.name, b.name) })
	for _, file := range files {
		show(file.name, file.lines)
	}
	return err
}
