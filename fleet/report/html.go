package report

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"strings"

	"bootstrap/deployer/report"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/webpage"
)

// files has the page's template and its style.
//
//go:embed page.html page.css
var files embed.FS

// page is the data of page.html.
type page struct {
	*Report
	Headline string
	Class    string
	Intro    string
	Rules    string
	Figures  []figure
	Counts   []legendCount
	Problems []row
	Many     bool // there are so many problems that each has one line until it is opened
	Timeline *timeline
	Rows     []row
	HasPlace bool
	HasDown  bool
	HasNotes bool
	HasTags  bool
	MadeAt   string

	DeleteRemoved string // the command that deletes Removed
}

// mostOpen is how many members with a problem are shown with all details.
const mostOpen = 6

// figure is one number at the top of the page.
type figure struct{ Name, Value, About string }

type legendCount struct {
	Class, Text string
	Number      int
	Share       coord // its share of all members, as a percentage
}

// row is a member in the table, or one with a problem.
type row struct {
	Member
	Class     string
	Word      string // its verdict
	Place     string
	StartedAt string
	Took      string
	DownFor   string
	Note      string
	First     string // the beginning of its reason, on one line
	Tags      string // its labels
	Long      bool   // true: its reason is longer than its box
}

// HTML returns the report as one page that needs no other file, no network and no
// scripts.
func (v *Report) HTML() ([]byte, error) {
	return webpage.Render(files, nil, v.page())
}

func (v *Report) page() page {
	p := page{Report: v, Timeline: v.timeline(), DeleteRemoved: rollout.DeleteRemoved(v.File, v.Removed, len(v.Members)), MadeAt: report.Minute(v.Made)}
	p.headline()
	what := strings.ToUpper(v.Action[:min(len(v.Action), 1)]) + v.Action[min(len(v.Action), 1):]
	p.Intro = fmt.Sprintf("%s of %s, started %s by %s@%s", what, count(len(v.Members), "member"), report.Minute(v.Started), v.By.User, v.By.Host)
	if v.Ended != nil {
		p.Intro += ", ended " + report.Minute(*v.Ended)
	}
	p.Rules = v.rules()
	for _, verdict := range schedule.Verdicts() {
		if n := v.Counts[verdict.String()]; n > 0 {
			p.Counts = append(p.Counts, legendCount{class(verdict), v.word(verdict), n, coord(100 * float64(n) / float64(len(v.Members)))})
		}
	}
	for i := range v.Members {
		r := v.row(i)
		p.HasPlace = p.HasPlace || r.Place != ""
		p.HasDown = p.HasDown || r.Down > 0
		p.HasNotes = p.HasNotes || r.Note != ""
		p.HasTags = p.HasTags || r.Tags != ""
		p.Rows = append(p.Rows, r)
		if v.isProblem(r.Verdict) {
			p.Problems = append(p.Problems, r)
		}
	}
	p.Many = len(p.Problems) > mostOpen
	p.Figures = v.figures()
	return p
}

func (p *page) headline() {
	switch p.Status {
	case Running:
		p.Headline, p.Class = "is running", "running"
	case Paused:
		p.Headline, p.Class = "is paused", "running"
	case Killed:
		p.Headline, p.Class = "was killed and has not been continued", "failed"
	default:
		p.Headline, p.Class = string(p.Result), string(p.Result)
		if p.Result == "aborted" {
			p.Class = "interrupted"
		}
	}
}

// rules returns the order of the run in words.
func (v *Report) rules() string {
	n := v.Numbers
	list := []string{fmt.Sprintf("%d of %s had something to do", n.ToDo, count(n.Members, "member"))}
	switch n.Canaries {
	case 0:
		list = append(list, "no canaries")
	case 1:
		list = append(list, "1 canary")
	default:
		list = append(list, fmt.Sprintf("%d canaries", n.Canaries))
	}
	if len(n.Waves) > 0 {
		list = append(list, "waves of "+strings.Trim(strings.ReplaceAll(fmt.Sprint(n.Waves), " ", ", "), "[]"))
	}
	list = append(list, fmt.Sprintf("at most %d at the same time", n.MaxInFlight))
	if n.ToDelete > 0 {
		list = append(list, fmt.Sprintf("%s to delete at the end", count(n.ToDelete, "member")))
	}
	return strings.Join(list, ", ")
}

// figures returns the numbers at the top of the page.
func (v *Report) figures() []figure {
	took := map[Status]string{Ended: "took", Running: "so far", Paused: "so far", Killed: "at least"}[v.Status]
	list := []figure{{took, span(v.Seconds), ""}}
	var slowest, worst *Member
	var times []float64
	down, downs := 0.0, 0
	for i := range v.Members {
		m := &v.Members[i]
		if m.Verdict == schedule.Done && m.Ended != nil && m.Started != nil {
			times = append(times, m.Seconds)
			if slowest == nil || m.Seconds > slowest.Seconds {
				slowest = m
			}
		}
		if m.Down > 0 {
			down += m.Down
			downs++
			if worst == nil || m.Down > worst.Down {
				worst = m
			}
		}
	}
	if len(times) > 0 {
		slices.Sort(times)
		list = append(list, figure{"median of a member", span(times[(len(times)-1)/2]), ""}, figure{"slowest", span(slowest.Seconds), slowest.Name})
	}
	if downs > 0 {
		list = append(list, figure{"service down, mean of " + count(downs, "member"), span(down / float64(downs)), ""}, figure{"longest downtime", span(worst.Down), worst.Name})
	}
	return list
}

// row returns the line of a member.
func (v *Report) row(i int) row {
	m := &v.Members[i]
	r := row{Member: *m, Class: class(m.Verdict), Word: v.word(m.Verdict), Place: place(v, m)}
	if m.Started != nil {
		r.StartedAt, r.Took = clock(*m.Started), span(m.Seconds)
		if m.Started.YearDay() != v.Started.YearDay() {
			r.StartedAt = report.Minute(*m.Started)
		}
	}
	if m.Down > 0 {
		r.DownFor = span(m.Down)
	}
	var tags []string
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		tags = append(tags, name+"="+m.Labels[name])
	}
	r.Tags = strings.Join(tags, ", ")
	r.First = oneLine(m.Reason, 160)
	r.Long = len(m.Reason) > 1000 || strings.Count(m.Reason, "\n") > 8
	var notes []string
	switch {
	case m.Verdict == schedule.Running && m.Step != "":
		notes = append(notes, m.Step)
	case m.Reason != "":
		notes = append(notes, oneLine(m.Reason, 200))
	case len(m.Changes) > 0:
		notes = append(notes, strings.Join(m.Changes, ", "))
	}
	if m.Attempts > 1 {
		notes = append(notes, fmt.Sprintf("started %d times", m.Attempts))
	}
	if m.Machine != "" {
		notes = append(notes, "on "+m.Machine)
	}
	r.Note = strings.Join(notes, "; ")
	return r
}
