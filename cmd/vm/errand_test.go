package vm

import "testing"

// No exit code of a failed errand becomes that of a success.
func TestHighest(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		codes []int
		want  int
	}{{nil, 0}, {[]int{0, 3, 1}, 3}, {[]int{0, -1}, 255}, {[]int{256, 1}, 255}, {[]int{255}, 255}} {
		var list []ErrandResult
		for _, code := range c.codes {
			list = append(list, ErrandResult{ExitCode: code})
		}
		if got := highest(list); got != c.want {
			t.Errorf("%v: %d", c.codes, got)
		}
	}
}
