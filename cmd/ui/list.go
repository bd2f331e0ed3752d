package ui

import (
	"fmt"

	"bootstrap/deployer/observe"
)

// Deployments prints the recorded deployments of this machine, and their problems.
func Deployments(out *Writer, list []observe.Listed) {
	if len(list) == 0 {
		Say(out, "This machine knows no deployment. To make one: bootstrap init")
		return
	}
	table := NewTable(out, "DEPLOYMENT", "STATE", "VM", "ADDRESS", "LAST DEPLOY", "MANIFEST").
		Yield("LAST DEPLOY", 12).Yield("MANIFEST", 24).Yield("LAST DEPLOY", 0).Yield("MANIFEST", 12).Yield("ADDRESS", 0)
	for _, l := range list {
		last := ""
		if l.LastDeploy != nil {
			last = Moment(*l.LastDeploy)
		}
		vm := l.VM
		if l.Instances > 0 {
			vm = count(l.Instances, "instance")
		}
		table.Row(dash(out.Brief(l.Deployment)), string(l.Status), dash(out.Brief(vm)), dash(out.Brief(l.Address)), dash(last), dash(out.Brief(l.Manifest)))
	}
	table.Print()
	for _, l := range list {
		if l.Note == "" {
			continue
		}
		text := "Note: " + l.Note
		if l.Status == observe.ListedGone && l.VM != "" && l.Manifest != "" {
			text += fmt.Sprintf("; its VM %s may still run. To find out, and to see the commands that restore the record: bootstrap plan %s", l.VM, l.Manifest)
		}
		Say(out, text)
	}
}

// dash returns a text for a cell that is not empty.
func dash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
