package fleet

import "bootstrap/internal/number"

// Share is a number of members, or a percentage of them.
type Share struct {
	n       int
	percent bool
}

// Count returns the share of n members.
func Count(n int) Share { return Share{n: n} }

// ParseShare reads a number or a percentage from 0% to 100%.
func ParseShare(text string) (s Share, ok bool) {
	share, ok := number.ParseShare(text)
	if !ok || share.Percent && share.N > 100 {
		return Share{}, false
	}
	return Share{n: share.N, percent: share.Percent}, true
}

// Of converts the share to a number of members, of total: a percentage is rounded down,
// and the result is at most total. For a width, the caller uses at least 1.
func (s Share) Of(total int) int {
	return max(min(number.Share{N: s.n, Percent: s.percent}.Of(total), total), 0)
}
