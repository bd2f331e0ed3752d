//go:build unix

package deployer

import (
	"testing"

	"bootstrap/deployer/report"
)

// A resolution is not applied to another VM than that of the problem, and not to one whose
// agent answers by now: a run or the VM may have changed while the person chose.
func TestHasProblem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		cid     string
		answers bool
		want    bool
	}{
		"silent":      {cid: "vm-1", want: true},
		"answers":     {cid: "vm-1", answers: true},
		"another VM":  {cid: "vm-0"},
		"no VM then":  {cid: ""},
		"another one": {cid: "vm-0", answers: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, nil)
			r.look.Facts.Answers = c.answers
			if got := r.has(report.Problem{Type: report.UnresponsiveAgent, Instance: "web/0", CID: c.cid}); got != c.want {
				t.Errorf("has the problem: %v", got)
			}
		})
	}
}

// Jobs that are starting are no problem, but a process that fails beside one that starts is.
func TestJobsProblem(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		processes []string
		want      bool
	}{
		"starting":          {processes: []string{"web starting", "db running"}},
		"failing":           {processes: []string{"web failing", "db running"}, want: true},
		"failing, starting": {processes: []string{"web failing", "db starting"}, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := scriptedRun(t, nil)
			r.look.Facts.Now = processesIn(c.processes...)
			if got := r.jobsProblem(r.t.State.Get()) != nil; got != c.want {
				t.Errorf("a problem: %v", got)
			}
		})
	}
}
