//go:build unix

package sshd

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A reply that is read only after its time is over, as on a machine that was paused, is a
// sign of life.
func TestAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		takes time.Duration
		err   error
		want  bool
	}{
		"at once":   {want: true},
		"late":      {takes: keepAliveEvery + keepAliveLate/2, want: true},
		"never":     {takes: time.Hour},
		"an error":  {err: errors.New("closed")},
		"too late":  {takes: keepAliveEvery + 2*keepAliveLate},
		"just late": {takes: keepAliveEvery + time.Nanosecond, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				reply := make(chan error, 1)
				time.AfterFunc(c.takes, func() { reply <- c.err })
				if got := answers(reply); got != c.want {
					t.Errorf("answers: %v", got)
				}
			})
		})
	}
}
