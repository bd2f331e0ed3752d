package report

import (
	"bootstrap/fleet/rollout"
	"bootstrap/internal/webpage"
)

// markup is the text of a page.
type markup = webpage.Page

// write writes the whole page.
func (p *page) write(m *markup) {
	m.Begin("Fleet "+p.Fleet+": "+p.Headline, pageStyle)
	p.writeHeader(m)
	p.writeRemoved(m)
	p.writeProblems(m)
	if p.Timeline != nil {
		p.Timeline.write(m)
	}
	p.writeMembers(m)
	m.Put(`
<footer>Run <code>%s</code> of <code>%s</code>, logs in <code>%s</code>. Report made %s by bootstrap fleet report.</footer>`, p.Run, p.File, p.Logs, p.MadeAt)
}

func (p *page) writeHeader(m *markup) {
	m.Put(`<header>
<h1>Fleet %s <span class="state %s">%s</span></h1>
<p class="soft">%s</p>`, p.Fleet, p.Class, p.Headline, p.Intro)
	m.When(p.Reason != "", `
<p class="reason">Reason: %s</p>`, p.Reason)
	m.Put(`
<p class="soft">%s`, p.Rules)
	m.When(p.Chosen != "", `; chosen with %s`, p.Chosen)
	m.Put(`</p>`)
	if len(p.Counts) > 0 {
		m.Put(`
<div class="share" aria-hidden="true">`)
		for _, c := range p.Counts {
			m.Put(`<span class="%s" style="flex-grow: %v"></span>`, c.Class, c.Number)
		}
		m.Put(`</div>
<ul class="counts" aria-label="Members by verdict">`)
		for _, c := range p.Counts {
			m.Put(`
<li><span class="swatch %s" aria-hidden="true"></span><b>%v</b> %s</li>`, c.Class, c.Number, c.Text)
		}
		m.Put(`
</ul>`)
	}
	m.Put(`
<ul class="figures" aria-label="Figures">`)
	for _, f := range p.Figures {
		m.Put(`
<li><b>%s</b><small>%s`, f.Value, f.Name)
		m.When(f.About != "", `: %s`, f.About)
		m.Put(`</small></li>`)
	}
	m.Put(`
</ul>
</header>`)
}

// writeRemoved names the members that the fleet file does not have any more.
func (p *page) writeRemoved(m *markup) {
	if len(p.Removed) == 0 {
		return
	}
	m.Put(`
<section aria-labelledby="removed">
<h2 id="removed">Not in the fleet file any more, but still deployed</h2>
<ul>`)
	for _, one := range p.Removed {
		m.Put(`
<li class="text">%s</li>`, plain(one.String()))
	}
	m.Put(`
</ul>
<p>To delete: <code>%s</code></p>
</section>`, rollout.DeleteRemoved(p.File))
}

func (p *page) writeProblems(m *markup) {
	if len(p.Problems) == 0 {
		return
	}
	m.Put(`
<section aria-labelledby="problems">
<h2 id="problems">What did not end well</h2>`)
	for i := range p.Problems {
		r := &p.Problems[i]
		if p.Many {
			m.Put(`
<details class="problem %s"><summary><b>%s</b> `, r.Class, r.Name)
		} else {
			m.Put(`
<div class="problem %s">
<h3>%s `, r.Class, r.Name)
		}
		m.Put(`<span class="soft">%s`, r.Word)
		m.When(r.Place != "", `, %s`, r.Place)
		m.When(r.Took != "", `, after %s`, r.Took)
		if p.Many {
			m.When(r.First != "", `:`)
			m.Put(`</span> %s</summary>
`, r.First)
			r.write(m)
			m.Put(`
</details>`)
		} else {
			m.Put(`</span></h3>
`)
			r.write(m)
			m.Put(`
</div>`)
		}
	}
	m.Put(`
</section>`)
}

// write writes what is known of a problem.
func (r *row) write(m *markup) {
	if r.Reason != "" {
		m.Put(`<div class="text"`)
		m.When(r.Long, ` tabindex="0"`)
		m.Put(`>%s</div>
`, r.Reason)
	}
	m.When(r.Step != "", `<p>Its step was: %s</p>
`, r.Step)
	m.When(r.Hint != "", `<p><b>What to do:</b> %s</p>
`, r.Hint)
	m.Put(`<p class="soft">`)
	m.When(r.ExitCode != 0, `Exit code %v. `, r.ExitCode)
	m.When(r.DownFor != "", `Its service was down for %s. `, r.DownFor)
	m.When(r.Log != "", `Log: <code>%s</code>`, r.Log)
	m.Put(`</p>`)
	m.When(r.LogEnd != "", `
<details><summary>The end of its log</summary><pre class="text" tabindex="0">%s</pre></details>`, r.LogEnd)
}

