package access

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"bootstrap/internal/printable"
	"bootstrap/internal/scratch"

	"bootstrap/agent"
)

// Limits for the kept part of a log, which may have any content and size.
const (
	maxLogLine  = 1 << 20  // what is shown of a line
	maxTailLine = 4 << 10  // the same, of a line in a message
	maxTail     = 64 << 20 // of the last lines of one file together
	maxLogLines = 10000    // of one file
)

// Limits for the logs that are shown with an error.
const (
	tailTimeout = 20 * time.Second
	tailFiles   = 4
)

// Start is the last start of the jobs, whose lines are wanted.
type Start struct {
	At    time.Time // zero: unknown
	First bool      // it was the first one on the VM
}

// TailLogs returns the last lines of the logs of these processes, to be shown
// with an error: each file below a line with its name, without secrets. Only lines since the
// start are shown, as far as agent and lines tell when they were written. It
// returns nil if the agent does not send the logs within 20 s.
func (v *VM) TailLogs(ctx context.Context, since Start, processes []string, lines int) []string {
	var filters []string
	for _, p := range processes {
		filters = append(filters, p+"/**/*", "**/"+p+"*")
	}
	// The folder has the name of the job; a process may have another name.
	return v.Tail(ctx, since, lines, filters, []string{"**/*.log"})
}

// Tail is like TailLogs, for the files that match the filters. It uses the first filter
// with lines since the start.
func (v *VM) Tail(ctx context.Context, since Start, lines int, filters ...[]string) []string {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	var files []logTail
	for _, f := range filters {
		var err error
		if files, err = v.newestLogs(ctx, since, f, lines); err != nil {
			return nil
		}
		if len(files) > 0 {
			break
		}
	}
	var text []string
	for _, f := range files {
		head := f.name + ":"
		if f.undated {
			head = f.name + " (some lines may be from before this start):"
		}
		text = append(text, head)
		for _, line := range f.lines {
			text = append(text, "  "+line)
		}
	}
	if len(text) == 0 {
		return nil
	}
	// All lines are redacted together, because only a complete private key is recognized.
	return strings.Split(v.Redact(strings.Join(text, "\n")), "\n")
}

