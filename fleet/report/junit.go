package report

import (
	"encoding/xml"
	"fmt"
	"strings"
	"time"

	"bootstrap/fleet/schedule"
)

// The types below are valid for the schema of Ant's JUnit task (JUnit.xsd), which is
// the strictest of the usual ones, and for the one of Jenkins (junit-10.xsd).

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name       string          `xml:"name,attr"`
	ID         int             `xml:"id,attr"`
	Package    string          `xml:"package,attr"`
	Hostname   string          `xml:"hostname,attr"`
	Timestamp  string          `xml:"timestamp,attr"` // without a time zone: UTC
	Time       string          `xml:"time,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Out        string          `xml:"system-out"`
	Err        string          `xml:"system-err"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitSkipped `xml:"skipped"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr"`
	Text    string `xml:",cdata"`
}

type junitSkipped struct {
	Message string `xml:"message,attr"`
}

// JUnit returns the report as JUnit XML: one suite with one case for each member. A
// failed member is a failure; a busy or interrupted one is an error; a blocked, waiting,
// running or unstarted one is skipped. If the run did not succeed, the suite has at least
// one failure or error: if no other member has one, unstarted members are errors.
func (v *Report) JUnit() ([]byte, error) {
	s := junitSuite{
		Name: oneLine("fleet "+v.Fleet, maxMessage), Package: "fleet", Hostname: oneLine(v.By.Host, maxMessage), Time: decimal(v.Seconds),
		Timestamp: stamp(v.Started), Tests: len(v.Members),
		Properties: []junitProperty{{"run", plain(v.Run)}, {"action", plain(v.Action)}, {"status", plain(string(v.Status))}, {"logs", plain(v.Logs)}},
	}
	if s.Hostname == "" {
		s.Hostname = "localhost"
	}
	if v.Result != "" {
		s.Properties = append(s.Properties, junitProperty{"result", string(v.Result)})
	}
	if v.Reason != "" {
		s.Properties = append(s.Properties, junitProperty{"reason", plain(v.Reason)})
	}
	class := "fleet." + oneLine(v.Fleet, maxMessage)
	unexplained := v.endedBadly()
	for _, m := range v.Members {
		unexplained = unexplained && !v.isProblem(m.Verdict)
	}
	for _, m := range v.Members {
		c := junitCase{Class: class, Name: oneLine(m.Name, maxMessage), Time: decimal(m.Seconds)}
		switch {
		case m.Verdict == schedule.Failed:
			c.Failure = v.problem(m)
			s.Failures++
		case v.isProblem(m.Verdict), unexplained && (m.Verdict == schedule.NotStarted || m.Verdict == schedule.Waiting):
			c.Error = v.problem(m)
			s.Errors++
		case m.Verdict != schedule.Done && m.Verdict != schedule.Unchanged:
			c.Skipped = &junitSkipped{Message: v.message(m)}
			s.Skipped++
		}
		s.Cases = append(s.Cases, c)
	}
	data, err := xml.MarshalIndent(junitSuites{Suites: []junitSuite{s}}, "", "  ")
	return append([]byte(xml.Header), append(data, '\n')...), err
}

// endedBadly reports whether the run ended, or was killed, before all was done.
func (v *Report) endedBadly() bool {
	return v.Status == Killed || v.Status == Ended && v.Result != "done"
}

// isProblem reports whether a member with that verdict has failed the run.
func (v *Report) isProblem(verdict schedule.Verdict) bool {
	return wrong(verdict) || v.Status == Killed && verdict == schedule.Running
}

func (v *Report) problem(m Member) *junitProblem {
	p := &junitProblem{Message: v.message(m), Type: class(m.Verdict)}
	var text strings.Builder
	line := func(format, value string) {
		if value != "" {
			fmt.Fprintf(&text, format+"\n", plain(value))
		}
	}
	line("%s", m.Reason)
	line("What to do: %s", m.Hint)
	if m.ExitCode != 0 {
		fmt.Fprintf(&text, "Exit code: %d\n", m.ExitCode)
	}
	line("Log: %s", m.Log)
	line("\n%s", strings.TrimRight(m.LogEnd, "\n"))
	p.Text = text.String()
	if m.Reason == "" {
		p.Text = p.Message + "\n" + p.Text
	}
	return p
}

// maxMessage is the length of a message in lists of CI systems, which show all of it.
const maxMessage = 400

// message returns the result of a member in one line.
func (v *Report) message(m Member) string {
	text := v.word(m.Verdict)
	if m.Reason != "" {
		text += ": " + m.Reason
	}
	return oneLine(text, maxMessage)
}

func decimal(seconds float64) string { return fmt.Sprintf("%.3f", seconds) }

// stamp returns a moment in UTC without a time zone, as JUnit's schema wants it.
func stamp(at time.Time) string {
	text, err := at.UTC().Truncate(time.Second).MarshalText()
	if err != nil { // a year of five digits
		return "1970-01-01T00:00:00"
	}
	return strings.TrimSuffix(string(text), "Z")
}
