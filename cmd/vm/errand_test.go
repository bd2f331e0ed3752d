package vm

import (
	"testing"

	"bootstrap/cmd/exit"
	"bootstrap/deployer/access"
)

// An exit status of which a process keeps eight bits would be another one: 256 a success.
func TestAfterSession(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]exit.Code{0: 0, 7: 7, 255: 255, 256: 255, -1: 255, 0xC0000005: 255} {
		if err, silent := afterSession(&access.ExitStatusError{Status: status}); err != want || !silent {
			t.Errorf("%d: %v, %t", status, err, silent)
		}
	}
}

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
