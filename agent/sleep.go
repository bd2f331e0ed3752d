package agent

import "time"

// Sleep notices that monit sleeps although it has started all processes. It
// reports them as starting until its next cycle, 10 s later: it does not check
// what it started in the same pass, and passes again at once only if another
// request came meanwhile.
//
// A second start ends the sleep: the agent restarts monit, which then checks
// the processes and starts none that runs. It must not come before all have
// started, because the restarted monit knows nothing of a start that goes on.
// That they have started shows when monit reports them as starting after it
// reported them as unknown, which is not monitored: it monitors again what has
// started. Processes of a new job are starting from the beginning and say
// nothing; but monit checks those as soon as it is restarted.
type Sleep struct {
	began   time.Time       // when the agent had answered the start
	unknown map[string]bool // the processes that were unknown since
	since   time.Time       // of the sleep; zero: monit may be starting processes
	waking  bool            // the second start was sent
}

// SleepSince returns a Sleep for what the agent answers after a start, which it
// had answered at that time.
func SleepSince(started time.Time) *Sleep {
	return &Sleep{began: started, unknown: map[string]bool{}}
}

const (
	// sleepLeast is longer than monit needs to send an alert and pass again.
	sleepLeast = 100 * time.Millisecond
	// restartLeast keeps restarts of monit in different seconds: the agent
	// recognizes a restart by the second it happened in.
	restartLeast = time.Second
)

// Begins takes an answer of the agent. It is true with the first one that shows
// the sleep.
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

// Lasts is true once, when monit should be woken.
func (s *Sleep) Lasts(at time.Time) bool {
	if s.waking || s.since.IsZero() || at.Sub(s.since) < sleepLeast || at.Sub(s.began) < restartLeast {
		return false
	}
	s.waking = true
	return true
}
