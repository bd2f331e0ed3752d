package ui

import (
	"fmt"
	"sync"

	"bootstrap/deployer/report"
	"bootstrap/fleet/queue"
)

// WorkerJSON returns a renderer of a worker's events as JSON, one object per line.
func WorkerJSON(out *Lines) func(queue.Event) {
	return func(e queue.Event) {
		e.Time = e.Time.UTC()
		if e.Status == queue.Ended {
			e.Status = e.Verdict.String()
		}
		out.Print("", e)
	}
}

// WorkerPlain returns a renderer of a worker's events as lines of text.
func WorkerPlain(out *Writer) func(queue.Event) {
	var mu sync.Mutex
	return func(e queue.Event) {
		mu.Lock()
		defer mu.Unlock()
		workerLine(out, e)
		_ = out.Flush() // finish reports the error
	}
}

func workerLine(out *Writer, e queue.Event) {
	at := report.Minute(e.Time)
	reason := ""
	if e.Reason != "" {
		reason = ": " + out.clean(e.Reason, maxMessage)
	}
	switch e.Status {
	case queue.Ready, queue.Noticed:
		fmt.Fprintf(out, "%s %s\n", at, out.clean(e.Message, maxMessage))
	case queue.Started:
		fmt.Fprintf(out, "%s %s of %s: started, log: %s\n", at, e.Member, e.Fleet, e.Log)
	case queue.Lost:
		fmt.Fprintf(out, "%s %s of %s: lost after %s%s\n", at, e.Member, e.Fleet, duration(e.Seconds), reason)
	case queue.Ended:
		fmt.Fprintf(out, "%s %s of %s: %s after %s%s\n", at, e.Member, e.Fleet, e.Verdict, duration(e.Seconds), reason)
	}
}
