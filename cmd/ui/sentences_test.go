package ui

import (
	"errors"
	"strings"
	"testing"

	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
)

// On a terminal no word of a sentence is broken, and a command stays on one line.
func TestSentencesAreBrokenBetweenWords(t *testing.T) {
	t.Parallel()
	const width = 40
	print := func(width int) string {
		var out strings.Builder
		var r Redactor
		w := r.Writer(&out)
		columns := func() int { return width }
		show := Plain(w)
		if width > 0 {
			show, _ = Terminal(w.Within(columns), columns)
		}
		show(report.Event{Kind: report.Info, Message: "Generated variables, kept in creds.yml: mbus_bootstrap_password, default_ca, mbus_bootstrap_ssl"})
		show(report.Event{Kind: report.Warning, Message: "the VM is made of namespaces, which this machine allows"})
		show(report.Event{Kind: report.Planned, Plan: &plan.View{
			Changes:  []plan.Line{{Action: plan.Create, What: plan.VM, Name: "page/0", Why: []string{"new; it is made of namespaces"}}},
			Rows:     rowsOf("stop jobs", "apply", "start jobs", "attach disk"),
			Warnings: []string{"the packages are compiled while the service is down"},
		}})
		Failed(w, 1, errors.New("the agent of the VM does not answer: connection refused\n  its log is /var/log/agent.log, and the last line of it is long"), `try "bootstrap deploy manifest.yml --fix --agent-timeout 5m": it reboots the VM`, "")
		if err := w.Flush(); err != nil {
			t.Fatal(err)
		}
		return out.String()
	}
	plain, narrow := print(0), print(width)
	if got, want := strings.Fields(narrow), strings.Fields(plain); strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("the words are %q, want %q", got, want)
	}
	const command = `"bootstrap deploy manifest.yml --fix --agent-timeout 5m":`
	if !strings.Contains(narrow, command) {
		t.Errorf("the command is broken:\n%s", narrow)
	}
	for line := range strings.Lines(narrow) {
		if len(line) > width && strings.TrimSpace(line) != command {
			t.Errorf("a line of %d columns: %s", len(line)-1, line)
		}
	}
}
