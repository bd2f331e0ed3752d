package agent

import (
	"strings"
	"testing"
	"time"
)

// The client wakes monit only if all processes have started and monit does not check
// them, and only once.
func TestSleep(t *testing.T) {
	t.Parallel()
	const second = time.Second
	type answer struct {
		at        time.Duration
		processes string
		wake      bool
	}
	for name, answers := range map[string][]answer{
		"asleep":                   {{0, "a unknown, b unknown", false}, {second, "a starting, b unknown", false}, {2 * second, "a starting, b starting", false}, {2*second + sleepLeast, "a starting, b starting", true}, {3 * second, "a starting, b starting", false}},
		"one process":              {{0, "a unknown", false}, {2 * second, "a starting", false}, {3 * second, "a starting", true}},
		"beside a running one":     {{0, "a running, b unknown", false}, {2 * second, "a running, b starting", false}, {3 * second, "a running, b starting", true}},
		"awake":                    {{0, "a unknown, b unknown", false}, {2 * second, "a starting, b starting", false}, {3 * second, "a running, b running", false}},
		"one is still started":     {{0, "a unknown, b unknown", false}, {2 * second, "a starting, b unknown", false}, {60 * second, "a starting, b unknown", false}},
		"one starts again":         {{0, "a unknown, b unknown", false}, {2 * second, "a starting, b starting", false}, {3 * second, "a unknown, b starting", false}, {4 * second, "a starting, b starting", false}, {5 * second, "a starting, b starting", true}},
		"new jobs":                 {{0, "a starting, b starting", false}, {9 * second, "a starting, b starting", false}},
		"a new job among the old":  {{0, "a unknown, b starting", false}, {9 * second, "a starting, b starting", false}, {10 * second, "a starting, b starting", false}},
		"one fails":                {{0, "a unknown, b unknown", false}, {2 * second, "a starting, b failing", false}, {9 * second, "a starting, b failing", false}},
		"no processes":             {{0, "", false}, {9 * second, "", false}},
		"in the second it started": {{0, "a unknown", false}, {second / 10, "a starting", false}, {second * 9 / 10, "a starting", false}, {second, "a starting", true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			s := SleepSince(began)
			for _, a := range answers {
				var now State
				for _, text := range strings.FieldsFunc(a.processes, func(c rune) bool { return c == ',' }) {
					name, state, _ := strings.Cut(strings.TrimSpace(text), " ")
					now.Processes = append(now.Processes, Process{Name: name, State: state})
				}
				s.Begins(now, began.Add(a.at))
				if got := s.Lasts(began.Add(a.at)); got != a.wake {
					t.Errorf("after %s, with %s: %t, want %t", a.at, a.processes, got, a.wake)
				}
			}
		})
	}
}
