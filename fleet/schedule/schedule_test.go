package schedule

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world simulates a run whose members end in any order, with outcomes that were drawn
// before.
type world struct {
	rules    Rules
	members  []Member
	outcomes [][]Verdict // outcomes of each member: one for each start; the last one repeats
	starts   []int
	wave     []int // wave of each member's last start; kept when it was busy
	asked    Asked
	now      time.Time
	last     Step
}

// draw draws rules and at most that many members; if well is true, no member fails.
func draw(t *rapid.T, most int, well bool) *world {
	pause := rapid.Custom(func(t *rapid.T) time.Duration {
		return time.Duration(rapid.IntRange(0, 3).Draw(t, "minutes")) * time.Minute
	})
	w := &world{
		now: time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC),
		rules: Rules{
			Canaries: rapid.IntRange(0, 5).Draw(t, "canaries"), Width: rapid.IntRange(0, 8).Draw(t, "width"),
			Waves:        rapid.SliceOfN(rapid.IntRange(0, 9), 0, 3).Draw(t, "waves"),
			BakeCanaries: pause.Draw(t, "bake canaries"), BakeWaves: pause.Draw(t, "bake waves"),
			MaxFailures: rapid.IntRange(0, 2).Draw(t, "failures"),
			BusyRounds:  rapid.IntRange(0, 3).Draw(t, "rounds"), BusyWait: pause.Draw(t, "wait"),
		},
	}
	verdicts := []Verdict{Done, Done, Done, Done, Done, Done, Done, Done, Done, Busy, Busy, Unchanged, Failed, Interrupted}
	if well || rapid.Bool().Draw(t, "nothing fails") {
		verdicts = verdicts[:12]
	}
	for i := range rapid.IntRange(most/60, most).Draw(t, "members") {
		m := Member{Candidate: rapid.IntRange(0, 2).Draw(t, "candidate") > 0}
		if rapid.IntRange(0, 9).Draw(t, "skipped") == 0 {
			m.Verdict = rapid.SampledFrom([]Verdict{Blocked, Unchanged}).Draw(t, "why")
		}
		w.members = append(w.members, m)
		w.outcomes = append(w.outcomes, rapid.SliceOfN(rapid.SampledFrom(verdicts), 1, 5).Draw(t, fmt.Sprint("outcomes ", i)))
	}
	w.starts, w.wave = make([]int, len(w.members)), make([]int, len(w.members))
	return w
}

func (w *world) running() []int {
	var list []int
	for i, m := range w.members {
		if m.Verdict == Running {
			list = append(list, i)
		}
	}
	return list
}

// step calls Next, checks the result against the rules, and starts the members.
func (w *world) step(t *rapid.T) Step {
	s := Next(w.rules, w.members, w.asked, w.now)
	w.check(t, s)
	for _, start := range s.Start {
		m := &w.members[start.Member]
		m.Verdict, m.Canary, m.Wave = Running, start.Canary, start.Wave
		w.starts[start.Member]++
		w.wave[start.Member] = start.Wave
	}
	if len(w.running()) > max(w.rules.Width, 1) {
		t.Fatalf("%d members run at once, more than %d", len(w.running()), w.rules.Width)
	}
	w.last = s
	return s
}

func (w *world) check(t *rapid.T, s Step) {
	failed, stop, canariesDone, candidates, waiting := 0, w.asked.Stop, 0, 0, 0
	for _, m := range w.members {
		switch m.Verdict {
		case Failed:
			failed++
			stop = stop || m.Canary
		case Interrupted:
			stop = true
		case Waiting:
			waiting++
		}
		if m.Canary && m.Verdict == Done {
			canariesDone++
		}
		if m.Candidate && m.Verdict != Unchanged && m.Verdict != Blocked {
			candidates++
		}
	}
	if stop = stop || failed > w.rules.MaxFailures; stop && len(s.Start) > 0 {
		t.Fatalf("members %v start after the run was to end", s.Start)
	}
	if w.asked.Pause && len(s.Start) > 0 {
		t.Fatal("a member starts while the run is paused")
	}
	for _, start := range s.Start {
		m := w.members[start.Member]
		switch {
		case m.Verdict != Waiting && m.Verdict != Busy:
			t.Fatalf("a member starts that is %s", m.Verdict)
		case m.Verdict == Busy && m.Tries > w.rules.BusyRounds:
			t.Fatalf("a busy member is tried for the time %d", m.Tries+1)
		case m.Verdict == Busy && w.now.Sub(m.Ended) < w.rules.BusyWait:
			t.Fatal("a busy member is tried before the pause has passed")
		case start.Canary && !m.Candidate:
			t.Fatal("a member is a canary that must not be one")
		case start.Wave > 1 && len(w.rules.Waves) == 0:
			t.Fatal("a second wave of a fleet without waves")
		case !start.Canary && canariesDone < min(w.rules.Canaries, candidates):
			t.Fatal("a member starts before the canaries have ended well")
		case m.Verdict == Busy && !start.Canary && waiting > 0:
			t.Fatal("a busy member is tried again before all others were tried")
		case start.Canary && len(w.canariesInFlight())+canariesDone >= min(w.rules.Canaries, candidates):
			t.Fatal("one canary too many")
		}
		if !start.Canary && slices.Max(append([]int{0}, w.wave...)) == 0 && start.Wave == 1 {
			w.pausePassed(t, w.rules.BakeCanaries, func(m Member) bool { return m.Canary })
		}
		if start.Wave > 1 {
			w.pausePassed(t, w.rules.BakeWaves, func(m Member) bool { return m.Wave == start.Wave-1 })
		}
	}
	w.checkWaves(t, s)
	if s.Ended {
		if len(w.running()) > 0 {
			t.Fatal("the run ends while members run")
		}
		if !stop && waiting > 0 && canariesDone >= min(w.rules.Canaries, candidates) {
			t.Fatalf("the run ends without trying %d members", waiting)
		}
		for _, m := range w.members {
			if !stop && m.Verdict == Busy && m.Tries <= w.rules.BusyRounds && (m.Candidate || canariesDone >= min(w.rules.Canaries, candidates)) {
				t.Fatalf("the run ends with a busy member that was tried %d times", m.Tries)
			}
		}
	}
}

