package report

import (
	"fmt"
	"strings"
)

// markup is the text of a page. html/template is not used: it finds methods by their
// names, so that the linker would keep the methods of all types, 3 MB.
type markup struct{ text strings.Builder }

// put writes a format with its values, which are escaped for the text of an element or
// a quoted attribute.
func (m *markup) put(format string, values ...any) {
	for i, v := range values {
		values[i] = escape(fmt.Sprint(v))
	}
	fmt.Fprintf(&m.text, format, values...)
}

// when writes as put does, if the condition holds.
func (m *markup) when(condition bool, format string, values ...any) {
	if condition {
		m.put(format, values...)
	}
}

// escape is what html/template does with a value, down to the plus sign.
func escape(text string) string {
	return strings.NewReplacer("\x00", "\uFFFD", `"`, "&#34;", "&", "&amp;", "'", "&#39;", "+", "&#43;", "<", "&lt;", ">", "&gt;").Replace(text)
}

// write writes the whole page.
func (p *page) write(m *markup) {
	m.put(`<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<meta name="color-scheme" content="light dark">
<title>Fleet %s: %s</title>
<style>
`, p.Fleet, p.Headline)
	m.text.WriteString(pageStyle)
	m.put(`</style>
</head>
<body>
<main>
`)
	p.writeHeader(m)
	p.writeProblems(m)
	if p.Timeline != nil {
		p.Timeline.write(m)
	}
	p.writeMembers(m)
	m.put(`
<footer>Run <code>%s</code> of <code>%s</code>, logs in <code>%s</code>. Report made %s by bootstrap fleet report.</footer>
</main>
</body>
</html>
`, p.Run, p.File, p.Logs, p.MadeAt)
}

func (p *page) writeHeader(m *markup) {
	m.put(`<header>
<h1>Fleet %s <span class="state %s">%s</span></h1>
<p class="soft">%s</p>`, p.Fleet, p.Class, p.Headline, p.Intro)
	m.when(p.Reason != "", `
<p class="reason">Reason: %s</p>`, p.Reason)
	m.put(`
<p class="soft">%s`, p.Rules)
	m.when(p.Chosen != "", `; chosen with %s`, p.Chosen)
	m.put(`</p>`)
	if len(p.Counts) > 0 {
		m.put(`
<div class="share" aria-hidden="true">`)
		for _, c := range p.Counts {
			m.put(`<span class="%s" style="flex-grow: %v"></span>`, c.Class, c.Number)
		}
		m.put(`</div>
<ul class="counts" aria-label="Members by verdict">`)
		for _, c := range p.Counts {
			m.put(`
<li><span class="swatch %s" aria-hidden="true"></span><b>%v</b> %s</li>`, c.Class, c.Number, c.Text)
		}
		m.put(`
</ul>`)
	}
	m.put(`
<ul class="figures" aria-label="Figures">`)
	for _, f := range p.Figures {
		m.put(`
<li><b>%s</b><small>%s`, f.Value, f.Name)
		m.when(f.About != "", `: %s`, f.About)
		m.put(`</small></li>`)
	}
	m.put(`
</ul>
</header>`)
}

func (p *page) writeProblems(m *markup) {
	if len(p.Problems) == 0 {
		return
	}
	m.put(`
<section aria-labelledby="problems">
<h2 id="problems">What did not end well</h2>`)
	for i := range p.Problems {
		r := &p.Problems[i]
		if p.Many {
			m.put(`
<details class="problem %s"><summary><b>%s</b> `, r.Class, r.Name)
		} else {
			m.put(`
<div class="problem %s">
<h3>%s `, r.Class, r.Name)
		}
		m.put(`<span class="soft">%s`, r.Word)
		m.when(r.Place != "", `, %s`, r.Place)
		m.when(r.Took != "", `, after %s`, r.Took)
		if p.Many {
			m.when(r.First != "", `:`)
			m.put(`</span> %s</summary>
`, r.First)
			r.write(m)
			m.put(`
</details>`)
		} else {
			m.put(`</span></h3>
`)
			r.write(m)
			m.put(`
</div>`)
		}
	}
	m.put(`
</section>`)
}

// write writes what is known of a problem.
func (r *row) write(m *markup) {
	if r.Reason != "" {
		m.put(`<div class="text"`)
		m.when(r.Long, ` tabindex="0"`)
		m.put(`>%s</div>
`, r.Reason)
	}
	m.when(r.Step != "", `<p>Its step was: %s</p>
`, r.Step)
	m.when(r.Hint != "", `<p><b>What to do:</b> %s</p>
`, r.Hint)
	m.put(`<p class="soft">`)
	m.when(r.ExitCode != 0, `Exit code %v. `, r.ExitCode)
	m.when(r.DownFor != "", `Its service was down for %s. `, r.DownFor)
	m.when(r.Log != "", `Log: <code>%s</code>`, r.Log)
	m.put(`</p>`)
	m.when(r.LogEnd != "", `
<details><summary>The end of its log</summary><pre class="text" tabindex="0">%s</pre></details>`, r.LogEnd)
}

