package plan

import (
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/state"
)

// Facts are what a run has found out about the VM and its disks.
type Facts struct {
	Answers  bool        // the agent of the recorded VM answered
	AgentErr error       // why not
	Now      agent.State // what it reported
	At       time.Time   // when it reported that
	Mounted  []string    // CIDs of the disks that the VM has mounted
	HasVM    bool        // the VM exists
	// OldAnswers is true if the agent of the replaced VM, which is not deleted yet,
	// answered.
	OldAnswers bool
	DiskGone   bool              // the CPI says that the current disk does not exist
	DiskAsked  bool              // the CPI was asked for the current disk
	Reached    agent.Access      // how the agent was reached
	Served     *x509.Certificate // certificate of the agent; nil: unknown
}

// Busy reports whether the agent does not answer because it is busy with a
// task.
func (f Facts) Busy() bool {
	_, busy := errors.AsType[*agent.BusyError](f.AgentErr)
	return busy && !f.Answers
}

// WhyLost returns why the VM's agent cannot be used.
func (f Facts) WhyLost() Reason {
	if f.Busy() {
		return Reason{Cause: AgentBusy}
	}
	return Reason{Cause: AgentSilent}
}

// Runs reports whether all jobs run. An agent that lacks processes also reports its jobs
// as running. processes are the expected ones, if they are known.
func Runs(now agent.State, processes []string) bool {
	return now.JobState == "running" && len(NotRunning(now, processes)) == 0 && !Bare(now, processes)
}

// Bare reports whether the agent supervises no process at all, although processes are
// expected.
func Bare(now agent.State, processes []string) bool {
	return len(now.Processes) == 0 && len(processes) > 0
}

// Missing lists the expected processes that the agent does not report.
func Missing(now agent.State, processes []string) []string {
	var list []string
	for _, name := range processes {
		if !slices.ContainsFunc(now.Processes, func(p agent.Process) bool { return p.Name == name }) {
			list = append(list, name)
		}
	}
	return list
}

// Rests reports whether jobs that bootstrap stop has stopped have no process any more. On a
// new VM, on which they were never started, the agent has none and calls the jobs running.
func Rests(now agent.State) bool {
	left := slices.ContainsFunc(now.Processes, func(p agent.Process) bool { return p.State != "unknown" })
	return !left && (now.JobState == "stopped" || len(now.Processes) == 0)
}

// unproven lists the processes that run, but ended when the same jobs were last started, and
// have not run for as long as the state demands.
func (f Facts) unproven(st state.State) []Reason {
	var list []Reason
	needs := Unproven(st, f.Now)
	for _, p := range f.Now.Processes {
		if need := needs[p.Name]; p.Uptime.Secs < need {
			list = append(list, Reason{Cause: NotProven, Subject: p.Name, To: (time.Duration(need) * time.Second).String()})
		}
	}
	return list
}

// Unproven returns for how many seconds processes must run until they count as running; nil: no
// process of these jobs is known to have ended.
func Unproven(st state.State, now agent.State) map[string]int {
	if of := st.Own.Unproven; of != nil && of.Spec == Digest(st.Own.Salt, PartSpec, now.ConfigurationHash) {
		return of.Seconds
	}
	return nil
}

// WhyDown returns why an instance does not run; empty: it runs.
func WhyDown(st state.State, f Facts) string {
	switch {
	case st.Detached():
		return "its VM was deleted with `bootstrap stop --hard`"
	case st.Own.Stopped:
		return "it was stopped with `bootstrap stop`"
	case st.CurrentVMCID == "":
		return "it has no VM"
	case !f.HasVM:
		return "its VM does not exist any more"
	case !f.Answers:
		return f.WhyLost().String()
	case f.Now.Deployment == "":
		return Reason{Cause: NothingApplied}.String()
	case !Runs(f.Now, st.Own.Processes):
		return Words(f.unwell(st.Own.Processes))
	}
	return Words(f.unproven(st))
}

func (f Facts) unwell(processes []string) []Reason {
	if Bare(f.Now, processes) {
		return []Reason{{Cause: NoProcesses, Names: processes}}
	}
	if list := NotRunning(f.Now, processes); len(list) > 0 {
		return list
	}
	return []Reason{{Cause: JobsState, To: f.Now.JobState}}
}

// NotRunning lists the processes that do not run, with their states, and the expected ones
// that the agent does not report although it reports others; see Bare.
func NotRunning(now agent.State, processes []string) []Reason {
	var list []Reason
	for _, p := range now.Processes {
		if p.State != "running" {
			list = append(list, Reason{Cause: ProcessState, Subject: p.Name, To: p.State})
		}
	}
	if !Bare(now, processes) {
		for _, name := range Missing(now, processes) {
			list = append(list, Reason{Cause: ProcessState, Subject: name, To: Unreported})
		}
	}
	return list
}

// Unreported is the state of a process that the agent should report.
const Unreported = "not reported by the agent"

// Lost reports whether the agent has not applied the jobs of the last successful deploy,
// as far as these are recorded; bare: it has applied none.
func Lost(st state.State, now agent.State) (lost, bare bool) {
	if st.CurrentManifestSHA == "" {
		return false, false
	}
	bare = now.Deployment == ""
	if spec := st.Own.Applied[PartSpec]; spec != "" && spec != Digest(st.Own.Salt, PartSpec, now.ConfigurationHash) {
		return true, bare || now.ConfigurationHash == ""
	}
	return bare, bare
}
