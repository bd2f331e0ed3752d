package report

import "time"

// scale turns moments into positions. Long times in which no member ran are short in
// the picture: a run may have been continued on the next day.
type scale struct {
	parts        []part
	total, shown float64 // seconds of the run, and of those drawn to scale
}

// part is a time of a run, and its place in the picture.
type part struct {
	from, to    time.Time
	left, right float64
	gap         bool
}

const (
	gapWidth = 72
	leastGap = 600 // seconds
	gapShare = 0.4 // share of the chart's width
)

// gap is a part of the chart that is not to scale.
type gap struct {
	X, Width, Middle coord
	Label            string
}

// scale returns the scale for members in the order of their starts.
func (v *Report) scale(members []*Member, left, right float64) scale {
	end := v.until()
	s := scale{total: max(seconds(v.Started, end), 0.001)}
	limit := max(leastGap, s.total*gapShare)
	begin, last := v.Started, v.Started // of the part, and of what ran so far
	add := func(from, to time.Time, gap bool) {
		if to.After(from) {
			s.parts = append(s.parts, part{from: from, to: to, gap: gap})
		}
	}
	idle := func(until time.Time) {
		if seconds(last, until) > limit {
			add(begin, last, false)
			add(last, until, true)
			begin = until
		}
	}
	for _, m := range members {
		if m.Started == nil {
			continue
		}
		idle(*m.Started)
		if ended := m.Started.Add(time.Duration(m.Seconds * float64(time.Second))); ended.After(last) {
			last = ended
		}
	}
	idle(end)
	add(begin, end, false)
	if len(s.parts) == 0 {
		s.parts = []part{{from: v.Started, to: v.Started.Add(time.Millisecond)}}
	}
	s.place(left, right)
	return s
}

// place sets the positions of the parts.
func (s *scale) place(left, right float64) {
	room := right - left
	for _, p := range s.parts {
		if p.gap {
			room -= gapWidth
		} else {
			s.shown += p.to.Sub(p.from).Seconds()
		}
	}
	for i := range s.parts {
		p := &s.parts[i]
		width := float64(gapWidth)
		if !p.gap {
			width = room * p.to.Sub(p.from).Seconds() / s.shown
		}
		p.left, p.right = left, left+width
		left += width
	}
}

// at returns the position of a moment.
func (s scale) at(t time.Time) coord {
	for i, p := range s.parts {
		if t.After(p.to) && i < len(s.parts)-1 {
			continue
		}
		share := min(max(t.Sub(p.from).Seconds()/p.to.Sub(p.from).Seconds(), 0), 1)
		return coord(p.left + share*(p.right-p.left))
	}
	return 0
}

// gapAt reports whether a moment is in a gap, and when that ends.
func (s scale) gapAt(t time.Time) (end time.Time, inside bool) {
	for _, p := range s.parts {
		if p.gap && t.After(p.from) && t.Before(p.to) {
			return p.to, true
		}
	}
	return time.Time{}, false
}

func (s scale) gaps() []gap {
	var list []gap
	for _, p := range s.parts {
		if p.gap {
			list = append(list, gap{X: coord(p.left), Width: gapWidth, Middle: coord(p.left + gapWidth/2), Label: span(p.to.Sub(p.from).Seconds())})
		}
	}
	return list
}
