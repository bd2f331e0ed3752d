package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"bootstrap/fleet/schedule"
)

// The sizes of the timeline, in units of its picture; text has about 11 units.
const (
	pictureWidth = 1080
	noteWidth    = 124 // right of the bars, for verdict and duration
	letterWidth  = 6.6 // width of a letter of names
	bandHeight   = 18  // height of the line with canaries and waves
	axisHeight   = 20
	mostLabelled = 60  // with more members, only those with a problem are labelled
	denseHeight  = 900 // approximate height of the lanes of a large fleet
)

// coord is a position or a size in the picture.
type coord float64

func (c coord) String() string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(c)), ".0")
}

// timeline is the chart of a run: a lane for each member, from left to right.
type timeline struct {
	Width, Height coord
	Left, Right   coord // limits of the bars
	Top, Bottom   coord // limits of the lanes
	Middle        coord // middle of the line with canaries and waves
	Above, Below  coord // the lines of the texts of both axes
	Bands         []band
	Gaps          []gap
	Lowest        coord // height of the lanes
	Ticks         []tick
	Lanes         []lane
	Now           *coord // position of the present time, if the run is not over
	Dense         bool   // true: lanes have no labels, and members that were not started have no lanes
	NoLane        int    // members without a lane
	Legend        []legend
	Waits, Downs  bool // the legend needs waiting times, or downtimes
	Canaries      bool
	Title, About  string
}

// band is the time of the canaries or of a wave.
type band struct {
	X, Width coord
	Label    string
	Odd      bool
}

// tick is a moment on the axes.
type tick struct {
	X       coord
	Elapsed string
	Clock   string
}

// lane is the line of a member.
type lane struct {
	Y, Height  coord // of the member's bar
	Middle     coord // of the member's text
	Line       coord // middle of its bar
	MarkX      coord // position of the canary's mark
	DownY      coord
	DownHeight coord
	Name       string
	About      string
	Class      string
	Canary     bool
	X, Width   coord // of the member's bar; no width: it was not started
	WaitsUntil coord // right end of its waiting time
	Waits      bool
	Downs      []bar
	Note       string
	NoteX      coord
	Quiet      bool
}

// bar is a part of a lane.
type bar struct{ X, Width coord }

type legend struct{ Class, Text string }

