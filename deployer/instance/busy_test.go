package instance

import (
	"strings"
	"testing"
	"time"

	"bootstrap/manifest"
)

// An agent that looks for its registry is not taken for a busy one.
func TestBusyTime(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		timeout  time.Duration
		fix      bool
		registry *manifest.Registry
		want     time.Duration
	}{
		{timeout: time.Second, want: time.Second},
		{timeout: 10 * time.Minute, want: 10 * time.Minute},
		{timeout: 10 * time.Minute, fix: true, want: busyFixTime},
		{timeout: time.Second, registry: &manifest.Registry{}, want: registryTime},
		{timeout: 10 * time.Minute, fix: true, registry: &manifest.Registry{}, want: registryTime},
	} {
		l := NewLook(New(NewEnv(Config{AgentTimeout: c.timeout}), Options{}), c.fix)
		l.rec.About.Registry = c.registry
		if got := l.busyTime(); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
		if says := l.busyWith(c.want); strings.Contains(says, "registry") != (c.registry != nil) {
			t.Errorf("%+v: %s", c, says)
		}
	}
}
