package process

import (
	"os"
	"syscall"
	"time"
)

// Identity identifies one process permanently: process ids are used again, but
// not together with the same start.
type Identity struct {
	PID   int
	start int64 // in the platform's unit, since the platform's origin
}

// Identify finds a running process, but not one that has ended and was not waited for.
func Identify(pid int) (Identity, bool) {
	id, ended, ok := look(pid)
	if !ok || ended {
		return Identity{}, false
	}
	return id, true
}

// Alive reports whether the process still runs.
func (id Identity) Alive() bool {
	now, ok := Identify(id.PID)
	return ok && now == id
}

// Terminate asks the process to end, and never another one that has its id by now. On
// Windows it does nothing: a process can only be killed.
func (id Identity) Terminate() { id.signal(syscall.SIGTERM) }

// Kill ends the process, and never another one that has its id by now.
func (id Identity) Kill() { id.signal(os.Kill) }

func (id Identity) signal(signal os.Signal) {
	// Linux gives a handle of the process that has the id. If that is still the one, so
	// is the handle's.
	p, err := os.FindProcess(id.PID)
	if err != nil {
		return
	}
	defer func() { _ = p.Release() }()
	if id.Alive() {
		_ = p.Signal(signal)
	}
}

// Lives reports whether a process runs.
func Lives(pid int) bool {
	_, ok := Identify(pid)
	return ok
}

// Birth returns a text that distinguishes the process from every other one with
// that id, also after a restart of the machine; empty if the system does not
// report it. It may be stored in files.
func Birth(pid int) string {
	id, ok := Identify(pid)
	if !ok {
		return ""
	}
	return id.birth()
}

// BirthOfChild is Birth for a child of this process that was not waited for and may have
// ended. Windows reports nothing of one that has.
func BirthOfChild(pid int) string {
	id, _, ok := look(pid)
	if !ok {
		return ""
	}
	return id.birth()
}

// Usage contains the resources that one process uses.
type Usage struct {
	Parent   int
	MemoryKB int64
	CPU      time.Duration // since it started
}
