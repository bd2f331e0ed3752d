package agent

import "time"

// Sleep detects that monit sleeps although it has started all processes.
//
// Monit does not check a process in the pass in which it started it. It reports such
// processes as starting until its next pass, 10 s later, unless another request made it
// pass again at once. A second start request ends the sleep: the agent restarts monit,
// which then checks the processes and starts none that runs.
//
// The second request must not come before all processes have started, because the
// restarted monit knows nothing of a start in progress. They have started when monit
// reports them as starting after it reported them as unknown, i.e. not monitored: it
// monitors a process again when it has started it. Processes of a new job are starting
// from the beginning, so that their state proves nothing; but monit checks those as
// soon as it is restarted.
type Sleep struct {
	began   time.Time       // when the agent answered the start
	unknown map[string]bool // processes that were unknown at some time after the start
	since   time.Time       // beginning of the sleep; zero: monit may be starting processes
	waking  bool            // the second start request was sent
}

// SleepSince returns a Sleep for the answers of the agent after it has answered a start
// at that time.
func SleepSince(started time.Time) *Sleep {
	return &Sleep{began: started, unknown: map[string]bool{}}
}

const (
	// sleepLeast is longer than monit needs to send an alert and begin another pass.
	sleepLeast = 100 * time.Millisecond
	// restartLeast separates restarts of monit by more than a second: the agent
	// recognizes a restart by its second.
	restartLeast = time.Second
)

// Begins reads an answer of the agent. It returns true for the first answer that shows
// that monit sleeps.
func (s *Sleep) Begins(now State, at time.Time) bool {
	starting, others := 0, 0
	for _, p := range now.Processes {
		switch {
		case p.State == "unknown":
			s.unknown[p.Name] = true
			others++
		case p.State == "starting" && s.unknown[p.Name]:
			starting++
		case p.State != "running":
			others++
		}
	}
	if starting == 0 || others > 0 {
		s.since = time.Time{}
		return false
	}
	first := s.since.IsZero()
	if first {
		s.since = at
	}
	return first
}

// Lasts returns true once: when monit should be woken by a second start.
func (s *Sleep) Lasts(at time.Time) bool {
	if s.waking || s.since.IsZero() || at.Sub(s.since) < sleepLeast || at.Sub(s.began) < restartLeast {
		return false
	}
	s.waking = true
	return true
}
