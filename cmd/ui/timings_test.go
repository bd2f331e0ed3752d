package ui

import (
	"bytes"
	"testing"
	"time"

	"gotest.tools/v3/golden"

	"bootstrap/deployer/timeline"
)

func TestTimings(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	w := (&Redactor{}).Writer(&out)
	Timings(w, &timeline.Timeline{
		Command: "deploy web.yml --on-failure=…", User: "anna", Host: "ci", Began: time.Date(2026, 11, 23, 7, 30, 12, 0, time.UTC),
		Seconds: 75.25, Status: timeline.Failed, Down: []timeline.Interval{{From: 3.2, To: 9.2}, {From: 70, To: 75.25}}, StillDown: true, Omitted: 3,
		Spans: []timeline.Span{
			{Kind: timeline.Phase, Name: "fetch artifacts", At: 0.004, Seconds: 3.196, Status: timeline.Finished},
			{Kind: timeline.Stage, Name: "Downloading release\n\x1b[31m'pg'", In: 1, At: 0.004, Seconds: 3.1, Status: timeline.Finished},
			{Kind: timeline.Step, Name: "create vm", At: 3.2, Seconds: 6, Status: timeline.Finished, Down: true},
			{Kind: timeline.CPI, Name: "create_vm", In: 3, At: 3.2, Seconds: 5.9, Status: timeline.Finished},
			{Kind: timeline.Step, Name: "start jobs", At: 70, Seconds: 5.25, Status: timeline.Failed, Down: true},
			{Kind: timeline.Agent, Name: "get_state", In: 5, At: 70, Seconds: 5.25, Status: timeline.Finished, Calls: 52},
		},
	})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, out.String(), "timings.txt")
}
