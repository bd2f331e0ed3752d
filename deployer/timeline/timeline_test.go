package timeline

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// text returns a line for each span: name, beginning, end, and unusual properties.
func text(t *Timeline) string {
	var b strings.Builder
	for i, s := range t.Spans {
		fmt.Fprintf(&b, "%s%s %s %v-%v", strings.Repeat("  ", t.Depth(i)), s.Kind, s.Name, s.At, s.Until())
		if s.Calls > 0 {
			fmt.Fprintf(&b, " x%d", s.Calls)
		}
		if s.Status != Finished {
			fmt.Fprintf(&b, " %s", s.Status)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func asIs(name string) string { return name }

func pass(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

// A message to the agent lasts until the last question about its task, consecutive
// questions are one span, and the parts of a stage follow directly after it, even if
// another stage began in between. Short phases and phases that only contain steps are
// left out.
func TestRecorder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder()
		call := func(kind Kind, method string, seconds float64) {
			r.Call(kind, method, "before")
			r.Call(kind, method, "running")
			pass(seconds)
			r.Call(kind, method, "after")
		}
		r.Begin("read manifest")
		r.End(Finished)
		r.Begin("fetch artifacts")
		r.BeginStage(1, 0, "Downloading a")
		r.BeginStage(2, 0, "Downloading b")
		pass(1)
		r.EndStage(2, Finished)
		call(CPI, "info", 1)
		r.EndStage(1, Finished)
		r.BeginStage(3, 0, "Downloading c")
		r.EndStage(3, Skipped)
		r.End(Finished)
		r.Begin("run the plan")
		r.BeginStep("stop jobs", true)
		call(Agent, "stop", 0.5)
		pass(0.5)
		for range 3 {
			call(Agent, "get_task", 0.5)
		}
		call(Agent, "get_state", 0.5)
		call(Agent, "get_state", 0.5)
		call(Agent, "run_script", 0.5)
		call(Agent, "run_script", 0.5)
		r.End(Finished)
		r.BeginStep("start jobs", true)
		r.End(Finished)
		r.BeginStep("record deployment", false)
		pass(1)
		r.Call(CPI, "delete_vm", "before")
		r.BeginStage(4, 0, "Deleting VM")
		pass(1)
		got := r.Timeline(Failed, asIs)
		want := `phase fetch artifacts 0-2
  stage Downloading a 0-2
    cpi info 1-2
  stage Downloading b 0-1
step stop jobs 2-6.5
  agent stop 2-4.5 x4
  agent get_state 4.5-5.5 x2
  agent run_script 5.5-6
  agent run_script 6-6.5
step start jobs 6.5-6.5
step record deployment 6.5-8.5 failed
  cpi delete_vm 7.5-8.5 failed
  stage Deleting VM 7.5-8.5 failed
`
		if text(got) != want {
			t.Errorf("got:\n%s", text(got))
		}
		if want := []Interval{{2, 6.5}}; !reflect.DeepEqual(got.Down, want) || got.StillDown || got.DownSeconds() != 4.5 || got.Seconds != 8.5 {
			t.Errorf("down %v, %v, %v of %v", got.Down, got.StillDown, got.DownSeconds(), got.Seconds)
		}
		if s := got.Within(4, Agent); s != 4.5 {
			t.Errorf("the agent worked for %v s", s)
		}
		if list := got.Longest(2); !reflect.DeepEqual(list, []int{5, 2}) || got.Top(2) != 0 || got.Top(5) != 4 {
			t.Errorf("the longest are %v", list)
		}
		// A call that was running when the timeline was made may continue.
		pass(1)
		r.Call(CPI, "delete_vm", "after")
		r.EndStage(4, Finished)
		r.End(Finished)
		r.BeginStep("stop jobs", true)
		pass(1)
		if s := text(r.Timeline(Finished, asIs)); !strings.Contains(s, "delete_vm 7.5-9.5\n") || !strings.Contains(s, "step record deployment 6.5-9.5\n") {
			t.Errorf("got:\n%s", s)
		}
		if seconds, still := r.Down(); seconds != 5.5 || !still {
			t.Errorf("down for %v, still: %v", seconds, still)
		}
		r.Up()
		if got := r.Timeline(Finished, asIs); len(got.Down) != 2 || got.StillDown || got.Status != Failed {
			t.Errorf("down %v, still: %v, %s", got.Down, got.StillDown, got.Status)
		}
	})
}

// The timeline of a run with very many calls is limited.
func TestLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRecorder()
		r.BeginStep("compile", false)
		for i := range 2 * maxSpans {
			r.BeginStage(i, 0, strings.Repeat("ß", 1000))
			for _, method := range []string{"compile_package", "get_blob"} {
				r.Call(Agent, method, "before")
				r.Call(Agent, method, "after")
			}
			r.EndStage(i, Finished)
		}
		for range 5 {
			r.Call(Agent, "get_blob", "before")
			r.Call(Agent, "get_blob", "after")
		}
		r.End(Finished)
		r.BeginStep("start jobs", false)
		got := r.Timeline(Finished, asIs)
		if len(got.Spans) != maxSpans+1 || got.Omitted == 0 || len([]rune(got.Spans[1].Name)) != maxName {
			t.Errorf("%d spans, %d more, %d characters", len(got.Spans), got.Omitted, len([]rune(got.Spans[1].Name)))
		}
	})
}

// Without a recorder, calls are not recorded; a changed file does not stop the program.
func TestOdd(t *testing.T) {
	t.Parallel()
	var r *Recorder
	r.Call(CPI, "info", "before")
	odd := Timeline{Spans: []Span{{Kind: Stage, In: 2}, {Kind: CPI, In: 1, Seconds: 1}, {Kind: CPI, In: 99}, {Kind: CPI, In: -1}}}
	for i := range odd.Spans {
		odd.Depth(i)
		odd.Top(i)
		odd.Within(i, CPI)
	}
}

// A secret is replaced before a long name is shortened; otherwise its beginning would
// stay.
func TestSecretInLongName(t *testing.T) {
	const secret = "s3cret-password"
	r := NewRecorder()
	r.BeginStage(1, 0, strings.Repeat("x", maxName-8)+secret)
	clean := func(name string) string { return strings.ReplaceAll(name, secret, "<redacted>") }
	name := r.Timeline(Finished, clean).Spans[0].Name
	if strings.Contains(name, "s3c") || len([]rune(name)) != maxName {
		t.Errorf("the name is %s", name)
	}
}
