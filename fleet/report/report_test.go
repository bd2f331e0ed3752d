package report

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/printable"
	"bootstrap/state"
)

func moment(seconds float64) time.Time {
	return time.Date(2026, 11, 22, 10, 0, 0, 0, time.UTC).Add(time.Duration(seconds * float64(time.Second)))
}

func at(seconds float64) *time.Time {
	t := moment(seconds)
	return &t
}

// member returns a member that ran from one second of the run to another, and whose
// service was down in the last third of that.
func member(name string, verdict schedule.Verdict, from, to float64) *rollout.Member {
	m := &rollout.Member{Name: name, Verdict: verdict, Started: at(from), Ended: at(to), Attempts: 1, Log: "/home/anna/.bosh/fleets/5f3a/20261122-100000-000/" + name + ".log"}
	if verdict == schedule.Done {
		m.Changes = []string{"update in place"}
		m.Outages = []rollout.Outage{{From: moment(to - (to-from)/3), To: moment(to)}}
		m.Down = (to - from) / 3
	}
	return m
}

func record(result rollout.Result, end float64, members ...*rollout.Member) *rollout.Record {
	r := &rollout.Record{
		Format: rollout.Format, ID: "20261122-100000-000", Fleet: "/home/anna/shop/fleet.yml", Name: "shop", Action: fleet.UpdateStrategy,
		By: state.Holder{User: "anna", Host: "ci-1", PID: 4242, Command: "fleet deploy"}, Started: moment(0), Result: result,
		Numbers: rollout.Numbers{Members: len(members), ToDo: len(members), MaxInFlight: 2}, Logs: "/home/anna/.bosh/fleets/5f3a/20261122-100000-000", Members: members,
	}
	if result != "" {
		r.Ended = at(end)
	}
	for _, m := range members {
		if m.Canary {
			r.Numbers.Canaries++
		}
	}
	return r
}

// small is a run of a small fleet in which a member failed.
func small() *rollout.Record {
	canary := member("web", schedule.Done, 4, 40)
	canary.Canary, canary.Labels = true, map[string]string{"zone": "z1", "tier": "canary"}
	done, failed, blocked, late := member("pg-1", schedule.Done, 41, 80), member("pg-2", schedule.Failed, 41, 52.5), &rollout.Member{Name: "pg-3", Verdict: schedule.Blocked, Reason: "freeze until Monday (anna)"}, &rollout.Member{Name: "pg-4", Verdict: schedule.NotStarted}
	done.Wave, failed.Wave = 1, 1
	failed.Reason = "cannot reach the agent at 10.0.0.6:6868: connection refused"
	failed.Hint, failed.ExitCode = `"bootstrap status pg.yml" shows the VM; correct the cause and deploy again`, 69
	r := record(rollout.Failed, 80, canary, done, failed, blocked, late)
	r.Reason, r.Numbers.ToDo = "1 member failed", 4
	return r
}

// large returns a run of a large fleet, ten members at the same time, in growing waves,
// with some of every verdict.
func large(n int) *rollout.Record {
	var list []*rollout.Member
	const width = 10
	var free [width]float64
	wave, left, start := 0, 2, 12.0
	for i := range n {
		if left == 0 {
			for _, end := range free {
				start = max(start, end)
			}
			start += 30
			wave++
			left = min(5*wave*wave, 60)
		}
		left--
		slot := 0
		for s := range free {
			if free[s] < free[slot] {
				slot = s
			}
		}
		from := max(start, free[slot])
		to := from + 25 + float64(i*7919%97)
		verdict := schedule.Done
		switch {
		case i%31 == 30:
			list = append(list, &rollout.Member{Name: fmt.Sprintf("shop-%04d", i), Verdict: schedule.Blocked, Reason: "freeze until Monday"})
			continue
		case i%71 == 50:
			verdict, to = schedule.Failed, from+9
		case i%83 == 40:
			verdict, to = schedule.Busy, from+1
		case i > n-n/5:
			list = append(list, &rollout.Member{Name: fmt.Sprintf("shop-%04d", i), Verdict: schedule.NotStarted})
			continue
		}
		free[slot] = to
		m := member(fmt.Sprintf("shop-%04d", i), verdict, from, to)
		m.Canary, m.Wave = wave == 0, wave
		m.Labels = map[string]string{"zone": fmt.Sprintf("z%d", i%3+1)}
		switch verdict {
		case schedule.Failed:
			m.Reason, m.ExitCode = "the job web fails: nginx has not been running for 60 seconds", 1
			m.Hint = `"bootstrap logs MANIFEST" fetches all of their logs`
		case schedule.Busy:
			m.Reason, m.ExitCode, m.Tries = "the deployment state is locked by ben@laptop, process 17, `bootstrap deploy`", 75, 4
		}
		list = append(list, m)
	}
	last := 0.0
	for _, end := range free {
		last = max(last, end)
	}
	r := record(rollout.Failed, last, list...)
	r.Reason, r.Numbers.MaxInFlight, r.Numbers.Waves, r.Numbers.Canaries = "2 members failed", width, []int{5, 20, 45, 60}, 2
	return r
}

