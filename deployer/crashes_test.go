package deployer

import (
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
)

// A process that ends five times, or fails for half a minute, is in a crash loop;
// one that starts slowly is not.
func TestCrashes(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		states string // one letter per second: r(unning), f(ailing), s(tarting), u(nknown)
		want   string // error at the end
		loop   string
	}{
		"comes up":         {strings.Repeat("s", 40) + "rrr", "", ""},
		"fails at first":   {strings.Repeat("f", 20) + "rrr", "", ""},
		"ends":             {"srfsrf", "process web is failing; it has ended 2 times", ""},
		"ends five times":  {"rfrfrfrfrf", "", "process web ended 5 times within 9s"},
		"ends unseen":      {"rrr0r0r0r0r0r", "", "process web ended 5 times within 11s"},
		"does not start":   {strings.Repeat("f", 31), "", "process web keeps failing for 30s"},
		"fails with pause": {strings.Repeat("f", 20) + "s" + strings.Repeat("f", 20), "process web is failing", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			seen, uptime := watchCrashes(began), 0
			var found *Crashing
			var now agent.State
			for i, letter := range c.states {
				p := agent.Process{Name: "web", State: map[rune]string{'r': "running", '0': "running", 'f': "failing", 's': "starting", 'u': "unknown"}[letter]}
				if uptime++; letter != 'r' {
					uptime = 0
				}
				p.Uptime.Secs = uptime
				now = agent.State{Processes: []agent.Process{p}}
				if found = seen.take(now, began.Add(time.Duration(i)*time.Second)); found != nil {
					break
				}
			}
			got := ""
			if found != nil {
				got = found.String()
			}
			if got != c.loop {
				t.Errorf("crash loop %q, want %q", got, c.loop)
			}
			if words := seen.words(now); c.loop == "" && words != c.want {
				t.Errorf("words %q, want %q", words, c.want)
			}
		})
	}
}

// Equal lines of a log are shown once.
func TestWithoutRepeats(t *testing.T) {
	t.Parallel()
	got := strings.Join(withoutRepeats([]string{"a", "b", "b", "b", "c", "b"}), "|")
	if want := "a|b (3 times)|c|b"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
