package rollout

import (
	"testing"
	"time"
)

// A worker reports everything again to a continued run: no outage counts twice.
func TestOutagesCountOnce(t *testing.T) {
	m := &Member{Name: "a"}
	at := func(s int) time.Time { return time.Unix(int64(s), 0) }
	for range 2 {
		c := &coordinator{down: map[string]time.Time{}}
		c.serviceIs(m, true, at(1))
		c.serviceIs(m, false, at(3))
		c.serviceIs(m, true, at(5))
		c.serviceIs(m, true, at(6))
		c.serviceIs(m, false, at(9))
	}
	if m.Down != 6 || len(m.Outages) != 2 {
		t.Errorf("down for %v s in %v", m.Down, m.Outages)
	}
}
