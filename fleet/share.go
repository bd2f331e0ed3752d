package fleet

import (
	"strconv"
	"strings"
)

// Share is a number of members, or a percentage of them.
type Share struct {
	n       int
	percent bool
}

// Count returns the share of n members.
func Count(n int) Share { return Share{n: n} }

// Percent returns the share of n percent.
func Percent(n int) Share { return Share{n: n, percent: true} }

// ParseShare reads a number or a percentage from 0% to 100%.
func ParseShare(text string) (s Share, ok bool) {
	digits, percent := strings.CutSuffix(text, "%")
	n, err := strconv.Atoi(digits)
	if err != nil || digits[0] < '0' || digits[0] > '9' || percent && n > 100 {
		return Share{}, false
	}
	if percent {
		return Percent(n), true
	}
	return Count(n), true
}

// Of converts the share to a number of members, of total: a percentage is rounded down,
// and the result is at most total. For a width, the caller uses at least 1.
func (s Share) Of(total int) int {
	n := s.n
	if s.percent {
		n = s.n * total / 100
	}
	return max(min(n, total), 0)
}
