package report

import (
	"fmt"
	"strings"
	"time"

	"bootstrap/internal/webpage"
)

// plain returns a text in a form that a page and XML may contain.
func plain(text string) string { return webpage.Plain(text) }

// oneLine returns the first line of a text, or the beginning of it, with a sign if there
// is more.
func oneLine(text string, limit int) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(plain(text)), "\n")
	line = strings.Join(strings.Fields(line), " ")
	list := []rune(line)
	switch {
	case len(list) > limit:
		return string(list[:limit-1]) + "…"
	case rest != "":
		return line + " …"
	}
	return line
}

// span returns a duration in the form 4.2s, 42s, 1m 10s, 2h 05m or 3d 4h.
func span(seconds float64) string {
	switch {
	case seconds < 0.05:
		return "0s"
	case seconds < 9.95:
		return fmt.Sprintf("%.1fs", seconds)
	}
	s := int(seconds + 0.5)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm %02ds", s/60, s%60)
	case s < 24*3600:
		return fmt.Sprintf("%dh %02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd %dh", s/3600/24, s/3600%24)
}

// round returns a number of whole seconds without the parts that are zero: 1m 30s, 2h.
func round(seconds float64) string {
	var parts []string
	left := int(seconds)
	for _, unit := range []struct {
		name string
		size int
	}{{"d", 86400}, {"h", 3600}, {"m", 60}, {"s", 1}} {
		if n := left / unit.size; n > 0 {
			parts = append(parts, fmt.Sprintf("%d%s", n, unit.name))
		}
		left %= unit.size
	}
	return strings.Join(parts, " ")
}

// clock returns the time of day in UTC.
func clock(at time.Time) string {
	h, m, s := at.UTC().Clock()
	return fmt.Sprintf("%02d:%02d:%02d", h, m, s)
}

func count(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
