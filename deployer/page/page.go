// Package page makes an HTML page from the report of a deployment. All data of the page
// are in the report.
package page

import (
	"cmp"
	"embed"
	"errors"
	"fmt"
	"html/template"
	"io"
	"io/fs"
	"math"
	"os"
	"strings"

	"bootstrap/deployer/observe"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/internal/atomicfile"
	"bootstrap/internal/webpage"
)

// files has the page's template and its style.
//
//go:embed page.html page.css
var files embed.FS

// Write writes the page of a report to a file, as Save does. clean replaces secrets in a
// text.
func Write(path string, r *observe.Report, clean func(string) string) error {
	return Save(path, func() ([]byte, error) { return HTML(r, clean) })
}

// Instance is the report of one instance of several.
type Instance struct {
	Name   string // web/0
	Report *observe.Report
}

// WriteAll writes the page of the reports of several instances to a file, as Save does.
func WriteAll(path, deployment string, list []Instance, clean func(string) string) error {
	return Save(path, func() ([]byte, error) {
		all := view{Name: cmp.Or(deployment, "Deployment"), Class: "done", Word: "nothing to do"}
		for _, in := range list {
			v := newView(in.Report)
			v.Name, v.ID = in.Name, strings.ReplaceAll(in.Name, "/", "-")+"-"
			if v.Class == "unknown" || v.Class == "todo" && all.Class == "done" {
				all.Class, all.Word = v.Class, v.Word
			}
			all.All = append(all.All, v)
		}
		return render(all, clean)
	})
}

// Save writes a page to a file. It replaces an earlier page, and no other file: if a person
// forgets the file name after the flag, the next word, such as a manifest, would be
// overwritten.
func Save(path string, html func() ([]byte, error)) error {
	if !atomicfile.InPlace(path) && !isReplaceable(path) {
		return fmt.Errorf("cannot write the page: %s exists and is not a page of bootstrap: remove it, or name another file", path)
	}
	data, err := html()
	if err == nil {
		err = atomicfile.Write(path, data)
	}
	if err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			err = failed.Err // The path in the error is that of a temporary file.
		}
		return fmt.Errorf("cannot write the page %s: %w", path, err)
	}
	return nil
}

// isReplaceable reports whether there is no file at the path, an empty one, or a page.
func isReplaceable(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	defer f.Close()
	begin, err := io.ReadAll(io.LimitReader(f, 1<<10))
	return err == nil && (len(begin) == 0 || webpage.IsOurs(string(begin)))
}

// HTML returns the page of a report. clean replaces secrets in a text.
func HTML(r *observe.Report, clean func(string) string) ([]byte, error) {
	return render(newView(r), clean)
}

func render(v view, clean func(string) string) ([]byte, error) {
	return webpage.Render(files, template.FuncMap{
		"show":   func(text any) string { return clean(fmt.Sprint(text)) }, // every text that is not part of the template
		"took":   timeline.Took,
		"minute": report.Minute,
		"axis":   axis,
		"sign":   sign,
		"split":  func(text string) []string { return strings.Split(strings.TrimSuffix(text, "\n"), "\n") },
	}, v)
}

// view is the data of page.html.
type view struct {
	*observe.Report
	Name        string
	ID          string // prefix of the ids of its parts; empty: it is the only one
	All         []view // of several instances; then there is no report
	Class, Word string // the state of the deployment
	Steps       []step
	Last        *run // the last deploy; nil: this machine has no timeline of it
	Others      []run
}

func newView(r *observe.Report) view {
	v := view{Report: r, Name: cmp.Or(r.Deployment, "Deployment")}
	switch {
	case r.Plan == nil:
		v.Class, v.Word = "unknown", "plan not known"
	case r.Plan.Nothing():
		v.Class, v.Word = "done", "nothing to do"
	default:
		v.Class, v.Word = "todo", "changes pending"
	}
	for _, s := range r.Steps {
		if !s.Kind.Quiet() {
			v.Steps = append(v.Steps, step{s, len(v.Steps) + 1, lastTime(r.Runs, s.Kind)})
		}
	}
	last := r.LastDeployed()
	for i, t := range r.Runs {
		if i == last {
			v.Last = &run{t}
		} else {
			v.Others = append(v.Others, run{t})
		}
	}
	return v
}

