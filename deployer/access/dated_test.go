package access

import (
	"strings"
	"testing"
	"time"
)

// Of the logs of an agent that does not know what is from before a start, the times in the
// lines decide.
func TestLinesSince(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 11, 27, 10, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		lines, want string // with "|" between lines
		undated     bool
	}{
		"old and new":     {lines: "2026-11-27T09:59:00Z old|2026-11-27T10:00:01.5Z new|  at line 5", want: "2026-11-27T10:00:01.5Z new|  at line 5"},
		"only old":        {lines: "2026/11/26 10:00:00 old|  at line 5"},
		"only new":        {lines: "2026/11/27 10:00:03 new", want: "2026/11/27 10:00:03 new"},
		"another zone":    {lines: "[2026-11-27 11:59:00+02:00] old|[2026-11-27 12:00:07 +0200] zone not read|2026-11-27 12:00:07+0200 new", want: "[2026-11-27 12:00:07 +0200] zone not read|2026-11-27 12:00:07+0200 new"},
		"seconds":         {lines: `{"timestamp":"1795773500.1","m":"old"}|{"timestamp":"1795773601.2","m":"new"}`, want: `{"timestamp":"1795773601.2","m":"new"}`},
		"no times":        {lines: "a|b", want: "a|b", undated: true},
		"nothing":         {undated: true},
		"no valid time":   {lines: "2026-13-27T09:59:00Z", want: "2026-13-27T09:59:00Z", undated: true},
		"first without":   {lines: "a|2026-11-27T10:00:01Z new", want: "2026-11-27T10:00:01Z new"},
		"slow VM's clock": {lines: "2026-11-27T09:59:57Z new", want: "2026-11-27T09:59:57Z new"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lines []string
			if c.lines != "" {
				lines = strings.Split(c.lines, "|")
			}
			left, undated := linesSince(lines, since)
			if got := strings.Join(left, "|"); got != c.want || undated != c.undated {
				t.Errorf("%q, undated %v", got, undated)
			}
		})
	}
}