func made(r *rollout.Record, edit ...func(*Input)) *Report {
	in := Input{Record: r, Now: moment(3600), Clean: func(text string) string { return text }}
	for _, e := range edit {
		e(&in)
	}
	return New(in)
}

func bytesOf(t testing.TB, make func() ([]byte, error)) string {
	t.Helper()
	data, err := make()
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestGolden(t *testing.T) {
	t.Parallel()
	v := made(small(), func(in *Input) { in.LogEnd = func(string) string { return "the last line\n" } })
	golden.Assert(t, bytesOf(t, v.JSON), "small.json")
	golden.Assert(t, bytesOf(t, v.JUnit), "small.xml")
	golden.Assert(t, bytesOf(t, v.HTML), "small.html")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	open := small()
	open.Ended, open.Result, open.Reason = nil, "", ""
	open.Members[2] = &rollout.Member{Name: "pg-2", Verdict: schedule.Running, Started: at(41), Attempts: 1, Step: "stop old vm", Since: at(90)}
	paused := *open
	paused.Paused = true
	for _, c := range []struct {
		record  *rollout.Record
		runs    bool
		status  Status
		seconds float64
		member  float64
		shown   string
	}{
		{small(), false, Ended, 80, 11.5, ">failed<"},
		{small(), true, Ended, 80, 11.5, ">failed<"}, // another run is about to begin
		{open, true, Running, 3600, 3559, ">is running<"},
		{&paused, true, Paused, 3600, 3559, ">is paused<"},
		{open, false, Killed, 90, 49, ">was killed and has not been continued<"},
		{&paused, false, Killed, 90, 49, ">running when the run was killed, after 49s"},
	} {
		v := made(c.record, func(in *Input) { in.Runs = c.runs })
		if v.Status != c.status || v.Seconds != c.seconds || v.Members[2].Seconds != c.member {
			t.Errorf("%s for %v s, the member %v s; want %+v", v.Status, v.Seconds, v.Members[2].Seconds, c)
		}
		if page := bytesOf(t, v.HTML); !strings.Contains(page, c.shown) {
			t.Errorf("%s: the page does not say %q", c.status, c.shown)
		}
	}
}

// counted is a JUnit file as CI systems read it.
type counted struct {
	Suites []struct {
		Tests    int `xml:"tests,attr"`
		Failures int `xml:"failures,attr"`
		Errors   int `xml:"errors,attr"`
		Skipped  int `xml:"skipped,attr"`
		Cases    []struct {
			Name    string  `xml:"name,attr"`
			Class   string  `xml:"classname,attr"`
			Time    float64 `xml:"time,attr"`
			Failure *struct {
				Message string `xml:"message,attr"`
				Type    string `xml:"type,attr"`
				Text    string `xml:",chardata"`
			} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func parseJUnit(t *testing.T, text string) counted {
	t.Helper()
	var got counted
	d := xml.NewDecoder(strings.NewReader(text))
	if err := d.Decode(&got); err != nil || len(got.Suites) != 1 {
		t.Fatalf("%v, %d suites", err, len(got.Suites))
	}
	return got
}

func TestJUnit(t *testing.T) {
	t.Parallel()
	started := func(v schedule.Verdict) *rollout.Member { return member("m", v, 1, 3) }
	waiting := func(v schedule.Verdict) *rollout.Member { return &rollout.Member{Name: "m", Verdict: v} }
	open := func(r *rollout.Record) *rollout.Record {
		r.Ended, r.Result = nil, ""
		return r
	}
	for name, c := range map[string]struct {
		record *rollout.Record
		runs   bool
		want   string // a letter for each member
	}{
		"well":        {record(rollout.Done, 9, started(schedule.Done), waiting(schedule.Unchanged), waiting(schedule.Blocked)), false, "PPS"},
		"failed":      {record(rollout.Failed, 9, started(schedule.Done), started(schedule.Failed), started(schedule.Interrupted), waiting(schedule.NotStarted)), false, "PFES"},
		"unplanned":   {record(rollout.Failed, 9, waiting(schedule.Failed), waiting(schedule.NotStarted)), false, "FS"},
		"busy":        {record(rollout.Busy, 9, started(schedule.Done), started(schedule.Busy)), false, "PE"},
		"interrupted": {record(rollout.Interrupted, 9, started(schedule.Done), waiting(schedule.NotStarted)), false, "PE"},
		"aborted":     {record(rollout.Aborted, 9, started(schedule.Interrupted), waiting(schedule.NotStarted)), false, "ES"},
		"running":     {open(record("", 9, started(schedule.Done), started(schedule.Running), waiting(schedule.Waiting))), true, "PSS"},
		"killed":      {open(record("", 9, started(schedule.Done), started(schedule.Running), waiting(schedule.Waiting))), false, "PES"},
		"killed idle": {open(record("", 9, started(schedule.Done), waiting(schedule.Waiting))), false, "PE"},
		"empty":       {record(rollout.Done, 9), false, ""},
	} {
		suite := parseJUnit(t, bytesOf(t, made(c.record, func(in *Input) { in.Runs = c.runs }).JUnit)).Suites[0]
		got := ""
		for _, one := range suite.Cases {
			letter := "P"
			for kind, is := range map[string]bool{"F": one.Failure != nil, "E": one.Error != nil, "S": one.Skipped != nil} {
				if is && letter != "P" {
					t.Errorf("%s: a case is both %s and %s", name, letter, kind)
				} else if is {
					letter = kind
				}
			}
			got += letter
		}
		counts := []int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped}
		want := []int{len(got), strings.Count(got, "F"), strings.Count(got, "E"), strings.Count(got, "S")}
		if got != c.want || fmt.Sprint(counts) != fmt.Sprint(want) {
			t.Errorf("%s: %s, want %s; the suite counts %v", name, got, c.want, counts)
		}
	}
}

// hostile returns texts that would change the form of a report if they were not escaped.
func hostile() map[string]string {
	return map[string]string{
		"script":     `</script><script>alert(1)</script><img src=x onerror=alert(1)>`,
		"attribute":  `" onload="alert(1)" x='`,
		"cdata":      `]]><failure/><!-- -->`,
		"control":    "\x00\x01\x1b[31mred\x1b[0m\a\u009b\r\nnext",
		"no utf-8":   "caf\xe9 \xff\xfe",
		"not in XML": "\ufffe \uffff \U0001f600",
		"direction":  "abc\u202egpj.exe\u2028\u2066",
		"template":   `{{.Members}} ${x}`,
		"long":       strings.Repeat("x", 10000),
		"long lines": strings.Repeat("a line of a log\n", 1000),
		"empty":      "",
		"blank":      " \n ",
	}
}

// Reasons come from CPIs, agents and scripts. Whatever is in them stays text.
func TestHostileTexts(t *testing.T) {
	t.Parallel()
	for name, text := range hostile() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			checkText(t, text)
		})
	}
}

