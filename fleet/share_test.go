package fleet

import (
	"strconv"
	"testing"

	"pgregory.net/rapid"
)

// A share is never larger than the total, nor negative. A percentage is rounded down,
// and a larger share never has fewer members.
func TestShareOf(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.IntRange(0, mostMembers).Draw(t, "total")
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		percent := rapid.IntRange(0, 100).Draw(t, "percent")
		if got := Count(n).Of(total); got != min(n, total) {
			t.Fatalf("%d of %d: %d", n, total, got)
		}
		p := percentage(percent).Of(total)
		if p > total || p*100 > percent*total || (p+1)*100 <= percent*total {
			t.Fatalf("%d%% of %d: %d", percent, total, p)
		}
		if more := percentage(min(percent+1, 100)).Of(total); more < p {
			t.Fatalf("%d%% of %d: %d, but one more percent: %d", percent, total, p, more)
		}
	})
}

func TestParseShare(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		share := Count(rapid.IntRange(0, 1<<31-1).Draw(t, "n"))
		if rapid.Bool().Draw(t, "percent") {
			share = percentage(rapid.IntRange(0, 100).Draw(t, "percentage"))
		}
		if got, ok := ParseShare(share.String()); !ok || got != share {
			t.Fatalf("%s: %v, %t", share, got, ok)
		}
	})
	for _, text := range []string{"", "%", "-1", "+1", "101%", "1.5", "1.5%", "10 %", "%10", "ten", "1e3", "99999999999999999999", "-0"} {
		if got, ok := ParseShare(text); ok {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// String returns the share in the form of a fleet file, such as 5 or 10%.
func (s Share) String() string {
	if s.percent {
		return strconv.Itoa(s.n) + "%"
	}
	return strconv.Itoa(s.n)
}

func percentage(n int) Share { return Share{n: n, percent: true} }
