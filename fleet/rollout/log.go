package rollout

import (
	"io"
	"os"
	"strings"
)

// The part of a log that a report shows.
const (
	maxLogEnd   = 8 << 10 // bytes
	maxLogLines = 40
)

// LogEnd returns the last lines of a log; empty if it cannot be read.
func LogEnd(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return ""
	}
	from := max(info.Size()-maxLogEnd, 0)
	data, err := io.ReadAll(io.NewSectionReader(f, from, maxLogEnd))
	if err != nil {
		return ""
	}
	text := string(data)
	if from > 0 { // the text begins within a line
		_, text, _ = strings.Cut(text, "\n")
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return strings.Join(lines[max(len(lines)-maxLogLines, 0):], "\n")
}