// step is a step of the plan.
type step struct {
	plan.Step
	Number   int
	LastTime string // time of the newest successful step of this kind; empty: there is none
}

func lastTime(runs []*timeline.Timeline, kind plan.Kind) string {
	for _, t := range runs {
		for _, s := range t.Spans {
			if s.Kind == timeline.Step && s.Name == string(kind) && s.Status == timeline.Finished {
				return timeline.Took(s.Seconds)
			}
		}
	}
	return ""
}

// AllCalls lists the calls that the step makes, and those that it may make.
func (s step) AllCalls() string {
	calls := strings.Join(s.Calls, ", ")
	if len(s.Maybe) > 0 {
		calls = strings.TrimPrefix(calls+"; perhaps "+strings.Join(s.Maybe, ", "), "; ")
	}
	return calls
}

// sign returns the class of a line of a difference.
func sign(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return "add"
	case strings.HasPrefix(line, "-"):
		return "removed"
	}
	return ""
}

// run is the timeline of a run.
type run struct{ *timeline.Timeline }

// Longest returns the part of the run that took longest; nil: the run has no parts.
func (r run) Longest() *timeline.Span {
	if list := r.Timeline.Longest(1); len(list) > 0 {
		return &r.Spans[list[0]]
	}
	return nil
}

// IsBad reports whether a part did not end well.
func (r run) IsBad(s timeline.Span) bool {
	return s.Status == timeline.Failed || s.Status == timeline.Interrupted
}

// share returns a time as a fraction of the run, from 0 to 1 even in a damaged file.
func (r run) share(seconds float64) float64 {
	return min(max(seconds/max(r.Seconds, 0.001), 0), 1)
}

// Share returns the position of a time in the chart.
func (r run) Share(seconds float64) string { return percent(r.share(seconds)) }

// Width returns the width of a part's bar. The bar ends within the chart.
func (r run) Width(s timeline.Span) string {
	return percent(min(max(s.Seconds/max(r.Seconds, 0.001), 0), 1-r.share(s.At)))
}

// Shade returns a background that shows when the service was down.
func (r run) Shade() template.CSS {
	stops := []string{"transparent 0"}
	for _, d := range r.Down {
		from, to := r.Share(d.From), r.Share(d.To)
		stops = append(stops, "transparent "+from, "var(--shade) "+from, "var(--shade) "+to, "transparent "+to)
	}
	return template.CSS("linear-gradient(to right, " + strings.Join(append(stops, "transparent 100%"), ", ") + ")") // #nosec G203 -- made of numbers
}

// Marks returns the seconds at the marks of the axis.
func (r run) Marks() (marks []float64) {
	step := r.Tick()
	for n := 0.0; n*step <= max(r.Seconds, 0.001)*0.94; n++ {
		marks = append(marks, n*step)
	}
	return marks
}

// Tick returns the seconds between two marks of the axis: a round number, for at most
// seven marks.
func (r run) Tick() float64 {
	total := max(r.Seconds, 0.001)
	const most = 6
	for _, step := range []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1200, 1800, 3600} {
		if total/step <= most {
			return step
		}
	}
	step := 7200.0
	for total/step > most {
		step *= 2
	}
	return step
}

// percent formats a fraction for CSS.
func percent(share float64) string { return fmt.Sprintf("%.2f%%", share*100) }

// axis returns the text of a mark of the axis.
func axis(seconds float64) string {
	whole := int(seconds + 0.5)
	switch {
	case seconds == 0:
		return "0"
	case seconds < 1:
		return fmt.Sprintf("%.0fms", seconds*1000)
	case whole < 60 && math.Abs(seconds-float64(whole)) > 0.01:
		return fmt.Sprintf("%.1fs", seconds)
	case whole < 60:
		return fmt.Sprintf("%ds", whole)
	case whole%60 == 0 && whole < 7200:
		return fmt.Sprintf("%dm", whole/60)
	}
	return timeline.Took(seconds)
}