func (w *world) canariesInFlight() []int {
	return slices.DeleteFunc(w.running(), func(i int) bool { return !w.members[i].Canary })
}

// pausePassed checks that a pause has passed since the members that match ended.
func (w *world) pausePassed(t *rapid.T, pause time.Duration, fits func(Member) bool) {
	for _, m := range w.members {
		if fits(m) && m.Verdict != Busy && m.Verdict != Waiting && m.Verdict != Unchanged && (m.Verdict == Running || w.now.Sub(m.Ended) < pause) {
			t.Fatalf("members start before the others have ended for %s", pause)
		}
	}
}

// checkWaves checks that no wave has more members than allowed; those that were busy do
// not count.
func (w *world) checkWaves(t *rapid.T, s Step) {
	if len(w.rules.Waves) == 0 {
		return
	}
	sizes := map[int]int{}
	for _, m := range w.members {
		if m.Wave > 0 && m.Verdict != Busy && m.Verdict != Waiting {
			sizes[m.Wave]++
		}
	}
	for _, start := range s.Start {
		if start.Wave > 0 {
			sizes[start.Wave]++
		}
	}
	for wave, size := range sizes {
		if limit := max(1, w.rules.Waves[min(wave, len(w.rules.Waves))-1]); size > limit {
			t.Fatalf("wave %d has %d members, more than %d", wave, size, limit)
		}
	}
}

// end draws the verdict of a running member.
func (w *world) end(i int) {
	m := &w.members[i]
	list := w.outcomes[i]
	m.Verdict, m.Ended = list[min(w.starts[i], len(list))-1], w.now
	if m.Verdict == Busy {
		m.Tries++
	}
}

// TestRules simulates runs with every order of events.
func TestRules(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) { draw(t, 60, false).play(t, true) })
}

// TestRulesOfThousands simulates runs of thousands of members, in which only some are
// busy or unchanged, and which are killed and paused.
func TestRulesOfThousands(t *testing.T) {
	runs := rapid.Custom(func(t *rapid.T) int {
		w := draw(t, 3000, true)
		w.members = append(w.members, make([]Member, 1000)...)
		for range 1000 {
			w.outcomes, w.starts, w.wave = append(w.outcomes, []Verdict{Done}), append(w.starts, 0), append(w.wave, 0)
		}
		w.play(t, false)
		done := 0
		for _, m := range w.members {
			if m.Verdict == Done {
				done++
			}
		}
		return done
	})
	most := 0
	for seed := range 3 {
		most = max(most, runs.Example(seed+1))
	}
	if most < 1000 {
		t.Errorf("only %d members were updated", most)
	}
}

// play simulates the run; stops says whether somebody may end it.
func (w *world) play(t *rapid.T, stops bool) {
	for events := 0; ; events++ {
		if events > 5000+20*len(w.members) {
			t.Fatalf("the run does not end: %+v", w.last)
		}
		s := w.step(t)
		if s.Ended {
			return
		}
		w.now = w.now.Add(time.Duration(rapid.IntRange(0, 90).Draw(t, "seconds")) * time.Second)
		running := w.running()
		switch event := rapid.IntRange(0, 60).Draw(t, "event"); {
		case event == 0:
			w.asked.Pause = true
		case event == 1 && stops:
			w.asked.Stop = true
		case event == 2: // the run is killed and continued: running members are started again
			for _, i := range running {
				w.members[i].Verdict = Waiting
			}
		case event < 20 && w.asked.Pause:
			w.asked.Pause = false
		case len(running) > 0:
			w.end(rapid.SampledFrom(running).Draw(t, "ends"))
		case !s.Until.IsZero() && s.Until.After(w.now):
			w.now = s.Until
		case s.Until.IsZero() && len(s.Start) == 0 && !w.asked.Pause && !w.asked.Stop:
			t.Fatalf("nothing runs, nothing is waited for, and the run does not end: %+v", s)
		}
	}
}

