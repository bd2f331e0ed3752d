package ui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"bootstrap/deployer/report"
)

func amount(e report.Event) string {
	if e.Total <= 0 {
		return Size(e.Done)
	}
	return fmt.Sprintf("%d%% (%s of %s)", int(float64(e.Done)/float64(e.Total)*100), Size(e.Done), Size(e.Total))
}

// Size writes a number of bytes for people: 1.5 MiB.
func Size(n int64) string {
	const unit = 1024
	if n < unit {
		return fmt.Sprintf("%d B", n)
	}
	value, suffix := float64(n)/unit, "KiB"
	for _, s := range []string{"MiB", "GiB", "TiB"} {
		if value < unit {
			break
		}
		value, suffix = value/unit, s
	}
	return fmt.Sprintf("%.1f %s", value, suffix)
}

// mebibytes returns a size in MiB for people. It does not overflow, whatever a state file
// contains.
func mebibytes(n int) string { return Size(min(int64(n), math.MaxInt64>>20) << 20) }

// count returns a number of things in words.
func count(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}

// duration returns a duration in tenths of seconds below a minute, and in its two
// largest units above: 0.4s, 1m 12s.
func duration(seconds float64) string {
	if seconds < 59.95 {
		return fmt.Sprintf("%.1fs", seconds)
	}
	return span(time.Duration(seconds * float64(time.Second)).Round(time.Second))
}
