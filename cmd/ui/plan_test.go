package ui

import (
	"bytes"
	"testing"

	"bootstrap/deployer/plan"
)

// rowsOf returns rows of the downtime, with the steps of the groups that stop and start jobs.
func rowsOf(steps ...plan.Kind) []plan.Row {
	var rows []plan.Row
	for _, s := range steps {
		switch s {
		case plan.StopJobs:
			rows = append(rows, plan.Row{Step: plan.Drain, Of: s, Down: true}, plan.Row{Step: plan.StopProcesses, Of: s, Down: true})
		case plan.StartJobs:
			rows = append(rows, plan.Row{Step: plan.StartProcesses, Of: s, Down: true}, plan.Row{Step: plan.AwaitRunning, Of: s, Down: true})
		default:
			rows = append(rows, plan.Row{Step: s, Down: true})
		}
	}
	return rows
}

// Steps of a group are on one line, each with its expected time.
func TestSteps(t *testing.T) {
	t.Parallel()
	steps := []plan.Step{
		{Kind: plan.RenderJobs}, {Kind: plan.ClearRecord},
		{Kind: plan.Drain, Of: plan.StopJobs, Name: "vm-1", Down: true}, {Kind: plan.StopProcesses, Of: plan.StopJobs, Name: "vm-1", Down: true},
		{Kind: plan.Apply, Down: true},
		{Kind: plan.StartProcesses, Of: plan.StartJobs, Down: true}, {Kind: plan.AwaitRunning, Of: plan.StartJobs, Down: true},
		{Kind: plan.Record},
	}
	var rows []plan.Row
	for i := range steps {
		rows = append(rows, plan.Row{Seconds: []float64{0, 0, 2.5, 0.01, 0.1, 0.02, 1.2, 0}[i]})
	}
	for want, rows := range map[string][]plan.Row{
		`
Steps
   1  render jobs
   2  stop jobs vm-1: drain, stop (the service is down)
   3  apply (the service is down)
   4  start jobs: start, wait (the service is down)
   5  record deployment
`: nil,
		`
Steps
   1  render jobs
   2  stop jobs vm-1: drain 2.5s, stop (the service is down for 2.5s)
   3  apply (the service is down for 0.1s)
   4  start jobs: start, wait 1.2s (the service is down for 1.2s)
   5  record deployment
`: rows,
	} {
		var b bytes.Buffer
		w := (&Redactor{}).Writer(&b)
		WriteSteps(w, steps, rows)
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}
