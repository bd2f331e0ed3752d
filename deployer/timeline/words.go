package timeline

import (
	"fmt"
	"strings"
)

// About returns the command, its time and user, and its status unless it succeeded.
func (t *Timeline) About() string {
	text := t.Command + ", begun " + t.Began.UTC().Format("2006-01-02 15:04 UTC")
	if t.User != "" {
		text += " by " + t.User + "@" + t.Host
	}
	if t.Status != Finished {
		text += ", " + string(t.Status)
	}
	return text
}

// Text returns the name of a span, with unusual properties.
func (s Span) Text() string {
	text := s.Name
	if s.IsCall() {
		text = string(s.Kind) + " " + s.Name
	}
	if s.Calls > 1 {
		text += fmt.Sprintf(", %d calls", s.Calls)
	}
	if s.Status != Finished {
		text += ", " + string(s.Status)
	}
	return text
}

// DownTimes describes how long the service was down in a run, and when.
func (t *Timeline) DownTimes() string {
	parts := make([]string, len(t.Down))
	for i, d := range t.Down {
		parts[i] = "from " + Took(d.From) + " to " + Took(d.To)
	}
	text := Took(t.DownSeconds()) + ": " + strings.Join(parts, ", ")
	if t.StillDown {
		text += ", when the run ended and it stayed down"
	}
	return text
}

// Took formats a duration: 24ms, 3.2s, 1m 15s, 2h 05m.
func Took(seconds float64) string {
	switch whole := int(seconds + 0.5); {
	case seconds < 0.9995:
		return fmt.Sprintf("%.0fms", seconds*1000)
	case seconds < 59.95:
		return fmt.Sprintf("%.1fs", seconds)
	case whole < 3600:
		return fmt.Sprintf("%dm %02ds", whole/60, whole%60)
	default:
		return fmt.Sprintf("%dh %02dm", whole/3600, whole/60%60)
	}
}
