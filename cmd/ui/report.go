package ui

import (
	"fmt"

	"bootstrap/deployer/observe"
	"bootstrap/deployer/timeline"
)

// Report prints the records of a deployment, the plan of a deploy, and the timings of the
// last deploy.
func Report(out *Writer, r *observe.Report) {
	facts := NewTable(out)
	for _, f := range r.Facts() {
		facts.Row(f[0], f[1])
	}
	facts.Print()
	fmt.Fprintln(out)
	if r.Plan != nil {
		writePlan(out, *r.Plan, func(string) bool { return false })
		WriteSteps(out, r.Steps, r.Plan.Rows)
	} else {
		Say(out, "What a deploy would do is not known: "+r.PlanNote)
		writeDiff(out, r.Diff)
	}
	if text := r.NoTimeline(); text != "" {
		fmt.Fprintln(out, "\n"+out.broken(text, 0))
	}
	last := r.LastDeployed()
	if last >= 0 {
		Timings(out, r.Runs[last])
	}
	others := NewTable(out, "BEGUN", "TOOK", "DOWN", "STATUS", "OTHER RUNS ON THIS MACHINE").Yield("STATUS", 0).Yield("OTHER RUNS ON THIS MACHINE", 24)
	for i := range r.Runs {
		if t := r.Runs[i]; i != last {
			others.Row(Moment(t.Began), timeline.Took(t.Seconds), took(t.DownSeconds()), string(t.Status), t.Command)
		}
	}
	if len(r.Runs) > 1 || len(r.Runs) == 1 && last < 0 {
		fmt.Fprintln(out)
		others.Print()
	}
}
