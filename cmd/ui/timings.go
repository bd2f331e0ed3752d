package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/timeline"
)

// mostLongest is how many calls are named as the longest ones.
const mostLongest = 3

// Timings prints when the parts of a run began, how long they took, and how much of
// that were calls of the CPI and the agent.
func Timings(out *Writer, t *timeline.Timeline) {
	fmt.Fprintln(out)
	out.paint(bold, "Timings")
	fmt.Fprintf(out, " of %s\n", RunOf(t))
	table := NewTable(out, "AT", "TOOK", "CPI", "AGENT", "SERVICE", "PART OF THE RUN").
		Yield("CPI", 0).Yield("AGENT", 0).Yield("PART OF THE RUN", 24)
	for i, s := range t.Spans {
		cpi, agent, service := "", "", ""
		if s.IsTop() {
			cpi, agent = some(t.Within(i, timeline.CPI)), some(t.Within(i, timeline.Agent))
		}
		if s.Down {
			service = "down"
		}
		table.Row(moment(s.At), moment(s.Seconds), cpi, agent, service, strings.Repeat("  ", t.Depth(i))+spanText(s))
	}
	if len(t.Spans) > 0 {
		table.Print()
	}
	for _, line := range timingsAtEnd(t) {
		fmt.Fprintln(out, out.broken(line, 0))
	}
}

// RunOf returns which run a timeline is of.
func RunOf(t *timeline.Timeline) string {
	text := fmt.Sprintf("%s, begun %s", t.Command, Moment(t.Began))
	if t.User != "" {
		text += " by " + t.User + "@" + t.Host
	}
	if t.Status != timeline.Finished {
		text += ", " + string(t.Status)
	}
	return text
}

// moment is duration, but to the millisecond below a second: 24ms.
func moment(s float64) string {
	if s < 0.9995 {
		return fmt.Sprintf("%.0fms", s*1000)
	}
	return duration(s)
}

// some is moment, and empty for none.
func some(s float64) string {
	if s == 0 {
		return ""
	}
	return moment(s)
}

// spanText returns the name of a part of a run, with what is unusual about it.
func spanText(s timeline.Span) string {
	text := s.Name
	if s.IsCall() {
		text = string(s.Kind) + " " + s.Name
	}
	if s.Calls > 1 {
		text += fmt.Sprintf(", %d calls", s.Calls)
	}
	if s.Status != timeline.Finished {
		text += ", " + string(s.Status)
	}
	return text
}

// timingsAtEnd returns what a person asks first: how long in all, how long the service
// was down, and what took longest.
func timingsAtEnd(t *timeline.Timeline) []string {
	lines := []string{"Total: " + moment(t.Seconds)}
	if len(t.Down) > 0 {
		lines = append(lines, "The service was down for "+DownTimes(t))
	}
	var calls []string
	for _, i := range t.Longest(mostLongest) {
		text := spanText(t.Spans[i])
		if top := t.Top(i); top != i {
			text += " of " + t.Spans[top].Name
		}
		calls = append(calls, text+" ("+moment(t.Spans[i].Seconds)+")")
	}
	if len(calls) > 0 {
		lines = append(lines, "Longest calls: "+strings.Join(calls, "; "))
	}
	if t.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("%d more calls are not listed.", t.Omitted))
	}
	return lines
}

// DownTimes returns how long the service was down in a run, and when.
func DownTimes(t *timeline.Timeline) string {
	parts := make([]string, len(t.Down))
	for i, d := range t.Down {
		parts[i] = "from " + moment(d.From) + " to " + moment(d.To)
	}
	text := moment(t.DownSeconds()) + ": " + strings.Join(parts, ", ")
	if t.StillDown {
		text += ", when the run ended and it stayed down"
	}
	return text
}