func (t *timeline) write(m *markup) {
	m.put(`
<section aria-labelledby="timeline">
<h2 id="timeline">Timeline</h2>
<div class="scroll" tabindex="0">
<svg role="img" aria-labelledby="picture-title picture-about" viewBox="0 0 %s %s">
<title id="picture-title">%s</title>
<desc id="picture-about">%s</desc>`, t.Width, t.Height, t.Title, t.About)
	for _, b := range t.Bands {
		m.put(`
<rect class="band`)
		m.when(b.Odd, ` odd`)
		m.put(`" x="%s" y="0" width="%s" height="%s"/>`, b.X, b.Width, t.Bottom)
	}
	for _, g := range t.Gaps {
		m.put(`
<rect class="gap" x="%s" y="%s" width="%s" height="%s"><title>for %s no member ran</title></rect>`, g.X, t.Top, g.Width, t.Lowest, g.Label)
		m.put(`<text class="axis" text-anchor="middle" x="%s" y="%s">%s</text>`, g.Middle, t.Axes[0], g.Label)
	}
	for _, k := range t.Ticks {
		m.put(`
<line class="grid" x1="%s" x2="%s" y1="%s" y2="%s"/>`, k.X, k.X, t.Top, t.Bottom)
		m.put(`<text class="axis" text-anchor="middle" x="%s" y="%s">%s</text>`, k.X, t.Axes[0], k.Elapsed)
		m.put(`<text class="axis" text-anchor="middle" x="%s" y="%s">%s</text>`, k.X, t.Axes[1], k.Clock)
	}
	for _, b := range t.Bands {
		m.when(b.Label != "", `
<text class="band-name" x="%s" y="%s" dx="3">%s</text>`, b.X, t.Middle, b.Label)
	}
	for i := range t.Lanes {
		t.Lanes[i].write(m, t)
	}
	if t.Now != nil {
		m.put(`
<line class="now" x1="%s" x2="%s" y1="%s" y2="%s"/>`, *t.Now, *t.Now, t.Top, t.Bottom)
	}
	m.put(`
</svg>
</div>`)
	t.writeLegend(m)
	m.put(`
</section>`)
}

func (l *lane) write(m *markup, t *timeline) {
	m.put(`
<g>`)
	m.when(l.About != "", `<title>%s</title>`, l.About)
	m.when(l.Name != "", `<text class="name" x="%s" dx="-20" y="%s">%s</text>`, t.Left, l.Middle, l.Name)
	m.when(l.Waits, `<line class="waits" x1="%s" x2="%s" y1="%s" y2="%s"/>`, t.Left, l.WaitsUntil, l.Line, l.Line)
	m.when(l.Canary, `<path class="mark" d="M%s %sl4 -5l4 5l-4 5z"/>`, l.MarkX, l.Line)
	if l.Width != 0 {
		m.put(`<rect class="lane %s" x="%s" y="%s" width="%s" height="%s"`, l.Class, l.X, l.Y, l.Width, l.Height)
		m.when(!t.Dense, ` rx="2"`)
		m.put(`/>`)
	}
	for _, d := range l.Downs {
		m.put(`<rect class="down" x="%s" y="%s" width="%s" height="%s"/>`, d.X, l.DownY, d.Width, l.DownHeight)
	}
	if l.Note != "" {
		m.put(`<text class="note`)
		m.when(l.Quiet, ` quiet`)
		m.put(`" x="%s" y="%s">%s</text>`, l.NoteX, l.Middle, l.Note)
	}
	m.put(`</g>`)
}

func (t *timeline) writeLegend(m *markup) {
	m.put(`
<ul class="key" aria-label="Legend">`)
	for _, l := range t.Legend {
		m.put(`
<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="lane %s" width="22" height="12" rx="2"/></svg>%s</li>`, l.Class, l.Text)
	}
	m.when(t.Downs, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="lane done" width="22" height="12" rx="2"/><rect class="down" x="7" y="3" width="9" height="6"/></svg>the service is down</li>`)
	m.when(t.Waits, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><line class="waits" x1="1" x2="21" y1="6" y2="6"/></svg>waiting</li>`)
	m.when(t.Canaries, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><path class="mark" d="M7 6l4 -5l4 5l-4 5z"/></svg>canary</li>`)
	m.when(len(t.Gaps) > 0, `
<li><svg viewBox="0 0 22 12" aria-hidden="true"><rect class="gap" x="0.5" y="0.5" width="21" height="11"/></svg>no member ran; not to scale</li>`)
	m.put(`
<li>above: time since the start; below: time of day in UTC</li>`)
	m.when(t.NoLane != 0, `
<li>%v without a lane: they were not started</li>`, t.NoLane)
	m.put(`
</ul>`)
}

func (p *page) writeMembers(m *markup) {
	m.put(`
<section aria-labelledby="members">
<h2 id="members">Members</h2>
<div class="scroll" tabindex="0">
<table>
<thead><tr><th scope="col">Member</th>`)
	m.when(p.HasTags, `<th scope="col">Labels</th>`)
	m.put(`<th scope="col">Verdict</th>`)
	m.when(p.HasPlace, `<th scope="col">Part</th>`)
	m.put(`<th scope="col" class="number">Started (UTC)</th><th scope="col" class="number">Took</th>`)
	m.when(p.HasDown, `<th scope="col" class="number">Service down</th>`)
	m.when(p.HasNotes, `<th scope="col" class="what">Reason or changes</th>`)
	m.put(`</tr></thead>
<tbody>`)
	for i := range p.Rows {
		r := &p.Rows[i]
		m.put(`
<tr><td class="member">%s</td>`, r.Name)
		m.when(p.HasTags, `<td class="tags">%s</td>`, r.Tags)
		m.put(`<td class="word"><span class="swatch %s" aria-hidden="true"></span>%s</td>`, r.Class, r.Word)
		m.when(p.HasPlace, `<td class="part">%s</td>`, r.Place)
		m.put(`<td class="number">%s</td><td class="number">%s</td>`, r.StartedAt, r.Took)
		m.when(p.HasDown, `<td class="number">%s</td>`, r.DownFor)
		m.when(p.HasNotes, `<td class="what">%s</td>`, r.Note)
		m.put(`</tr>`)
	}
	m.put(`
</tbody>
</table>
</div>
</section>`)
}
