package rollout

import (
	"fmt"
	"testing"

	"bootstrap/fleet/schedule"
)

// A member may take over an address only of a member that has ended by then, however
// long that one takes.
func TestEndedBefore(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		rules       schedule.Rules
		first, then int
		want        bool
	}{
		{schedule.Rules{Width: 1}, 0, 1, true},
		{schedule.Rules{Width: 1}, 1, 0, false},
		{schedule.Rules{Width: 2}, 0, 1, false},
		{schedule.Rules{Width: 2}, 0, 5, false}, // the first one may take longer than all others
		{schedule.Rules{Width: 2, Canaries: 1}, 2, 0, true},
		{schedule.Rules{Width: 2, Canaries: 1}, 0, 2, false},
		{schedule.Rules{Width: 1, Canaries: 1}, 0, 2, false},
		{schedule.Rules{Width: 2, Waves: []int{2}}, 1, 2, true},
		{schedule.Rules{Width: 2, Waves: []int{2}}, 0, 1, false},
		{schedule.Rules{Width: 1, Waves: []int{3}}, 0, 1, true},
		{schedule.Rules{Width: 1, Waves: []int{2}}, 4, 3, false},
	} {
		t.Run(fmt.Sprintf("%+v %d %d", test.rules, test.first, test.then), func(t *testing.T) {
			t.Parallel()
			c := &coordinator{rules: test.rules, list: make([]schedule.Member, 6), handOvers: make([]handOver, 1)}
			c.list[2].Candidate = true
			if got := c.endedBefore()(test.first, test.then); got != test.want {
				t.Errorf("%t, and should be %t", got, test.want)
			}
		})
	}
}