func FuzzTexts(f *testing.F) {
	for _, text := range hostile() {
		f.Add(text)
	}
	f.Fuzz(checkText)
}

// checkText makes reports of a run with that text in every possible place, and checks
// that they have the parts of any other run.
func checkText(t *testing.T, text string) {
	r, tame := small(), small()
	for _, r := range []*rollout.Record{r, tame} {
		text := text
		if r == tame {
			text = "tame"
		}
		r.Name, r.Reason, r.Chosen, r.Logs, r.By.Host = text, text, text, text, text
		for _, m := range r.Members {
			m.Reason, m.Hint, m.Step, m.Machine, m.Log = text, text, text, text, text
			m.Labels, m.Changes = map[string]string{text: text}, []string{text}
		}
		r.Members[2].Name = text
	}
	v := made(r, func(in *Input) { in.LogEnd = func(string) string { return text } })

	var back Report
	data := bytesOf(t, v.JSON)
	if printable.Escaped(data) != data {
		t.Errorf("JSON: a character is hidden in %q", data)
	}
	if err := json.Unmarshal([]byte(data), &back); err != nil || back.Members[2].Reason != string([]rune(text)) {
		t.Errorf("JSON: %v, %.100q", err, back.Members[2].Reason)
	}

	got := parseJUnit(t, bytesOf(t, v.JUnit)).Suites[0].Cases
	if len(got) != 5 || got[2].Failure == nil || !strings.Contains(got[2].Failure.Text, plain(text)) {
		t.Fatalf("JUnit: %d cases, %.200q", len(got), got[2].Failure)
	}
	if m := got[2].Failure.Message; len(m) > 4*maxMessage || strings.Contains(m, "\n") {
		t.Errorf("JUnit: a message of %d letters", len(m))
	}

	page := bytesOf(t, v.HTML)
	for _, bad := range []string{"<script", "<img", "<failure", "<!-- ", "\x00", "\x1b", "\u009b", "\u202e", "\u2066"} {
		if strings.Contains(page, bad) {
			t.Errorf("HTML: the page has %q", bad)
		}
	}
	if text == strings.Repeat("x", 10000) && !strings.Contains(page, text) {
		t.Error("HTML: the reason is not complete")
	}
	if quotes := strings.Count(page, `"`); strings.TrimSpace(plain(text)) != "" {
		other := bytesOf(t, made(tame, func(in *Input) { in.LogEnd = func(string) string { return "tame" } }).HTML)
		if want := strings.Count(other, `"`); quotes > want+8 || quotes < want-8 { // parts that depend on the length of the text
			t.Errorf("HTML: the page has %d quotes, and that of other texts %d", quotes, want)
		}
	}
}

