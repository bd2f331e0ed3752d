// Package page turns the report of a deployment into one HTML page. The time and all that
// was looked up are in the report.
package page

import (
	_ "embed" // the style
	"errors"
	"fmt"
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

//go:embed page.css
var style string

// writer writes the parts of the page.
type writer struct {
	webpage.Page
	r *observe.Report
}

// Write writes the page of a report to a file. It replaces an earlier page, and nothing
// else: a person may have left out the name of the file, so that the next word, such as
// a manifest, is taken for it. clean replaces secrets in a text.
func Write(path string, r *observe.Report, clean func(string) string) error {
	if !atomicfile.InPlace(path) && !isReplaceable(path) {
		return fmt.Errorf("cannot write the page: %s exists and is no page of bootstrap: remove it, or name another file", path)
	}
	if err := atomicfile.Write(path, HTML(r, clean)); err != nil {
		if failed, ok := errors.AsType[*fs.PathError](err); ok {
			err = failed.Err // its path is that of a temporary file
		}
		return fmt.Errorf("cannot write the page %s: %w", path, err)
	}
	return nil
}

// isReplaceable reports whether there is no file, an empty one, or a page.
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
func HTML(r *observe.Report, clean func(string) string) []byte {
	w := &writer{r: r}
	w.Show = func(text string) string { return webpage.Plain(clean(text)) }
	w.header()
	w.plan()
	w.timelines()
	w.facts()
	w.Put(`
<footer>State: <code>%s</code>. Made %s by bootstrap.</footer>`, r.StateFile, report.Minute(r.Made))
	return w.End()
}

func (w *writer) header() {
	name, class, word := w.r.Deployment, webpage.Own("unknown"), "plan not known"
	if name == "" {
		name = "Deployment"
	}
	switch p := w.r.Plan; {
	case p == nil:
	case p.Nothing():
		class, word = "done", "nothing to do"
	default:
		class, word = "todo", "changes pending"
	}
	w.Begin(name+": "+word, style)
	w.Put(`<header>
<h1>%s <span class="state %s">%s</span></h1>
<ul class="figures" aria-label="Figures">`, name, class, word)
	figure := func(value, name string) {
		w.Put(`
<li><b>%s</b><small>%s</small></li>`, value, name)
	}
	if p := w.r.Plan; p != nil && p.OfRuns > 0 && len(p.Down) > 0 {
		figure(timeline.Took(p.Downtime), "expected downtime of the next deploy")
	}
	if last := w.r.LastDeployed(); last >= 0 {
		t := w.r.Runs[last]
		figure(timeline.Took(t.Seconds), "the last deploy on this machine took")
		figure(timeline.Took(t.DownSeconds()), "the service was down in it")
		if list := t.Longest(1); len(list) > 0 {
			figure(timeline.Took(t.Spans[list[0]].Seconds), "its longest wait: "+t.Spans[list[0]].Text())
		}
	}
	w.Put(`
</ul>
</header>`)
}

func (w *writer) plan() {
	w.Put(`
<section aria-labelledby="plan">
<h2 id="plan">What a deploy would do</h2>`)
	p := w.r.Plan
	if p == nil {
		w.Put(`
<p class="warning">This is not known: %s</p>`, w.r.PlanNote)
		w.diff(w.r.Diff)
		w.Put(`
</section>`)
		return
	}
	for _, text := range p.Warnings {
		w.Put(`
<p class="warning"><b>Warning:</b> %s</p>`, text)
	}
	w.Put(`
<table>
<thead><tr><th scope="col">Action</th><th scope="col">What</th><th scope="col">Why</th></tr></thead>
<tbody>`)
	for _, c := range p.Changes {
		w.Put(`
<tr><td class="action %s">%s</td><td>%s</td><td>%s</td></tr>`, webpage.Own(c.Action), webpage.Own(c.Action), strings.TrimSpace(c.What+" "+c.Name), strings.Join(c.Why, "; "))
	}
	w.Put(`
</tbody>
</table>`)
	w.diff(w.r.Diff)
	w.templates(p)
	w.steps(p)
	w.Put(`
</section>`)
}

// diff writes how the manifest differs.
func (w *writer) diff(lines []string) {
	if len(lines) == 0 {
		return
	}
	w.Put(`
<h3>How the manifest differs from the one applied last</h3>`)
	w.lines(lines)
}

// lines writes the lines of a difference.
func (w *writer) lines(lines []string) {
	w.Put(`
<pre>`)
	for _, line := range lines {
		class := webpage.Own("")
		switch {
		case strings.HasPrefix(line, "+"):
			class = "add"
		case strings.HasPrefix(line, "-"):
			class = "removed"
		}
		w.Put("<b class=\"%s\">%s</b>\n", class, line)
	}
	w.Put(`</pre>`)
}

// templates writes how the rendered files differ.
func (w *writer) templates(p *plan.View) {
	if p.Templates == nil && p.TemplatesNote == "" {
		return
	}
	w.Put(`
<h3>How the rendered files differ from those that run</h3>`)
	w.When(p.TemplatesNote != "", `
<p>%s</p>`, p.TemplatesNote)
	for _, f := range p.Templates {
		w.Put(`
<p><code>%s/%s</code>: %s %s %s</p>`, f.Job, f.Path, f.Change, f.Mode, f.Hidden)
		if f.Diff != "" {
			w.lines(strings.Split(strings.TrimSuffix(f.Diff, "\n"), "\n"))
		}
	}
}

// steps writes the steps of the plan, with the calls that each makes and how long it
// took in the newest run that had one of its kind.
func (w *writer) steps(p *plan.View) {
	if len(w.r.Steps) == 0 {
		return
	}
	w.Put(`
<h3>Its steps</h3>`)
	switch {
	case len(p.Down) == 0 && !p.Creates():
		w.Put(`
<p>No jobs are stopped.</p>`)
	case len(p.Down) > 0 && p.OfRuns > 0:
		runs := "an earlier deploy"
		if p.OfRuns > 1 {
			runs = fmt.Sprintf("%d earlier deploys", p.OfRuns)
		}
		w.Put(`
<p>The service is expected to be down for about %s, as in %s on this machine.</p>`, timeline.Took(p.Downtime), runs)
	case len(p.Down) > 0:
		w.Put(`
<p>How long the service will be down is not known: no earlier deploy on this machine had all of these steps.</p>`)
	}
	w.Put(`
<table>
<thead><tr><th scope="col" class="number">#</th><th scope="col">Step</th><th scope="col">Calls</th><th scope="col" class="number">Last time</th></tr></thead>
<tbody>`)
	n := 0
	for _, s := range w.r.Steps {
		if s.Kind.Quiet() {
			continue
		}
		n++
		w.Put(`
<tr><td class="number">%v</td><td>%s`, n, s)
		w.When(s.Down, ` <em class="mark">service down</em>`)
		calls := strings.Join(s.Calls, ", ")
		if len(s.Maybe) > 0 {
			calls = strings.TrimPrefix(calls+"; perhaps "+strings.Join(s.Maybe, ", "), "; ")
		}
		w.Put(`</td><td>%s</td><td class="number">%s</td></tr>`, calls, w.lastTime(string(s.Kind)))
	}
	w.Put(`
</tbody>
</table>`)
}

// lastTime returns how long a step of that kind took in the newest run that had one and
// ended well; empty: none had.
func (w *writer) lastTime(kind string) string {
	for i := range w.r.Runs {
		for _, s := range w.r.Runs[i].Spans {
			if s.Kind == timeline.Step && s.Name == kind && s.Status == timeline.Finished {
				return timeline.Took(s.Seconds)
			}
		}
	}
	return ""
}

// facts writes the recorded facts.
func (w *writer) facts() {
	w.Put(`
<section aria-labelledby="facts">
<h2 id="facts">What is deployed</h2>
<table class="facts">
<tbody>`)
	for _, f := range w.r.Facts() {
		w.Put(`
<tr><th scope="row">%s</th><td>%s</td></tr>`, f[0], f[1])
	}
	w.Put(`
</tbody>
</table>
</section>`)
}

// timelines writes the timelines: that of the last deploy first, the others to be
// opened.
func (w *writer) timelines() {
	w.Put(`
<section aria-labelledby="time">
<h2 id="time">How long it took</h2>`)
	if text := w.r.NoTimeline(); text != "" {
		w.Put(`
<p>%s</p>`, text)
	}
	if len(w.r.Runs) > 0 {
		w.Put(`
<ul class="key" aria-label="Legend">`)
		for _, k := range [][2]webpage.Own{{"phase", "before the plan"}, {"step", "a step of the plan"}, {"stage", "a part of one"}, {"cpi", "a call of the CPI"}, {"agent", "a message to the agent, with the questions for its task"}} {
			w.Put(`
<li class="%s"><i></i>%s</li>`, k[0], k[1])
		}
		w.Put(`
<li><i class="shade"></i>the service is down</li>
</ul>`)
	}
	last := w.r.LastDeployed()
	if last >= 0 {
		t := w.r.Runs[last]
		w.Put(`
<h3>%s</h3>`, t.About())
		w.timeline(t)
	}
	for i := range w.r.Runs {
		if t := w.r.Runs[i]; i != last {
			w.Put(`
<details><summary>%s: %s</summary>`, t.About(), timeline.Took(t.Seconds))
			w.timeline(t)
			w.Put(`
</details>`)
		}
	}
	w.Put(`
</section>`)
}

// timeline writes the timeline of a run: a table with a bar in each row, so that the
// picture and the figures are the same.
func (w *writer) timeline(t *timeline.Timeline) {
	total := max(t.Seconds, 0.001)
	step := tick(total)
	w.Put(`
<p>%s in all. `, timeline.Took(t.Seconds))
	if len(t.Down) > 0 {
		w.Put(`The service was down for %s.`, t.DownTimes())
	} else {
		w.Put(`The service was not down.`)
	}
	w.When(t.Omitted > 0, ` %v more calls are not listed.`, t.Omitted)
	w.Put(`</p>
<table class="run" role="table" style="--down: %s; --grid: repeating-linear-gradient(to right, var(--line) 0 1px, transparent 1px %s)">
<thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader" class="name">Part of the run</th><th scope="col" role="columnheader" class="number">Began</th><th scope="col" role="columnheader" class="number">Took</th><th scope="col" role="columnheader" class="axis" aria-label="Picture"><div aria-hidden="true">`, shade(t, total), percent(step/total))
	for n := 0; float64(n)*step <= total*0.94; n++ {
		w.Put(`<span style="left: %s">%s</span>`, percent(float64(n)*step/total), axis(float64(n)*step))
	}
	w.Put(`</div></th></tr></thead>
<tbody role="rowgroup">`)
	for i, s := range t.Spans {
		class := webpage.Own(s.Kind)
		if s.Status == timeline.Failed || s.Status == timeline.Interrupted {
			class += " bad"
		}
		w.Put(`
<tr role="row" class="%s"><th scope="row" role="rowheader" style="--depth: %v">%s`, class, t.Depth(i), s.Text())
		w.When(s.Down, ` <em class="mark">service down</em>`)
		w.Put(`</th><td role="cell" class="number">%s</td><td role="cell" class="number">%s</td>`, timeline.Took(s.At), timeline.Took(s.Seconds))
		left := min(max(s.At/total, 0), 1)
		w.Put(`<td role="cell" class="lane"><div title="%s"><i style="left: min(%s, 100%% - 2px); width: %s"></i></div></td></tr>`,
			fmt.Sprintf("%s: from %s to %s", s.Text(), timeline.Took(s.At), timeline.Took(s.Until())), percent(left), percent(min(s.Seconds/total, 1-left)))
	}
	w.Put(`
</tbody>
</table>`)
}

// shade returns the background that shows when the service was down.
func shade(t *timeline.Timeline, total float64) webpage.Own {
	stops := []string{"transparent 0"}
	for _, d := range t.Down {
		from, to := string(percent(d.From/total)), string(percent(d.To/total))
		stops = append(stops, "transparent "+from, "var(--shade) "+from, "var(--shade) "+to, "transparent "+to)
	}
	return webpage.Own("linear-gradient(to right, " + strings.Join(append(stops, "transparent 100%"), ", ") + ")")
}

// percent returns a share of the whole, which a damaged file may not have.
func percent(share float64) webpage.Own {
	return webpage.Own(fmt.Sprintf("%.2f%%", min(max(share, 0), 1)*100))
}

// tick returns the seconds between the marks of the axis: a round number, so that there
// are at most seven.
func tick(total float64) float64 {
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
