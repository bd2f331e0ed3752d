package deployer

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/state"
)

// facts is what looking at the world told.
type facts struct {
	agentTold bool   // the agent answered
	agentErr  error  // why not
	jobState  string // running, starting, failing, stopped, unknown
	failing   []string
	hasVM     bool // the CPI knows the VM; set by lookAtVM
}

// wanted is what the manifest and its artifacts ask for, as far as a plan
// compares it.
type wanted struct {
	digest   string
	stemcell string          // name/version
	releases []state.Release // without ids
	recreate bool
	fix      bool
}

// plan says what a deploy will do with the VM, and why.
type plan struct {
	action action
	why    []string // at least one
}

// action is what a deploy does with the VM.
type action string

const (
	create  action = "create"  // there is no VM
	replace action = "replace" // the VM makes way for a new one
	start   action = "start"   // the VM is as wanted, its jobs do not run
	tidy    action = "tidy"    // all is as wanted, but an earlier run left something
)

// newVM tells whether the plan ends with another VM than there was.
func (p plan) newVM() bool { return p.action == create || p.action == replace }

// startsJobs tells whether jobs are started.
func (p plan) startsJobs() bool { return p.action != tidy }

// changes compares what is wanted with what is recorded; none means that the
// last deploy succeeded with the same inputs. Equality is create-env's: the
// evaluated manifest's digest, the stemcell's and the releases' names and
// versions.
func changes(w wanted, st state.State) []string {
	var why []string
	switch {
	case st.CurrentManifestSHA == "":
		why = append(why, "no deploy is recorded as finished")
	case st.CurrentManifestSHA != w.digest:
		why = append(why, "the manifest changed")
	}
	if sc := st.Stemcell(); sc != nil && sc.Name+"/"+sc.Version != w.stemcell {
		why = append(why, fmt.Sprintf("stemcell %s/%s -> %s", sc.Name, sc.Version, w.stemcell))
	} else if sc == nil && st.CurrentManifestSHA != "" {
		why = append(why, "the record of the current stemcell is missing")
	}
	if st.CurrentManifestSHA != "" {
		why = append(why, releaseChanges(w.releases, st.Releases)...)
	}
	if w.recreate {
		why = append(why, "asked to with --recreate")
	}
	return why
}

func releaseChanges(want, have []state.Release) []string {
	var why []string
	for _, n := range want {
		i := slices.IndexFunc(have, func(h state.Release) bool { return h.Name == n.Name })
		switch {
		case i < 0:
			why = append(why, fmt.Sprintf("release %s/%s is new", n.Name, n.Version))
		case have[i].Version != n.Version:
			why = append(why, fmt.Sprintf("release %s/%s -> %s", n.Name, have[i].Version, n.Version))
		}
	}
	for _, h := range have {
		if !slices.ContainsFunc(want, func(n state.Release) bool { return n.Name == h.Name }) {
			why = append(why, fmt.Sprintf("release %s is gone", h.Name))
		}
	}
	return why
}

// decide makes the plan from what is wanted, recorded and found. The error
// is an *AgentSilentError for a VM that exists and does not answer.
func decide(w wanted, st state.State, f facts) (plan, error) {
	why := changes(w, st)
	switch {
	case st.CurrentVMCID == "":
		if len(why) == 0 {
			why = []string{"there is no VM"}
		}
		return plan{action: create, why: why}, nil
	case !f.hasVM:
		return plan{action: create, why: append(why, fmt.Sprintf("VM %s is gone", st.CurrentVMCID))}, nil
	case !f.agentTold && st.Own.AgentID != "" && !st.Own.Reached:
		// A run was cut before anything was put on it: there is nothing to stop.
		return plan{action: replace, why: append(why, fmt.Sprintf("the agent on VM %s never answered", st.CurrentVMCID))}, nil
	case !f.agentTold && !w.fix:
		return plan{}, &AgentSilentError{VM: st.CurrentVMCID, Err: f.agentErr}
	case !f.agentTold:
		return plan{action: replace, why: append(why, fmt.Sprintf("the agent on VM %s does not answer", st.CurrentVMCID))}, nil
	case len(why) == 0 && f.well():
		return plan{action: tidy, why: unfinished(st)}, nil
	case len(why) == 0:
		return plan{action: start, why: []string{unwell(f)}}, nil
	}
	return plan{action: replace, why: why}, nil
}

// unfinished tells what a run that was cut left to be done although the VM is
// as wanted.
func unfinished(st state.State) []string {
	var why []string
	for _, in := range st.Own.Intents {
		why = append(why, fmt.Sprintf("a %s of an earlier run has no known end", in.Method))
	}
	for _, d := range st.Disks {
		if d.ID != st.CurrentDiskID {
			why = append(why, fmt.Sprintf("disk %s is unused", d.CID))
		}
	}
	for _, sc := range st.Stemcells {
		if sc.ID != st.CurrentStemcellID {
			why = append(why, fmt.Sprintf("stemcell %s is unused", sc.CID))
		}
	}
	return why
}

// well tells whether a VM that is wanted as it is needs nothing.
func (f facts) well() bool { return f.agentTold && f.jobState == "running" }

func unwell(f facts) string {
	if len(f.failing) > 0 {
		return fmt.Sprintf("its jobs are %s: %s", f.jobState, strings.Join(f.failing, ", "))
	}
	return "its jobs are " + f.jobState
}

// AgentSilentError says that a VM exists and its agent does not answer, so
// that its jobs cannot be stopped nor its disk unmounted.
type AgentSilentError struct {
	VM  string // CID
	Err error  // what the last probe met
}

func (e *AgentSilentError) Error() string {
	return fmt.Sprintf("VM %s exists but its agent does not answer: %v", e.VM, e.Err)
}

func (e *AgentSilentError) Unwrap() error { return e.Err }