// The page needs no other file, and has a lane for each member that was started.
func TestPage(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3, 60, 61, 200, 1000} {
		v := made(large(n))
		page := bytesOf(t, v.HTML)
		for _, bad := range []string{"src=", "href=", "url(", "@import", "http:", "https:", "ZgotmplZ", "NaN", "Inf"} {
			if strings.Contains(page, bad) {
				t.Errorf("%d members: the page has %q", n, bad)
			}
		}
		if d := xml.NewDecoder(strings.NewReader(page[strings.Index(page, "<svg role") : strings.Index(page, "</svg>")+6])); true {
			for {
				if _, err := d.Token(); err != nil {
					if err.Error() != "EOF" {
						t.Errorf("%d members: the picture is not well-formed: %v", n, err)
					}
					break
				}
			}
		}
		started := 0
		for _, m := range v.Members {
			if m.Started != nil {
				started++
			}
		}
		tl := v.timeline()
		if got := strings.Count(page, `<rect class="lane `) - len(tl.Legend) - strings.Count(page, "the service is down</li>"); got != started {
			t.Errorf("%d members: %d bars of %d", n, got, started)
		}
		if tl.Height > 2000 {
			t.Errorf("%d members: the picture is %s high", n, tl.Height)
		}
		names, used := -100.0, map[coord]bool{}
		for _, l := range tl.Lanes {
			if l.X < 0 || l.X+l.Width > tl.Right+2 {
				t.Errorf("%d members: a bar from %s to %s is outside of the picture", n, l.X, l.X+l.Width)
			}
			if l.Name != "" && float64(l.Middle) < names+10 {
				t.Errorf("%d members: the name %s is upon another", n, l.Name)
			}
			if l.Name != "" {
				names = float64(l.Middle)
			}
			if used[l.Y] && !tl.Dense {
				t.Errorf("%d members: two lanes at %s", n, l.Y)
			}
			used[l.Y] = true
		}
		if k := len(tl.Ticks); k < 2 || k > 11 {
			t.Errorf("%d members: %d ticks", n, k)
		}
	}
}

// A run without members, and one in which none was started, have pages without a
// timeline.
func TestPageWithoutTimeline(t *testing.T) {
	t.Parallel()
	for _, r := range []*rollout.Record{
		record(rollout.Done, 0), record(rollout.Done, 3, &rollout.Member{Name: "a", Verdict: schedule.Unchanged}),
		record(rollout.Failed, 0, &rollout.Member{Name: "a", Verdict: schedule.Failed, Reason: "no"}),
	} {
		if page := bytesOf(t, made(r).HTML); strings.Contains(page, "<h2 id=\"timeline\"") || !strings.Contains(page, "</html>") {
			t.Errorf("%s", page)
		}
	}
}