// run simulates a run in which each member ends a minute after its start, in the order
// of starts, and returns the verdicts.
func run(rules Rules, members []Member, outcome func(member, start int) Verdict) (log []string) {
	now := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	starts := make([]int, len(members))
	var running []int
	for {
		s := Next(rules, members, Asked{}, now)
		if s.Ended {
			return log
		}
		for _, start := range s.Start {
			m := &members[start.Member]
			m.Verdict, m.Canary, m.Wave = Running, start.Canary, start.Wave
			starts[start.Member]++
			running = append(running, start.Member)
			log = append(log, fmt.Sprintf("%s %d %d", s.Phase, s.Wave, start.Member))
		}
		if len(running) == 0 {
			now = s.Until
			continue
		}
		now = now.Add(time.Minute)
		m := &members[running[0]]
		m.Verdict, m.Ended = outcome(running[0], starts[running[0]]), now
		if m.Verdict == Busy {
			m.Tries++
		}
		running = running[1:]
	}
}

func well(int, int) Verdict { return Done }

func members(n int) []Member {
	list := make([]Member, n)
	for i := range list {
		list[i].Candidate = true
	}
	return list
}

func TestOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		rules   Rules
		members int
		outcome func(member, start int) Verdict
		want    []string
	}{
		{"one after another", Rules{}, 3, well, []string{"waves 1 0", "waves 1 1", "waves 1 2"}},
		{"canaries, then waves of which the last repeats", Rules{Canaries: 2, Width: 4, Waves: []int{1, 2}}, 8, well, []string{
			"canaries 0 0", "canaries 0 1", "waves 1 2", "waves 2 3", "waves 2 4", "waves 3 5", "waves 3 6", "waves 4 7",
		}},
		{"a failed canary ends the run", Rules{Canaries: 1, Width: 4, MaxFailures: 5}, 8, func(int, int) Verdict { return Failed }, []string{"canaries 0 0"}},
		{"a failure lets running ones end", Rules{Width: 2}, 5, func(m, _ int) Verdict {
			if m == 1 {
				return Failed
			}
			return Done
		}, []string{"waves 1 0", "waves 1 1", "waves 1 2"}},
		{"a busy canary gives its place to the next one", Rules{Canaries: 1, Width: 1, BusyRounds: 1}, 3, func(m, start int) Verdict {
			if m == 0 && start == 1 {
				return Busy
			}
			return Done
		}, []string{"canaries 0 0", "canaries 0 1", "waves 1 2", "busy members again 0 0"}},
		{"only busy canaries", Rules{Canaries: 1, Width: 3, BusyRounds: 2, BusyWait: time.Minute}, 2, func(int, int) Verdict { return Busy }, []string{
			"canaries 0 0", "canaries 0 1", "canaries 0 0", "canaries 0 1", "canaries 0 0", "canaries 0 1",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := run(c.rules, members(c.members), c.outcome); !slices.Equal(got, c.want) {
				t.Errorf("got  %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestVerdictsAreTexts(t *testing.T) {
	for _, v := range Verdicts() {
		text, _ := v.MarshalText()
		var back Verdict
		if err := back.UnmarshalText(text); err != nil || back != v {
			t.Errorf("%s is read as %s, %v", v, back, err)
		}
	}
	var v Verdict
	if err := v.UnmarshalText([]byte("finished")); err == nil {
		t.Error("a word that is no verdict is read")
	}
}

// BenchmarkRun simulates whole runs of 10,000 members.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		run(Rules{Canaries: 10, Width: 100, Waves: []int{100, 1000}}, members(10_000), well)
	}
}

// Order returns the order of a run in which every member succeeds at once.
func TestPredictedOrder(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := draw(t, 60, false)
		waiting := 0
		for _, m := range w.members {
			if m.Verdict == Waiting {
				waiting++
			}
		}
		order := Order(w.rules, w.members)
		seen := map[int]bool{}
		for i, s := range order {
			if seen[s.Member] || w.members[s.Member].Verdict != Waiting {
				t.Fatalf("member %d is started twice, or has nothing to do", s.Member)
			}
			seen[s.Member] = true
			if i > 0 && (s.Canary && !order[i-1].Canary || s.Wave < order[i-1].Wave) {
				t.Fatalf("%+v starts after %+v", s, order[i-1])
			}
		}
		if len(order) != waiting {
			t.Fatalf("%d of %d members are started", len(order), waiting)
		}
	})
}
