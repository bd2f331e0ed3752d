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

	"bootstrap/agent"
)

// Bounds of what is kept of a log: it may hold anything, of any size.
const (
	maxLogLine  = 4 << 10
	maxLogLines = 10000 // of one file at once
)

// How long the logs of an error may take, and how many files it shows.
const (
	tailTimeout = 20 * time.Second
	tailFiles   = 4
)

// TailLogs returns the last lines of what the processes logged, each file
// below a line with its name, with secrets taken out. It is there to be shown
// with an error: where the logs do not come within 20 s, there are none.
func (v *VM) TailLogs(ctx context.Context, processes []string, lines int) []string {
	var filters []string
	for _, p := range processes {
		filters = append(filters, p+"/**/*", "**/"+p+"*")
	}
	// A process need not have the name of its job, whose the folder is.
	return v.Tail(ctx, lines, filters, []string{"**/*.log"})
}

// Tail is TailLogs of the files that the first of these filters finds any with.
func (v *VM) Tail(ctx context.Context, lines int, filters ...[]string) []string {
	ctx, cancel := context.WithTimeout(ctx, tailTimeout)
	defer cancel()
	var files []logTail
	for _, f := range filters {
		var err error
		if files, err = v.newestLogs(ctx, f, lines); err != nil {
			return nil
		}
		if len(files) > 0 {
			break
		}
	}
	var text []string
	for _, f := range files {
		text = append(text, f.name+":")
		for _, line := range f.lines {
			text = append(text, "  "+line)
		}
	}
	if len(text) == 0 {
		return nil
	}
	// All at once: a private key is only known as such when it is whole.
	return strings.Split(v.Redact(strings.Join(text, "\n")), "\n")
}

// newestLogs returns the few files that were written last, without empty ones.
func (v *VM) newestLogs(ctx context.Context, filters []string, lines int) ([]logTail, error) {
	archive, err := fetchLogs(ctx, v.Agent, "job", filters, "")
	if err != nil {
		return nil, err
	}
	defer discard(archive)
	files, err := tailArchive(archive, lines)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(files, func(a, b logTail) int { return b.written.Compare(a.written) })
	files = files[:min(len(files), tailFiles)]
	slices.SortFunc(files, func(a, b logTail) int { return strings.Compare(a.name, b.name) })
	return files, nil
}

// fetchLogs fetches an archive of logs to a temporary file in dir, 0600 and
// read from its beginning. With an empty dir the file has no name where that can
// be.
func fetchLogs(ctx context.Context, a *agent.Client, kinds string, filters []string, dir string) (*os.File, error) {
	blob, err := a.FetchLogs(ctx, kinds, filters)
	if err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(dir, "logs-*.tgz~")
	if err != nil {
		return nil, fmt.Errorf("cannot make a file for the logs: %w", err)
	}
	if dir == "" { // it is not kept: a run that is killed leaves no secrets behind
		_ = os.Remove(f.Name()) // where an open file cannot be removed, discard does it
	}
	err = a.GetBlobUpTo(ctx, agent.LogsLimit, blob.BlobstoreID, f, blob.SHA1, nil)
	if _, large := errors.AsType[*agent.TooLargeError](err); large {
		err = fmt.Errorf("%w for an archive of logs; ask for less, with --job or --only", err)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		discard(f)
		return nil, err
	}
	return f, nil
}

func discard(f *os.File) {
	_ = f.Close()
	_ = os.Remove(f.Name())
}

// logTail is the end of one log file.
type logTail struct {
	name    string // path below the folder of logs
	written time.Time
	lines   []string
}

// tailArchive returns the last lines of each file that has any, in the order
// of their names.
func tailArchive(archive io.Reader, lines int) ([]logTail, error) {
	var files []logTail
	err := eachLog(archive, func(h *tar.Header, content io.Reader) error {
		last, _, rest, err := readLines(content, lines)
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
	slices.SortFunc(files, func(a, b logTail) int { return cmp.Compare(a.name, b.name) })
	return files, err
}

// rotated are the names of logs that are no longer written to.
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

// hasFiles reports whether an archive of logs has any file, and reads it from its
// beginning again.
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

// readLines returns the last n lines of text, how many bytes the whole lines
// are, and what follows them.
func readLines(text io.Reader, n int) (lines []string, size int64, rest string, err error) {
	in := bufio.NewReaderSize(text, maxLogLine)
	var line []byte
	var length int64
	for {
		part, err := in.ReadSlice('\n')
		length += int64(len(part))
		if room := maxLogLine - len(line); room > 0 {
			line = append(line, part[:min(len(part), room)]...)
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF):
			return lastOf(lines, n), size, printable.Text(string(line)), nil
		case err != nil:
			return nil, 0, "", err
		default:
			size += length
			lines = append(lines, printable.Text(strings.TrimRight(string(line), "\r\n")))
			if len(lines) >= 2*n+1000 {
				lines = append([]string(nil), lastOf(lines, n)...)
			}
			line, length = line[:0], 0
		}
	}
}

func lastOf(lines []string, n int) []string { return lines[max(0, len(lines)-n):] }
