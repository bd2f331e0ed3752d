package record

import (
	"testing"
	"time"
)

// The same command continues a run, and another one begins.
func TestContinue(t *testing.T) {
	first := time.Date(2026, 11, 26, 7, 0, 0, 0, time.UTC)
	r := &Record{}
	for _, c := range []struct {
		command, selected string
		again             bool
	}{
		{"restart", "web/1,db", false}, {"restart", "web/1,db", true}, {"restart", "db,web/1", true}, {"restart", "db", false},
		{"stop", "db", false}, {"stop", "", false}, {"stop", "", true},
	} {
		begun := first.Add(time.Hour)
		if r.Run != nil {
			r.Run.Begun = first
		}
		if again := r.Continue(c.command, c.selected, begun); again != c.again || r.Run.Begun.Equal(first) != again {
			t.Error(c, again, r.Run)
		}
	}
}