// Clean is called for everything that a report shows from a record.
func TestClean(t *testing.T) {
	t.Parallel()
	const secret = "S3CRET"
	r := small()
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"anna", "ci-1", "freeze until Monday", "connection refused", "correct the cause", "canary\"", "update in place"} {
		if !bytes.Contains(data, []byte(text)) {
			t.Fatalf("the record has no %q", text)
		}
		data = bytes.ReplaceAll(data, []byte(text), []byte(secret+text))
	}
	if err := json.Unmarshal(data, r); err != nil {
		t.Fatal(err)
	}
	r.Reason, r.Chosen, r.Members[0].Machine, r.Members[0].Step = secret, secret, secret, secret
	v := made(r, func(in *Input) {
		in.Clean = func(text string) string { return strings.ReplaceAll(text, secret, "") }
		in.LogEnd = func(string) string { return secret }
	})
	for name, make := range map[string]func() ([]byte, error){"JSON": v.JSON, "JUnit": v.JUnit, "HTML": v.HTML} {
		if strings.Contains(bytesOf(t, make), secret) {
			t.Errorf("%s shows a secret", name)
		}
	}
}

func TestSpan(t *testing.T) {
	t.Parallel()
	for seconds, want := range map[float64]string{0: "0s", 0.04: "0s", 0.4: "0.4s", 9.94: "9.9s", 9.96: "10s", 59.4: "59s", 59.6: "1m 00s", 70: "1m 10s", 3599.6: "1h 00m", 7500: "2h 05m", 100 * 3600: "4d 4h"} {
		if got := span(seconds); got != want {
			t.Errorf("%v: %s, want %s", seconds, got, want)
		}
	}
}

func BenchmarkReport(b *testing.B) {
	r := large(10000)
	for name, make := range map[string]func(*Report) ([]byte, error){"JSON": (*Report).JSON, "JUnit": (*Report).JUnit, "HTML": (*Report).HTML} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				data, err := make(made(r))
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(data)), "bytes")
			}
		})
	}
}

// A run that was continued on the next day has a short gap in its chart.
func TestGaps(t *testing.T) {
	t.Parallel()
	const day = 24 * 3600
	r := record(rollout.Done, day+100, member("a", schedule.Done, 5, 60), member("b", schedule.Done, 60, 120), member("c", schedule.Done, day, day+90))
	tl := made(r).timeline()
	if len(tl.Gaps) != 1 || tl.Gaps[0].Label != "23h 58m" || tl.Gaps[0].Width != gapWidth {
		t.Fatalf("%+v", tl.Gaps)
	}
	g := tl.Gaps[0]
	for i, l := range tl.Lanes {
		if l.Width < 100 || l.X < g.X+g.Width && l.X+l.Width > g.X {
			t.Errorf("the bar of member %d is from %s to %s, the gap from %s to %s", i, l.X, l.X+l.Width, g.X, g.X+g.Width)
		}
	}
	last := tick{X: -100}
	for _, k := range tl.Ticks {
		if k.X < last.X+40 || math.Abs(float64(k.X-g.Middle)) < 50 {
			t.Errorf("%+v is too near to %+v or to the gap", k, last)
		}
		last = k
	}
	if first := tl.Ticks[len(tl.Ticks)-1]; len(tl.Ticks) < 4 || !strings.HasPrefix(first.Elapsed, "+1d") {
		t.Errorf("%+v", tl.Ticks)
	}
	if page := bytesOf(t, made(r).HTML); strings.Count(page, `class="gap"`) != 2 || !strings.Contains(page, "Nov 23 10:00") {
		t.Error("the page does not show the gap")
	}
	// Short pauses, as between waves, are to scale.
	if tl := made(large(200)).timeline(); len(tl.Gaps) != 0 {
		t.Errorf("%+v", tl.Gaps)
	}
	// No member was running.
	one := record(rollout.Done, day, member("a", schedule.Failed, 0, 0))
	if page := bytesOf(t, made(one).HTML); strings.Contains(page, "NaN") {
		t.Error("the page has NaN")
	}
}
