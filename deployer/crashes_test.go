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
			seen, uptime := watchCrashes(began, true), 0
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

// After a crash, a process must run for longer than it has ever lived before.
func TestUnproven(t *testing.T) {
	t.Parallel()
	// One letter per second as above, and the same process again after a monit that was
	// started again: R. The answers of a stemcell's agent change once in ten seconds.
	pass := func(letters string) string {
		text := ""
		for _, l := range letters {
			text += strings.Repeat(string(l), 10)
		}
		return text
	}
	for name, c := range map[string]struct {
		states string
		live   bool
		want   string // at the end
	}{
		"never":                      {"ssrrr", true, ""},
		"has run for too short":      {"srrfsrr", true, "process web has ended once and has run for only 2s since; it counts as running after 5s"},
		"has run for longer":         {"srrfsrrrrr", true, ""},
		"longest life counts":        {"srrrrrrrrrrfrfrrrrrrr", true, "process web has ended 2 times and has run for only 7s since; it counts as running after 15s"},
		"unseen end":                 {"srrrr0r", true, "process web has ended once and has run for only 1s since; it counts as running after 7s"},
		"failed to start":            {"sffr", true, "process web has failed and has run for only 1s since; it counts as running after 2s"},
		"failed to start before":     {"sffrrr", true, ""},
		"monit starts it":            {"sffrr", false, ""},
		"does not run":               {"srrf", true, ""},
		"monit was started again":    {"rrssRR", false, ""},
		"monit starts another":       {"rrrss0r", false, "process web has ended once and has run for only 1s since; it counts as running after 15s"},
		"passes of monit":            {pass("frf") + "rr", false, "process web has ended once and has run for only 2s since; it counts as running after 24s"},
		"long enough for monit":      {pass("frfrr") + "rrrr", false, ""},
		"an uptime of the last pass": {pass("rrrr"), false, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began := time.Now()
			seen, uptime, alive := watchCrashes(began, c.live), 0, false
			var at time.Time
			var now agent.State
			for i, letter := range c.states {
				at = began.Add(time.Duration(i+1) * time.Second)
				p := agent.Process{Name: "web", State: map[rune]string{'r': "running", 'R': "running", '0': "running", 'f': "failing", 's': "starting"}[letter]}
				if uptime++; letter == 'f' || letter == '0' || letter == 's' && !alive {
					uptime = 0
				}
				alive = letter != 'f' && (alive || letter != 's')
				if p.State == "running" {
					p.Uptime.Secs = uptime
				}
				now = agent.State{Processes: []agent.Process{p}}
				seen.take(now, at)
			}
			got := ""
			if u := seen.unproven(now, at); u != nil {
				got = u.String()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// A process that another run has seen, and that began after it, has crashed.
func TestRan(t *testing.T) {
	t.Parallel()
	at := time.Now()
	ran := Ran{Begun: at.Add(-20 * time.Second), At: at.Add(-10 * time.Second)}
	for name, c := range map[string]struct {
		state  string
		uptime int
		live   bool
		want   string
	}{
		"since before":                  {"running", 11, true, ""},
		"in the second after":           {"running", 9, true, ""},
		"began after":                   {"running", 2, true, "process web has ended once and has run for only 2s since; it counts as running after 24s"},
		"as old as the last pass":       {"running", 2, false, ""},
		"does not run, so it is waited": {"failing", 0, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := agent.Process{Name: "web", State: c.state}
			p.Uptime.Secs = c.uptime
			now := agent.State{Processes: []agent.Process{p}}
			seen := watchCrashes(at, c.live)
			seen.ran(now, ran, at)
			seen.take(now, at)
			got := ""
			if u := seen.unproven(now, at); u != nil {
				got = u.String()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
			if c.state == "failing" && seen.seen["web"].ends != 1 {
				t.Error("the end of a process that ran is not counted")
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
