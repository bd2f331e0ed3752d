package deployer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bootstrap/agent"
)

// AgentSilentError says that a VM exists and its agent does not answer, or does
// not answer as that VM's, so that its jobs cannot be stopped nor its disk
// unmounted.
type AgentSilentError struct {
	VM   string // CID
	Err  error  // what the last probe met
	Next string // what to do; MANIFEST stands for the deployment's arguments
}

func (e *AgentSilentError) Error() string {
	if _, answered := errors.AsType[*agent.Error](e.Err); answered {
		return fmt.Sprintf("VM %s exists and its agent answers with an error: %v", e.VM, e.Err)
	}
	if _, busy := errors.AsType[*agent.BusyError](e.Err); busy {
		return fmt.Sprintf("VM %s cannot be worked on: %v", e.VM, e.Err)
	}
	return fmt.Sprintf("VM %s exists but its agent does not answer: %v", e.VM, e.Err)
}

func (e *AgentSilentError) Unwrap() error { return e.Err }

// ForeignAgentError says that another VM's agent answers where that of the
// deployment's VM was expected.
type ForeignAgentError struct {
	Address   string // host:port
	Got, Want string // agent ids
}

func (e *ForeignAgentError) Error() string {
	return fmt.Sprintf("another VM's agent answers at %s (agent id %s, not %s)", e.Address, e.Got, e.Want)
}

// What to do about an agent that does not answer. The VM is rebooted first by
// all that name --fix but a delete.
const (
	nextFix     = `try "bootstrap deploy MANIFEST --fix": it reboots the VM first and replaces it only if that does not help; the disk is kept, the jobs are not drained`
	nextReplace = `try "bootstrap deploy MANIFEST --fix": rebooting the VM did not help, so it replaces the VM; the disk is kept, the jobs are not drained`
	nextBusy    = `run the same command again when the task has ended, or try "bootstrap deploy MANIFEST --fix": it reboots the VM, which ends the task, and replaces it only if that does not help; the disk is kept, the jobs are not drained`
	nextDelete  = `try "bootstrap delete MANIFEST --fix": it deletes the VM without stopping its jobs; or "bootstrap deploy MANIFEST --fix" first, which reboots the VM`
	nextAgain   = `when the cause is mended, run "bootstrap deploy MANIFEST": it replaces this VM, on which nothing was put yet`
	nextForeign = `find out which VM has that address, and correct cloud_provider.mbus or the network; "bootstrap delete MANIFEST --fix" deletes the VM that was made for this deployment, and leaves the other one alone`
)

// silent is the error of a command that needs the agent of a VM.
func (r *run) silent(vm string) error {
	err := &AgentSilentError{VM: vm, Err: r.facts.agentErr, Next: nextFix}
	switch {
	case r.deleting:
		err.Next = nextDelete
	case r.facts.isBusy():
		err.Next = nextBusy
	case r.revived:
		err.Next = nextReplace
	}
	return err
}

// neverAnswered is the error of a VM that was just made.
func (r *run) neverAnswered(vm string, found error) error {
	err := &AgentSilentError{VM: vm, Err: found, Next: nextAgain}
	if _, foreign := errors.AsType[*ForeignAgentError](found); foreign {
		err.Next = nextForeign
	}
	return err
}

// DiskGoneError says that the recorded persistent disk does not exist any more.
type DiskGoneError struct {
	CID     string
	Mounted bool // the agent says that the VM has it
}

func (e *DiskGoneError) Error() string {
	if e.Mounted {
		return fmt.Sprintf("disk %s is recorded, its VM has it mounted, and the CPI says that it does not exist: the CPI looks in the wrong place or the disk is about to be lost; nothing was changed; correct cloud_provider.properties, or go on with a new, empty disk: bootstrap disks forget MANIFEST --current", e.CID)
	}
	return fmt.Sprintf("disk %s is recorded and the CPI says that it does not exist: its data is lost or the CPI looks in the wrong place; nothing was changed; to go on with a new, empty disk: bootstrap disks forget MANIFEST --current", e.CID)
}

// ShrinkError says that a smaller disk is asked for.
type ShrinkError struct {
	CID      string
	From, To int // MiB
}

func (e *ShrinkError) Error() string {
	return fmt.Sprintf("disk %s would shrink from %d to %d MiB: its data may not fit; nothing was changed; --allow-shrink tries", e.CID, e.From, e.To)
}

// PlanMovedError says that a plan does not hold any more.
type PlanMovedError struct {
	What string // what is different
}

func (e *PlanMovedError) Error() string {
	return fmt.Sprintf("the plan does not hold any more: %s; nothing was changed: make a new plan", e.What)
}

// Question is what a person is asked before a run destroys something.
type Question struct {
	What []string // a line for each thing that is destroyed
	Data bool     // data is lost that nothing can bring back
}

// ask asks the question, if anybody is to be asked, and refuses to go on
// without a yes.
func (r *run) ask(ctx context.Context, q Question) error {
	if r.opts.Confirm == nil {
		return nil
	}
	yes, err := r.opts.Confirm(ctx, q)
	if err == nil && !yes {
		err = &NotConfirmedError{}
	}
	return err
}

// NotConfirmedError says that the person did not agree to what a run would
// destroy.
type NotConfirmedError struct {
	Interrupted bool // the question was interrupted, not answered
}

func (e *NotConfirmedError) Error() string { return "cancelled: nothing was changed" }

// UnaskedError says that a run would destroy data and that there is nobody to
// ask.
type UnaskedError struct {
	What []string // as in Question
}

func (e *UnaskedError) Error() string {
	return fmt.Sprintf("cannot ask for confirmation, because standard input is not a terminal: %s; nothing was changed; add --yes to do it without a question", strings.Join(e.What, "; "))
}