func (t *timeline) write(m *markup) {
	m.Put(`
<section aria-labelledby="timeline">
<h2 id="timeline">Timeline</h2>
<div class="scroll" tabindex="0">
<svg role="img" aria-labelledby="picture-title picture-about" viewBox="0 0 %s %s">
<title id="picture-title">%s</title>
<desc id="picture-about">%s</desc>`, t.Width, t.Height, t.Title, t.About)
	for _, b := range t.Bands {
		m.Put(`
<rect class="band`)
		m.When(b.Odd, ` odd`)
		m.Put(`" x="%s" y="0" width="%s" height="%s"/>`, b.X, b.Width, t.Bottom)
	}
	for _, g := range t.Gaps {
		m.Put(`
<rect class="gap" x="%s" y="%s" width="%s" height="%s"><title>for %s no member ran</title></rect>`, g.X, t.Top, g.Width, t.Lowest, g.Label)
		m.Put(`<text class="axis" text-anchor="middle" x="%s" y="%s">%s</text>`, g.Middle, t.Axes[0], g.Label)
	}
	for _, k := range t.Ticks {
		m.Put(`
<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, k.X, k.X, t.Top, t.Bottom)
		m.Put(`<text class="axis" text-anchor="middle" x="%s" y="%s">%s</text>`, k.X, t.Axes[0], k.Elapsed)
		m.Put(`<text class="axis" text-anchor="middle" x="%s" y="%s">%s</text>`, k.X, t.Axes[1], k.Clock)
	}
	for _, b := range t.Bands {
		m.When(b.Label != "", `
<text class="band-name" x="%s" y="%s" dx="3">%s</text>`, b.X, t.Middle, b.Label)
	}
	for i := range t.Lanes {
		t.Lanes[i].write(m, t)
	}
	if t.Now != nil {
		m.Put(`
<line class="now" x1="%s" x2="%s" y1="%s" y2="%s"/>`, *t.Now, *t.Now, t.Top, t.Bottom)
	}
	m.Put(`
</svg>
</div>`)
	t.writeLegend(m)
	m.Put(`
</section>`)
}

func (l *lane) write(m *markup, t *timeline) {
	m.Put(`
<g>`)
	m.When(l.About != "", `<title>%s</title>`, l.About)
	m.When(l.Name != "", `<text class="name" x="%s" dx="-20" y="%s">%s</text>`, t.Left, l.Middle, l.Name)
	m.When(l.Waits, `<line class="waits" x1="%s" x2="%s" y1="%s" y2="%s"/>`, t.Left, l.WaitsUntil, l.Line, l.Line)
	m.When(l.Canary, `<path class="mark" d="M%s %sl4 -5l4 5l-4 5z"/>`, l.MarkX, l.Line)
	if l.Width != 0 {
		m.Put(`<rect class="lane %s" x="%s" y="%s" width="%s" height="%s"`, l.Class, l.X, l.Y, l.Width, l.Height)
		m.When(!t.Dense, ` rx="2"`)
		m.Put(`/>`)
	}
	for _, d := range l.Downs {
		m.Put(`<rect class="down" x="%s" y="%s" width="%s" height="%s"/>`, d.X, l.DownY, d.Width, l.DownHeight)
	}
	if l.Note != "" {
		m.Put(`<text class="note`)
		m.When(l.Quiet, ` quiet`)
		m.Put(`" x="%s" y="%s">%s</text>`, l.NoteX, l.Middle, l.Note)
	}
	m.Put(`</g>`)
}

func (t *timeline) writeLegend(m *markup) {
	m.Put(`
<ul class="key" aria-label="Legend">`)
	for _, l := range t.Legend {
		m.Put(`
<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="lane %s" width="22" height="12" rx="2"/></svg>%s</li>`, l.Class, l.Text)
	}
	m.When(t.Downs, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="lane done" width="22" height="12" rx="2"/><rect class="down" x="7" y="3" width="9" height="6"/></svg>the service is down</li>`)
	m.When(t.Waits, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><line class="waits" x1="1" x2="21" y1="6" y2="6"/></svg>waiting</li>`)
	m.When(t.Canaries, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><path class="mark" d="M7 6l4 -5l4 5l-4 5z"/></svg>canary</li>`)
	m.When(len(t.Gaps) > 0, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="gap" x="0.5" y="0.5" width="21" height="11"/></svg>no member ran; not to scale</li>`)
	m.Put(`
<li>above: time since the start; below: time of day in UTC</li>`)
	m.When(t.NoLane != 0, `
<li>%v without a lane: they were not started</li>`, t.NoLane)
	m.Put(`
</ul>`)
}

func (p *page) writeMembers(m *markup) {
	m.Put(`
<section aria-labelledby="members">
<h2 id="members">Members</h2>
<div class="scroll" tabindex="0">
<table>
<thead><tr><th scope="col">Member</th>`)
	m.When(p.HasTags, `<th scope="col">Labels</th>`)
	m.Put(`<th scope="col">Verdict</th>`)
	m.When(p.HasPlace, `<th scope="col">Part</th>`)
	m.Put(`<th scope="col" class="number">Started (UTC)</th><th scope="col" class="number">Took</th>`)
	m.When(p.HasDown, `<th scope="col" class="number">Service down</th>`)
	m.When(p.HasNotes, `<th scope="col" class="what">Reason or changes</th>`)
	m.Put(`</tr></thead>
<tbody>`)
	for i := range p.Rows {
		r := &p.Rows[i]
		m.Put(`
<tr><td class="member">%s</td>`, r.Name)
		m.When(p.HasTags, `<td class="tags">%s</td>`, r.Tags)
		m.Put(`<td class="word"><span class="swatch %s" aria-hidden="true"></span>%s</td>`, r.Class, r.Word)
		m.When(p.HasPlace, `<td class="part">%s</td>`, r.Place)
		m.Put(`<td class="number">%s</td><td class="number">%s</td>`, r.StartedAt, r.Took)
		m.When(p.HasDown, `<td class="number">%s</td>`, r.DownFor)
		m.When(p.HasNotes, `<td class="what">%s</td>`, r.Note)
		m.Put(`</tr>`)
	}
	m.Put(`
</tbody>
</table>
</div>
</section>`)
}
