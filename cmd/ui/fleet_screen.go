package ui

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mattn/go-runewidth"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/guard"
	"bootstrap/internal/keyorder"
)

// FleetTerminal returns a function like FleetPlain. Below the lines that stay, it draws
// one line for each running member, with its step and since when, and one with the
// numbers. width() is the width of the terminal, height() its height. The caller must
// call hide before a question, and stop at the end; hide removes the redrawn lines until
// the next event.
func FleetTerminal(ctx context.Context, out *Writer, width, height func() int) (show func(rollout.Event), hide, stop func()) {
	t := &fleetScreen{out: out, width: width, height: height, running: map[string]*member{}}
	ticker := time.NewTicker(time.Second)
	done := make(chan struct{})
	guard.Go(ctx, func() {
		for {
			select {
			case <-ticker.C:
				t.mu.Lock()
				t.redraw(nil)
				t.mu.Unlock()
			case <-done:
				return
			}
		}
	})
	hide = func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.clear()
		t.running, t.counts, t.planned = map[string]*member{}, nil, 0
		_ = out.Flush() // finish reports the error
	}
	return t.show, hide, func() {
		ticker.Stop()
		close(done)
		hide()
	}
}

type fleetScreen struct {
	mu      sync.Mutex
	out     *Writer
	width   func() int
	height  func() int
	running map[string]*member
	planned int
	record  *rollout.Record
	counts  map[string]int
	lines   int // number of redrawn lines
}

type member struct {
	step  string
	since time.Time
}

func (t *fleetScreen) show(e rollout.Event) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.record = e.Record
	switch {
	case e.Kind == rollout.Planning:
		t.planned++
	case e.Kind == rollout.OfMember && e.Status == "started":
		t.running[e.Member] = &member{"starting", e.Time}
	case e.Kind == rollout.OfMember && e.Status == "step":
		t.running[e.Member] = &member{e.Step, e.Time}
	case e.Kind == rollout.OfMember, e.Kind == rollout.Notice && e.Member != "":
		delete(t.running, e.Member)
	}
	if e.Counts != nil {
		t.counts = e.Counts
	}
	if e.Kind == rollout.Over {
		t.running, t.counts, t.planned = nil, nil, 0
	}
	t.redraw(&e)
}

// redraw writes the lines of an event above the redrawn lines.
func (t *fleetScreen) redraw(e *rollout.Event) {
	t.clear()
	if e != nil {
		fleetLine(t.out, *e)
	}
	now := time.Now()
	var lines []string
	for _, name := range slices.SortedFunc(maps.Keys(t.running), keyorder.Names) {
		m := t.running[name]
		lines = append(lines, fmt.Sprintf("  %s  %s  %s", name, m.step, duration(now.Sub(m.since).Seconds())))
	}
	if room := max(t.height()-4, 1); len(lines) > room {
		more := len(lines) - room + 1
		lines = append(lines[:room-1], fmt.Sprintf("  … and %d more", more))
	}
	switch {
	case len(t.counts) > 0:
		lines = append(lines, "  "+t.numbers())
	case t.planned > 0 && t.record != nil:
		lines = append(lines, fmt.Sprintf("  planned %d of %d members", t.planned, len(t.record.Members)))
	}
	for _, line := range lines {
		fmt.Fprintln(t.out, runewidth.Truncate(t.out.clean(line, maxCell), max(t.width()-1, 10), "…"))
	}
	t.lines = len(lines)
	_ = t.out.Flush() // finish reports the error
}

func (t *fleetScreen) numbers() string {
	var words []string
	for _, v := range schedule.Verdicts() {
		if n := t.counts[v.String()]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, v))
		}
	}
	return strings.Join(words, ", ")
}

func (t *fleetScreen) clear() {
	if t.lines > 0 {
		t.out.control(fmt.Sprintf("\x1b[%dA\x1b[J", t.lines))
		t.lines = 0
	}
}
