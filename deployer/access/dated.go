package access

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stamp matches the time in a line of a log: 2026-11-27T10:00:00.1Z, 2026/11/27 10:00:00, or
// the seconds of "timestamp":"1416863393.1".
var stamp = regexp.MustCompile(`(\d{4})[-/](\d\d)[-/](\d\d)[T ](\d\d:\d\d:\d\d)(?:[.,]\d+)?(Z|[+-]\d\d:?\d\d)?|"timestamp":"?(\d{9,10})[."]`)

const (
	// stampWithin is the part of a line in which its time is.
	stampWithin = 200
	// clockSlack is by how much the clock of a VM may differ, and the fraction of a second that
	// lines leave out.
	clockSlack = 5 * time.Second
)

// timeOf returns when a line was written, in UTC if it names no zone.
func timeOf(line string) (time.Time, bool) {
	m := stamp.FindStringSubmatch(line[:min(len(line), stampWithin)])
	switch {
	case m == nil:
		return time.Time{}, false
	case m[6] != "":
		seconds, err := strconv.ParseInt(m[6], 10, 64)
		return time.Unix(seconds, 0), err == nil
	}
	zone := strings.ReplaceAll(m[5], ":", "")
	if zone == "" || zone == "Z" {
		zone = "+0000"
	}
	at, err := time.Parse("2006-01-02 15:04:05-0700", m[1]+"-"+m[2]+"-"+m[3]+" "+m[4]+zone)
	return at, err == nil
}

// linesSince returns the lines that were written since a time: from the first one on whose
// time is not before it. undated is true if no line has a time: then it returns all.
func linesSince(lines []string, since time.Time) (left []string, undated bool) {
	undated = true
	for i, line := range lines {
		at, ok := timeOf(line)
		if !ok {
			continue
		}
		if undated = false; !at.Before(since.Add(-clockSlack)) {
			return lines[i:], false
		}
	}
	if undated {
		return lines, true
	}
	return nil, false
}
