package ui

import (
	"bytes"
	"strings"
	"testing"

	"bootstrap/deployer/plan"

	"gotest.tools/v3/golden"
)

// Texts of a plan are not read as Markdown, and secrets are removed even if they contain
// characters with a meaning in Markdown.
func TestMarkdown(t *testing.T) {
	var out bytes.Buffer
	r := &Redactor{}
	r.Add("se|cr`et", "other*secret")
	w := r.Writer(&out)
	Markdown(w, "web_site", plan.View{
		Changes: []plan.Line{
			{What: plan.VM, Name: "vm-1", Action: plan.Replace, Why: []string{"cloud_properties.a|b changed", "env.<x> changed"}},
			{What: plan.Disk, Name: "disk-1", Action: plan.Keep},
			{What: plan.Jobs, Name: "web", Action: plan.Update, Why: []string{"properties.`pw` is se|cr`et"}},
			{What: plan.State, Action: plan.Note, Why: []string{"two\nlines"}},
		},
		Diff:     []string{"~ a: 1 -> se|cr`et", "+ b: ```", "- c: 2"},
		Rows:     rowsOf("stop jobs", "start jobs"),
		Downtime: 2.06,
		OfRuns:   3,
		Warnings: []string{"the certificate *expires*", "[a](http://user:pw@host)"},
		Templates: []plan.File{
			{Job: "web", Path: "bin/ctl", Change: plan.FileChanged, Mode: "0644 -> 0755", Diff: "@@ -1,2 +1,2 @@\n ```\n-x other*secret\n+y"},
			{Job: "web", Path: "config/new", Change: plan.FileNew},
		},
		TemplatesNote: "the agent does not answer",
	})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	golden.Assert(t, out.String(), "plan.md")
	for _, secret := range []string{"cr`et", "*secret", ":pw@"} {
		if strings.Contains(strings.ReplaceAll(out.String(), `\`, ""), secret) {
			t.Errorf("%q is shown", secret)
		}
	}
}

func TestMarkdownOfNothing(t *testing.T) {
	var out bytes.Buffer
	Markdown((&Redactor{}).Writer(&out), "web", plan.View{Changes: []plan.Line{{What: plan.VM, Action: plan.Keep}}, Templates: []plan.File{}})
	if want := "## Plan for web\n\nThere is nothing to do.\n\n### Templates\n\nNo rendered file differs.\n"; out.String() != want {
		t.Errorf("got %q", out.String())
	}
}
