package vm

import (
	"strings"
	"testing"
	"time"

	"bootstrap/deployer/report"
)

// Each line of an errand is an event, also if it comes in pieces, or many lines come at once.
func TestLogLines(t *testing.T) {
	var got []string
	l := &logLines{to: func(e report.Event) { got = append(got, e.Message) }}
	for _, piece := range []string{"a", "b\n\nc", "d\ne\n", "", "f"} {
		if n, err := l.Write([]byte(piece)); n != len(piece) || err != nil {
			t.Fatal(n, err)
		}
	}
	if err := l.Flush(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(got, "|"); got != "ab||cd|e|f" {
		t.Errorf("got %q", got)
	}
	got = nil
	begun := time.Now()
	if _, err := l.Write([]byte(strings.Repeat("123456789\n", 200_000))); err != nil {
		t.Fatal(err)
	}
	if len(got) != 200_000 || time.Since(begun) > 30*time.Second {
		t.Errorf("%d lines in %s", len(got), time.Since(begun))
	}
}
