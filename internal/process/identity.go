package process

import "time"

// Identity names one process for good: numbers are used again, a number and a
// start together are not.
type Identity struct {
	PID   int
	start int64 // in the platform's unit, since its origin
}

// Alive reports whether the process still runs.
func (id Identity) Alive() bool {
	now, ok := Identify(id.PID)
	return ok && now == id
}

// Lives reports whether a process runs.
func Lives(pid int) bool {
	_, ok := Identify(pid)
	return ok
}

// Birth returns a text that tells the process from every other one of that number,
// also after the machine has started again; empty where the system cannot tell. It
// may be kept in files.
func Birth(pid int) string {
	id, ok := Identify(pid)
	if !ok {
		return ""
	}
	return id.birth()
}

// Usage is what one process uses.
type Usage struct {
	Parent   int
	MemoryKB int64
	CPU      time.Duration // since it began
}
