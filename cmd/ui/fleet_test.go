package ui

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-runewidth"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
)

// screen returns the lines that a terminal shows after this output, which moves up only
// to clear the rest.
func screen(t *testing.T, out string) []string {
	t.Helper()
	var lines []string
	up := regexp.MustCompile(`^\x1b\[(\d+)A\x1b\[J`)
	for line := range strings.Lines(out) {
		for m := up.FindStringSubmatch(line); m != nil; m = up.FindStringSubmatch(line) {
			n, _ := strconv.Atoi(m[1])
			if n > len(lines) {
				t.Fatalf("moves up %d lines of %d", n, len(lines))
			}
			lines, line = lines[:len(lines)-n], line[len(m[0]):]
		}
		if line != "" {
			lines = append(lines, strings.TrimSuffix(line, "\n"))
		}
	}
	return lines
}

// Running members are sorted as people count.
func TestFleetTerminalOrder(t *testing.T) {
	var out bytes.Buffer
	r := &rollout.Record{Name: "shop", ID: "1"}
	show, _, stop := FleetTerminal(t.Context(), (&Redactor{}).Writer(&out), func() int { return 80 }, func() int { return 24 })
	defer stop()
	for _, name := range strings.Fields("m-10 m-2 m-1") {
		show(rollout.Event{Time: time.Now(), Record: r, Kind: rollout.OfMember, Member: name, Status: "step", Step: "stop jobs"})
	}
	if got := strings.Join(screen(t, out.String()), ""); !regexp.MustCompile(`m-1 .*m-2 .*m-10 `).MatchString(got) {
		t.Errorf("%q", got)
	}
}

// Tables have the members as people count, whatever the order is in which they start.
func TestFleetTableOrder(t *testing.T) {
	r := &rollout.Record{Name: "shop", Numbers: rollout.Numbers{Members: 3, ToDo: 3, Canaries: 1, MaxInFlight: 1, ToDelete: 1}}
	for _, name := range strings.Fields("m-10 m-2 m-1") {
		r.Members = append(r.Members, &rollout.Member{Name: name, Candidate: true})
	}
	r.Members = append(r.Members, &rollout.Member{Name: "a-1", Delete: true})
	n := &rollout.Now{Members: []rollout.NowMember{{Name: "m-10"}, {Name: "m-2"}, {Name: "m-1"}, {Name: "x"}}}
	for name, write := range map[string]func(*Writer){
		"plan":   func(out *Writer) { FleetPlan(out, r) },
		"status": func(out *Writer) { FleetStatus(out, r, false) },
		"now":    func(out *Writer) { FleetNow(out, n) },
	} {
		var b bytes.Buffer
		out := (&Redactor{}).Writer(&b)
		write(out)
		if err := out.Flush(); err != nil {
			t.Fatal(err)
		}
		if !regexp.MustCompile(`(?s)\nm-1 .*\nm-2 .*\nm-10 .*\n(a-1|x) `).MatchString(b.String()) {
			t.Errorf("%s:\n%s", name, b.String())
		}
		if name == "plan" && !regexp.MustCompile(`\nm-10 .* canary\n`).MatchString(b.String()) {
			t.Errorf("the first member is no canary:\n%s", b.String())
		}
	}
}

// A terminal shows a line for each running member, clipped to its size; lines about ended
// members stay above.
func TestFleetTerminal(t *testing.T) {
	for _, size := range []struct{ width, height int }{{20, 6}, {40, 8}, {80, 24}, {200, 50}} {
		var out bytes.Buffer
		r := &rollout.Record{Name: "shop", ID: "1", Numbers: rollout.Numbers{Members: 9, ToDo: 9, MaxInFlight: 9}}
		show, hide, stop := FleetTerminal(t.Context(), (&Redactor{}).Writer(&out), func() int { return size.width }, func() int { return size.height })
		show(rollout.Event{Time: time.Now(), Record: r, Kind: rollout.Planning, Member: "m1", Verdict: schedule.Waiting})
		hide()
		if got := screen(t, out.String()); len(got) > 0 {
			t.Errorf("%v: %q is left where a question is asked", size, got)
		}
		out.Reset()
		names := strings.Fields("m1 m2 m3 m4 m5 m6 m7 m8 m9")
		for _, name := range names {
			r.Members = append(r.Members, &rollout.Member{Name: name, Verdict: schedule.Done})
			show(rollout.Event{Time: time.Now(), Record: r, Kind: rollout.OfMember, Member: name, Status: "started", Counts: map[string]int{"running": 9}})
			show(rollout.Event{Time: time.Now(), Record: r, Kind: rollout.OfMember, Member: name, Status: "step", Step: "a step of many words that no narrow terminal shows"})
		}
		lines := screen(t, out.String())
		if len(lines) > len(names)+size.height || !strings.Contains(lines[len(lines)-1], "9 running") {
			t.Errorf("%v: %q", size, lines)
		}
		live := lines[len(names):] // below the lines "m1: started"
		if len(live) >= size.height {
			t.Errorf("%v: %d lines are drawn again", size, len(live))
		}
		for _, line := range live {
			if runewidth.StringWidth(line) >= size.width {
				t.Errorf("%v: the line %q does not fit", size, line)
			}
		}
		for _, name := range names {
			show(rollout.Event{Time: time.Now(), Record: r, Kind: rollout.OfMember, Member: name, Verdict: schedule.Done, Status: "done", Seconds: 3, Counts: map[string]int{"done": 1}})
		}
		show(rollout.Event{Time: time.Now(), Record: r, Kind: rollout.Over})
		stop()
		want := "m9: done after 3.0s\n\nMembers: 9 done"
		if got := strings.Join(screen(t, out.String()), "\n"); !strings.HasSuffix(got, want) {
			t.Errorf("%v: the screen ends with %q", size, got[max(0, len(got)-200):])
		}
	}
}

func TestChangesTogether(t *testing.T) {
	for want, changes := range map[string][]string{
		"":                            nil,
		"create stemcell, vm, disk":   {"create stemcell", "create vm", "create disk"},
		"replace vm; create jobs":     {"replace vm", "create jobs"},
		"update in place jobs, tags":  {"update in place jobs", "update in place tags"},
		"create vm, named disk, jobs": {"create vm", "create named disk", "create named disk", "create jobs"},
	} {
		if got := joinChanges(changes); got != want {
			t.Errorf("%q: %q, want %q", changes, got, want)
		}
	}
}