// timeline returns the picture; nil if no member was started.
func (v *Report) timeline() *timeline {
	members := make([]*Member, 0, len(v.Members))
	first := v.until()
	for i := range v.Members {
		m := &v.Members[i]
		if m.Started != nil {
			members = append(members, m)
			first = earlier(first, *m.Started)
		}
	}
	if len(members) == 0 {
		return nil
	}
	t := &timeline{Width: pictureWidth, Dense: len(v.Members) > mostLabelled}
	if !t.Dense {
		members = members[:0]
		for i := range v.Members {
			members = append(members, &v.Members[i])
		}
	}
	t.NoLane = len(v.Members) - len(members)
	slices.SortStableFunc(members, byStart)
	t.size(v, members)
	s := v.scale(members, float64(t.Left), float64(t.Right))
	t.Gaps = s.gaps()
	t.ticks(v, s)
	t.bands(v, s)
	t.lanes(v, s, members)
	if v.Status == Running || v.Status == Paused {
		now := s.at(v.Made)
		t.Now = &now
	}
	t.explain(v)
	t.Title = fmt.Sprintf("Timeline of the run: %s in %s", count(len(v.Members), "member"), span(v.Seconds))
	t.About = fmt.Sprintf("One lane for each member, from the start of the run at %s UTC. The table of all members has the same times.", clock(v.Started))
	return t
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// byStart sorts members by their start; those that were not started are last.
func byStart(a, b *Member) int {
	switch {
	case a.Started == nil && b.Started == nil:
		return 0
	case a.Started == nil:
		return 1
	case b.Started == nil:
		return -1
	}
	return a.Started.Compare(*b.Started)
}

// pitch returns the distance between lanes.
func (t *timeline) pitch(lanes int) float64 {
	switch {
	case t.Dense:
		return min(max(denseHeight/float64(lanes), 1.5), 8)
	case lanes > 24:
		return 17
	}
	return 22
}

// size fills in the places of the parts.
func (t *timeline) size(v *Report, members []*Member) {
	longest := 0
	for _, m := range members {
		if !t.Dense || v.isProblem(m.Verdict) {
			longest = max(longest, utf8.RuneCountInString(m.Name))
		}
	}
	t.Left = coord(float64(min(longest, mostName))*letterWidth + 26)
	t.Right = pictureWidth - noteWidth
	if t.Dense {
		t.Right = pictureWidth - 44
	}
	t.Middle = bandHeight - 5
	t.Top = bandHeight + axisHeight
	t.Bottom = t.Top + coord(t.pitch(len(members))*float64(len(members))) + 2
	t.Height, t.Lowest = t.Bottom+axisHeight, t.Bottom-t.Top
	t.Above, t.Below = t.Top-7, t.Bottom+14
}

// mostName is how many characters of a name are shown.
const mostName = 26

// ticks fills in the axes: the time since the start above, the time of day below.
func (t *timeline) ticks(v *Report, s scale) {
	step := tickStep(s.shown)
	day := v.Started.YearDay()
	for at := 0.0; at <= s.total; at += step {
		moment := v.Started.Add(time.Duration(at * float64(time.Second)))
		if next, inside := s.gapAt(moment); inside {
			at = math.Floor(seconds(v.Started, next)/step) * step
			continue
		}
		one := tick{X: s.at(moment), Elapsed: "+" + round(at), Clock: clock(moment)}
		if slices.ContainsFunc(t.Gaps, func(g gap) bool { return math.Abs(float64(g.Middle-one.X)) < gapWidth*0.75 }) {
			continue
		}
		if at == 0 {
			one.Elapsed = "0"
		}
		if moment.YearDay() != day {
			day = moment.YearDay()
			one.Clock = fmt.Sprintf("%s %d %s", moment.Month().String()[:3], moment.Day(), strings.TrimSuffix(one.Clock, ":00"))
		}
		t.Ticks = append(t.Ticks, one)
	}
}

// tickStep returns the seconds between ticks: a round time of which there are at most
// 10.
func tickStep(total float64) float64 {
	const most = 9
	steps := []float64{1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200}
	for _, step := range steps {
		if total/step <= most {
			return step
		}
	}
	step := 86400.0
	for total/step > most {
		step *= 2
	}
	return step
}

// bands sets the times of the canaries and of the waves, if there is more than one such
// part.
func (t *timeline) bands(v *Report, s scale) {
	type part struct {
		label      string
		order      int
		from, till time.Time
	}
	parts := map[string]*part{}
	for i := range v.Members {
		m := &v.Members[i]
		label := ""
		switch {
		case m.Started == nil:
		case m.Canary:
			label = "canaries"
		case m.Wave > 0 && len(v.Numbers.Waves) > 0:
			label = fmt.Sprintf("wave %d", m.Wave)
		case m.Wave > 0:
			label = "others"
		}
		if label == "" {
			continue
		}
		till := m.Started.Add(time.Duration(m.Seconds * float64(time.Second)))
		p := parts[label]
		if p == nil {
			p = &part{label: label, order: m.Wave, from: *m.Started, till: till}
			parts[label] = p
		}
		p.from = earlier(p.from, *m.Started)
		if till.After(p.till) {
			p.till = till
		}
	}
	if len(parts) < 2 && parts["canaries"] == nil {
		return
	}
	list := make([]*part, 0, len(parts))
	for _, p := range parts {
		list = append(list, p)
	}
	slices.SortStableFunc(list, func(a, b *part) int { return cmp.Or(a.from.Compare(b.from), cmp.Compare(a.order, b.order)) })
	used := 0.0
	for i, p := range list {
		b := band{X: s.at(p.from), Odd: i%2 == 1}
		b.Width = max(s.at(p.till)-b.X, 1)
		for _, label := range []string{p.label, strings.TrimPrefix(p.label, "wave ")} {
			width := float64(len(label))*6 + 6
			if float64(b.X) >= used && float64(b.X)+width <= pictureWidth {
				b.Label = label
				used = float64(b.X) + width
				break
			}
		}
		t.Bands = append(t.Bands, b)
	}
}

// lanes fills in the members' bars.
func (t *timeline) lanes(v *Report, s scale, members []*Member) {
	pitch := t.pitch(len(members))
	height := pitch * 0.62
	if t.Dense {
		height = max(pitch-1, pitch*0.75)
	}
	labelled := float64(t.Top) - 20 // the lowest label so far
	for i, m := range members {
		top := float64(t.Top) + pitch*float64(i) + 1
		l := lane{
			Y: coord(top + (pitch-height)/2), Height: coord(height), Middle: coord(top + pitch/2 + 4), Class: class(m.Verdict),
			Name: m.Name, About: describe(v, m), Canary: m.Canary && !t.Dense,
		}
		l.Line, l.MarkX = l.Y+l.Height/2, t.Left-14
		l.DownY, l.DownHeight = l.Y+l.Height/4, l.Height/2
		if t.Dense {
			l.DownY, l.DownHeight = l.Y, l.Height
		}
		t.Canaries = t.Canaries || l.Canary
		if list := []rune(l.Name); len(list) > mostName {
			l.Name = string(list[:mostName-1]) + "…"
		}
		if t.Dense {
			if !v.isProblem(m.Verdict) || float64(l.Middle) < labelled+11 {
				l.Name = ""
			} else {
				labelled = float64(l.Middle)
			}
		}
		t.fill(&l, v, s, m)
		t.Waits = t.Waits || l.Waits && !t.Dense
		t.Downs = t.Downs || len(l.Downs) > 0
		t.Lanes = append(t.Lanes, l)
	}
}

// fill sets the data of a member's lane.
func (t *timeline) fill(l *lane, v *Report, s scale, m *Member) {
	if m.Started == nil {
		l.NoteX, l.Note, l.Quiet = t.Left+4, oneLine(v.message(*m), int(float64(t.Right-t.Left)/6)), true
		if m.Verdict == schedule.Waiting || m.Verdict == schedule.NotStarted {
			l.Waits, l.WaitsUntil = true, t.Right
			l.NoteX = t.Right + 6
		}
		return
	}
	end := m.Started.Add(time.Duration(m.Seconds * float64(time.Second)))
	l.X = s.at(*m.Started)
	l.Width = max(s.at(end)-l.X, 2)
	l.Waits, l.WaitsUntil = (!t.Dense || l.Name != "") && l.X > t.Left+1, l.X
	for _, o := range m.Outages {
		from, to := max(s.at(o.From), l.X), min(s.at(o.To), l.X+l.Width)
		if to > from {
			l.Downs = append(l.Downs, bar{from, max(to-from, 1)})
		}
	}
	if t.Dense {
		return
	}
	l.Note, l.NoteX = span(m.Seconds), l.X+l.Width+6
	switch {
	case m.Verdict == schedule.Done && m.Down > 0:
		l.Note += ", down " + span(m.Down)
	case m.Verdict == schedule.Running && v.Status == Killed:
		l.Note = "running when killed"
	case m.Verdict != schedule.Done:
		l.Note = m.Verdict.String() + ", " + l.Note
	}
}

// class returns the class by which a verdict has its colour.
func class(v schedule.Verdict) string { return strings.ReplaceAll(v.String(), " ", "-") }

// describe returns the text that a browser shows when the mouse rests on a bar.
func describe(v *Report, m *Member) string {
	text := m.Name + ": " + v.word(m.Verdict)
	if m.Started != nil {
		text += fmt.Sprintf(", started %s UTC, took %s", clock(*m.Started), span(m.Seconds))
	}
	if m.Down > 0 {
		text += ", service down for " + span(m.Down)
	}
	if part := place(v, m); part != "" {
		text += ", " + part
	}
	return text
}

// place returns "canary" or the wave in which a member was started, or "".
func place(v *Report, m *Member) string {
	switch {
	case m.Canary:
		return "canary"
	case m.Wave > 0 && len(v.Numbers.Waves) > 0:
		return fmt.Sprintf("wave %d", m.Wave)
	}
	return ""
}

// explain fills in the meaning of the colours that occur.
func (t *timeline) explain(v *Report) {
	seen := map[string]bool{}
	for i := range t.Lanes {
		if t.Lanes[i].Width > 0 {
			seen[t.Lanes[i].Class] = true
		}
	}
	for _, verdict := range schedule.Verdicts() {
		if seen[class(verdict)] {
			t.Legend = append(t.Legend, legend{class(verdict), v.word(verdict)})
		}
	}
}
