package process

import (
	"os"
	"syscall"
	"time"
)

// Identity identifies one process permanently: the system uses process ids again, but not
// together with the same start time.
type Identity struct {
	PID   int
	start int64 // start time, in the unit and from the origin of the platform
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

// Terminate asks the process to end. If another process has its id now, that one gets no
// signal. On Windows it does nothing: a process can only be killed.
func (id Identity) Terminate() { id.signal(syscall.SIGTERM) }

// Kill kills the process. If another process has its id now, that one gets no signal.
func (id Identity) Kill() { id.signal(os.Kill) }

func (id Identity) signal(signal os.Signal) {
	// Linux returns a handle of the process that now has the id. If the identity is still
	// right after that, the handle is that of the wanted process.
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

// Birth returns a text that distinguishes the process from every other one with that id,
// even after a restart of the machine; empty if the system does not report it. It may be
// stored in files.
func Birth(pid int) string {
	id, ok := Identify(pid)
	if !ok {
		return ""
	}
	return id.birth()
}

// BirthOfChild is like Birth, for a child of this process that was not waited for and may
// have ended. Windows reports nothing about a process that has ended.
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
	CPU      time.Duration // CPU time since it started
}
