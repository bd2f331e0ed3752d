package page

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"bootstrap/deployer/observe"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/timeline"
)

// textOf returns the text of a page. It fails if an element is not closed.
func textOf(t *testing.T, page []byte) string {
	t.Helper()
	var open []string
	var text strings.Builder
	for z := html.NewTokenizer(strings.NewReader(string(page))); ; {
		switch z.Next() {
		case html.ErrorToken:
			if len(open) > 0 {
				t.Errorf("not closed: %q", open)
			}
			return text.String()
		case html.TextToken:
			text.Write(z.Text())
		case html.StartTagToken:
			if name, _ := z.TagName(); string(name) != "meta" {
				open = append(open, string(name))
			}
		case html.EndTagToken:
			name, _ := z.TagName()
			if len(open) == 0 || open[len(open)-1] != string(name) {
				t.Fatalf("%q are open, and %s is closed", open, name)
			}
			open = open[:len(open)-1]
		}
	}
}

func same(text string) string { return text }

// pageOf returns the page of a report.
func pageOf(t *testing.T, r *observe.Report, clean func(string) string) []byte {
	t.Helper()
	page, err := HTML(r, clean)
	if err != nil {
		t.Fatal(err)
	}
	return page
}

// The page can be made even if some data are missing.
func TestHTML(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 23, 7, 0, 0, 0, time.UTC)
	deployed := began.Add(time.Hour)
	for name, c := range map[string]struct {
		r    observe.Report
		want []string
	}{
		"nothing": {observe.Report{PlanNote: "the agent does not answer"}, []string{"plan not known", "This is not known: the agent does not answer"}},
		"new": {observe.Report{Deployment: "web", Plan: &plan.View{Changes: []plan.Line{{What: plan.VM, Action: plan.Create}}, Warnings: []string{"a < b"}}, Steps: []plan.Step{{Kind: plan.CreateVM, Maybe: []string{"cpi set_vm_metadata"}}}},
			[]string{"web changes pending", "Warning: a < b", "perhaps cpi set_vm_metadata"}},
		"templates": {observe.Report{Plan: &plan.View{TemplatesNote: "some", Templates: []plan.File{{Job: "page", Path: "bin/ctl", Change: plan.FileChanged, Diff: "@@ -1 +1 @@\n-a\n+<b>\n"}}}},
			[]string{"nothing to do", "page/bin/ctl", "-a\n+<b>"}},
		"another machine": {observe.Report{LastDeploy: &deployed, VM: &observe.SeenVM{CID: "vm-1"}, Runs: []*timeline.Timeline{{Command: "deploy", Began: began, Seconds: 7, Status: timeline.Finished}}},
			[]string{"This machine has no timeline of the last deploy"}},
		// A file that somebody has changed.
		"odd": {observe.Report{Runs: []*timeline.Timeline{{Command: "deploy", Seconds: -1, Down: []timeline.Interval{{From: -7, To: 1e300}}, Spans: []timeline.Span{{Kind: `"><b`, In: 9, At: -1, Seconds: 1e9}}, Omitted: 3}}},
			[]string{"3 more calls are not listed."}},
	} {
		got := textOf(t, pageOf(t, &c.r, same))
		for _, want := range c.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: the page lacks %q:\n%s", name, want, got)
			}
		}
	}
}

// The page of several instances has a part for each, with ids of its own.
func TestWriteAll(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.html")
	list := []Instance{{"db/0", &observe.Report{Plan: &plan.View{}}}, {"web/0", &observe.Report{Plan: &plan.View{Changes: []plan.Line{{What: plan.VM, Action: plan.Create}}}}}}
	if err := WriteAll(path, "cluster", list, same); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text := textOf(t, data); !strings.Contains(text, "cluster changes pending") || !strings.Contains(text, "db/0 nothing to do") {
		t.Error(text)
	}
	seen := map[string]bool{}
	for _, id := range regexp.MustCompile(` id="[^"]*"`).FindAllString(string(data), -1) {
		if seen[id] {
			t.Error("twice:" + id)
		}
		seen[id] = true
	}
	for _, id := range []string{"db-0-", "web-0-", "web-0-plan"} {
		if !seen[` id="`+id+`"`] {
			t.Error("missing: " + id)
		}
	}
}

// fill puts a text into every string of a value, and an item into every list.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Struct:
		for _, f := range reflect.VisibleFields(v.Type()) {
			if f.IsExported() && len(f.Index) == 1 && f.Type != reflect.TypeFor[time.Time]() {
				fill(v.FieldByIndex(f.Index), text)
			}
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Float64:
		v.Set(reflect.ValueOf(1).Convert(v.Type()))
	}
}

// Secrets are replaced wherever a report may contain one; words of the page are not.
func TestSecrets(t *testing.T) {
	t.Parallel()
	clean := func(text string) string {
		return strings.NewReplacer("hunter2", "<redacted>", "step", "<redacted>").Replace(text)
	}
	var full observe.Report
	fill(reflect.ValueOf(&full).Elem(), "hunter2")
	of := func(command string) *timeline.Timeline {
		run := *full.Runs[0]
		run.Command = command
		run.Spans = []timeline.Span{{Kind: timeline.Step, Name: "hunter2"}, {Kind: timeline.CPI, Name: "hunter2", In: 1, Seconds: 1}} // The page contains the names of kinds.
		return &run
	}
	full.Runs = []*timeline.Timeline{of("deploy hunter2"), of("stop hunter2")}
	full.Plan.Changes[0].Action, full.Plan.Templates[0].Change = plan.Create, plan.FileNew
	unknown := full
	unknown.Plan = nil
	unknown.Runs = full.Runs[1:]
	for name, r := range map[string]*observe.Report{"full": &full, "without a plan": &unknown} {
		page := string(pageOf(t, r, clean))
		if strings.Contains(page, "hunter2") || !strings.Contains(page, `<tr role="row" class="step`) {
			t.Errorf("%s: %s", name, page)
		}
	}
}

// A page replaces a page, and no other file.
func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, c := range map[string]struct {
		content string
		refused bool
	}{"new": {"", false}, "manifest.yml": {"name: web\n", true}, "other.html": {"<!DOCTYPE html>\n<html>", true}, "page.html": {string(pageOf(t, &observe.Report{}, same)), false}} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.content), 0o600); err != nil {
			t.Fatal(err)
		}
		err := Write(path, &observe.Report{Deployment: "web"}, same)
		data, _ := os.ReadFile(path)
		if (err != nil) != c.refused || c.refused != (string(data) == c.content) {
			t.Errorf("%s: %v, %.40s", name, err, data)
		}
	}
}