// newestLogs returns the files that were written last, without those that have no line since
// the start.
func (v *VM) newestLogs(ctx context.Context, since Start, filters []string, lines int) ([]logTail, error) {
	archive, before, err := fetchLogs(ctx, v.Agent, "job", filters, "")
	if err != nil {
		return nil, err
	}
	defer scratch.Discard(archive)
	dated := before == nil && !since.First && !since.At.IsZero()
	most := lines
	if dated {
		most = maxLogLines
	}
	files, err := tailArchive(archive, most, maxTailLine, before)
	if err != nil {
		return nil, err
	}
	if dated {
		for i := range files {
			f := &files[i]
			f.lines, f.undated = linesSince(f.lines, since.At)
			f.lines = lastOf(f.lines, lines)
		}
		files = slices.DeleteFunc(files, func(f logTail) bool { return len(f.lines) == 0 })
	}
	slices.SortStableFunc(files, func(a, b logTail) int { return b.written.Compare(a.written) })
	files = files[:min(len(files), tailFiles)]
	slices.SortStableFunc(files, func(a, b logTail) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// fetchLogs fetches an archive of logs into a temporary file in dir, 0600, and seeks to
// its beginning. before has how many bytes of each log are from before the last start of the
// jobs; nil: the agent does not know. If dir is empty, the file has no name, because a killed run must leave
// no secrets behind.
func fetchLogs(ctx context.Context, a *agent.Client, kinds string, filters []string, dir string) (archive *os.File, before map[string]int64, err error) {
	blob, err := a.FetchLogs(ctx, kinds, filters)
	if err != nil {
		return nil, nil, err
	}
	create := scratch.Unnamed
	if dir != "" {
		create = func() (*os.File, error) { return os.CreateTemp(dir, "logs-*.tgz~") }
	}
	f, err := create()
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a file for the logs: %w", err)
	}
	err = a.GetBlobUpTo(ctx, agent.LogsLimit, blob.BlobstoreID, f, blob.SHA1, nil)
	if _, large := errors.AsType[*agent.TooLargeError](err); large {
		err = fmt.Errorf("%w for an archive of logs; ask for less, with --job or --only", err)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		scratch.Discard(f)
		return nil, nil, err
	}
	return f, blob.BeforeStart, nil
}

// logTail is the end of one log file.
type logTail struct {
	name    string // path below the folder of logs
	written time.Time
	lines   []string
	undated bool // whether the lines are new is not known
}

// tailArchive returns the last lines of each file that has any, in the order
// of their names, without so many bytes at the beginning of each.
func tailArchive(archive io.Reader, lines, longest int, without map[string]int64) ([]logTail, error) {
	var files []logTail
	err := eachLog(archive, func(h *tar.Header, content io.Reader) error {
		if _, err := io.CopyN(io.Discard, content, min(without[h.Name], h.Size)); err != nil {
			return err
		}
		last, _, rest, err := readLines(content, lines, longest)
		if err != nil {
			return err
		}
		if rest != "" {
			last = lastOf(append(last, rest), lines)
		}
		if len(last) > 0 {
			files = append(files, logTail{name: h.Name, written: h.ModTime, lines: last})
		}
		return nil
	})
	slices.SortStableFunc(files, func(a, b logTail) int { return cmp.Compare(a.name, b.name) })
	return files, err
}

// rotated matches the names of logs that are not written any more.
var rotated = regexp.MustCompile(`\.(gz|bz2|xz|zst|[0-9]+)$`)

// eachLog visits the logs of an archive that can be read as text.
func eachLog(archive io.Reader, visit func(h *tar.Header, content io.Reader) error) error {
	unpacked, err := gzip.NewReader(archive)
	if err != nil {
		return fmt.Errorf("cannot read the archive of logs: %w", err)
	}
	for entries := tar.NewReader(unpacked); ; {
		h, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("cannot read the archive of logs: %w", err)
		}
		h.Name = printable.Text(strings.TrimPrefix(path.Clean(h.Name), "/"))
		if h.Typeflag != tar.TypeReg || rotated.MatchString(h.Name) {
			continue
		}
		if err := visit(h, entries); err != nil {
			return fmt.Errorf("cannot read the log %s: %w", h.Name, err)
		}
	}
}

// hasFiles reports whether an archive of logs has any file, and seeks to its beginning.
func hasFiles(archive io.ReadSeeker) (bool, error) {
	unpacked, err := gzip.NewReader(archive)
	if err != nil {
		return false, fmt.Errorf("cannot read the archive of logs: %w", err)
	}
	for entries := tar.NewReader(unpacked); ; {
		h, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, fmt.Errorf("cannot read the archive of logs: %w", err)
		case h.Typeflag == tar.TypeReg:
			_, err := archive.Seek(0, io.SeekStart)
			return true, err
		}
	}
}

// readLines returns the last n complete lines of text, of each at most so many bytes, the size of all complete
// lines in bytes, and the incomplete line that follows them.
func readLines(text io.Reader, n, longest int) (lines []string, size int64, rest string, err error) {
	in := bufio.NewReaderSize(text, 4<<10)
	var line []byte
	var length int64
	kept := 0
	shown := func(end int64) string {
		text := printable.Text(strings.TrimRight(string(line), "\r\n"))
		if more := length - end - int64(len(line)); more > 0 {
			text += fmt.Sprintf("… (%d more bytes)", more)
		}
		return text
	}
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		if room := longest - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return lastOf(lines, n), size, shown(0), nil
		case err != nil:
			return nil, 0, "", err
		default:
			size += length
			lines, kept = append(lines, shown(1)), kept+len(line)
			for kept > maxTail && len(lines) > 1 {
				lines, kept = lines[1:], kept-len(lines[0])
			}
			if len(lines) >= 2*n+1000 {
				lines = append([]string(nil), lastOf(lines, n)...)
			}
			line, length = line[:0], 0
		}
	}
}

func lastOf(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
