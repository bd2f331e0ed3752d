package ui

import (
	"fmt"
	"strings"

	"bootstrap/deployer/timeline"
)

// mostLongest is how many of the longest calls are listed.
const mostLongest = 3

// Timings prints when the parts of a run began, how long they took, and how much of
// that were calls of the CPI and the agent.
func Timings(out *Writer, t *timeline.Timeline) {
	fmt.Fprintln(out)
	out.paint(bold, "Timings")
	fmt.Fprintf(out, " of %s\n", t.About())
	table := NewTable(out, "AT", "TOOK", "CPI", "AGENT", "SERVICE", "PART OF THE RUN").
		Yield("CPI", 0).Yield("AGENT", 0).Yield("PART OF THE RUN", 24)
	for i, s := range t.Spans {
		cpi, agent, service := "", "", ""
		if s.IsTop() {
			cpi, agent = took(t.Within(i, timeline.CPI)), took(t.Within(i, timeline.Agent))
		}
		if s.Down {
			service = "down"
		}
		table.Row(timeline.Took(s.At), timeline.Took(s.Seconds), cpi, agent, service, strings.Repeat("  ", t.Depth(i))+s.Text())
	}
	if len(t.Spans) > 0 {
		table.Print()
	}
	for _, line := range timingsAtEnd(t) {
		fmt.Fprintln(out, out.broken(line, 0))
	}
}

// took returns a duration in words, and an empty text for 0.
func took(s float64) string {
	if s == 0 {
		return ""
	}
	return timeline.Took(s)
}

// timingsAtEnd returns what a person asks first: the total time, how long the service was
// down, and the longest calls.
func timingsAtEnd(t *timeline.Timeline) []string {
	lines := []string{"Total: " + timeline.Took(t.Seconds)}
	if len(t.Down) > 0 {
		lines = append(lines, "The service was down for "+t.DownTimes())
	}
	var calls []string
	for _, i := range t.Longest(mostLongest) {
		text := t.Spans[i].Text()
		if top := t.Top(i); top != i {
			text += " of " + t.Spans[top].Name
		}
		calls = append(calls, text+" ("+timeline.Took(t.Spans[i].Seconds)+")")
	}
	if len(calls) > 0 {
		lines = append(lines, "Longest calls: "+strings.Join(calls, "; "))
	}
	if t.Omitted > 0 {
		lines = append(lines, fmt.Sprintf("%d more calls are not listed.", t.Omitted))
	}
	return lines
}
