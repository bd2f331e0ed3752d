package ui

import (
	"cmp"
	"fmt"
	"strings"
	"sync"

	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
)

// FleetJSON returns a renderer of a run's events as JSON, one object per line.
func FleetJSON(out *Lines) func(rollout.Event) {
	return func(e rollout.Event) {
		e.Time = e.Time.UTC()
		out.Print("", e)
	}
}

// FleetPlain returns a renderer that writes a line for each start and each end of
// a member.
func FleetPlain(out *Writer) func(rollout.Event) {
	var mu sync.Mutex
	return func(e rollout.Event) {
		mu.Lock()
		defer mu.Unlock()
		fleetLine(out, e)
		_ = out.Flush() // finish reports the error
	}
}

// FleetErrand returns a renderer of an errand's run: lines of its output go to two streams
// of their own, each after the name of its member.
func FleetErrand(stdout, stderr *Writer, progress func(rollout.Event)) func(rollout.Event) {
	var mu sync.Mutex
	return func(e rollout.Event) {
		if e.Kind != rollout.Output {
			progress(e)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		to := stdout
		if e.Stream == "stderr" {
			to = stderr
		}
		name := e.Member
		if e.Instance != "" {
			name += " " + e.Instance
		}
		for line := range strings.Lines(e.Message) {
			fmt.Fprintf(to, "%s | %s\n", name, strings.TrimSuffix(line, "\n"))
		}
		_ = to.Flush() // finish reports the error
	}
}

// fleetLine writes the line of an event that stays on the screen.
func fleetLine(out *Writer, e rollout.Event) {
	switch {
	case e.Kind == rollout.Begun:
		fmt.Fprintf(out, "Fleet '%s', run %s, logs in '%s'\n%s\n", e.Record.Name, e.Run, e.Record.Logs, FleetNumbers(e.Record))
		if !e.Record.Deletes() && !e.Record.Prunes() {
			fleetRemoved(out, e.Record.Fleet, e.Record.Removed, e.Record.Numbers.Members)
		}
		fmt.Fprintln(out)
	case e.Kind == rollout.Phase:
		fmt.Fprintf(out, "-- %s\n", out.clean(e.Message, maxMessage))
	case e.Kind == rollout.Notice:
		fmt.Fprintln(out, out.sentences(out.clean(e.Message, maxMessage), 0))
	case e.Kind == rollout.Planning && e.Verdict == schedule.Failed:
		unplanned(out, e.Member, e.Reason, e.Hint)
	case e.Kind == rollout.OfMember && e.Status == "started":
		what := "started"
		if e.Canary {
			what = "started as a canary"
		}
		fmt.Fprintf(out, "%s: %s\n", e.Member, what)
	case e.Kind == rollout.OfMember && e.Status != "step":
		line := fmt.Sprintf("%s: %s after %s", e.Member, e.Verdict, duration(e.Seconds))
		if e.Down > 0 {
			line += fmt.Sprintf(", its service was down for %s", duration(e.Down))
		}
		if e.Reason != "" {
			line += ": " + out.clean(e.Reason, maxMessage)
		}
		fmt.Fprintln(out, out.sentences(line, 0))
		if e.Verdict == schedule.Failed {
			fmt.Fprintf(out, "  log: %s\n", e.Log)
			if e.Hint != "" {
				fmt.Fprintln(out, out.sentences("  what to do: "+out.clean(e.Hint, maxMessage), 0))
			}
		}
	case e.Kind == rollout.Over:
		fmt.Fprintf(out, "\nMembers: %s\n", cmp.Or(e.Record.Summary(), "none"))
	}
}
