package deployer

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"bootstrap/deployer/plan"
)

// ForeignAgentError says that another VM's agent answers where that of the
// deployment's VM was expected.
type ForeignAgentError struct {
	Address   string // host:port
	Got, Want string // agent ids
}

func (e *ForeignAgentError) Error() string {
	return fmt.Sprintf("another VM's agent answers at %s (agent id %s, not %s)", e.Address, e.Got, e.Want)
}

// What to do about an agent that does not answer. With --fix every command
// except delete reboots the VM first.
const (
	nextFix     = `try "bootstrap deploy MANIFEST --fix": it reboots the VM first and replaces it only if that does not help; the disk is kept, the jobs are not drained`
	nextReplace = `try "bootstrap deploy MANIFEST --fix": rebooting the VM did not help, so it replaces the VM; the disk is kept, the jobs are not drained`
	nextBusy    = `run the same command again after the task has ended, or try "bootstrap deploy MANIFEST --fix": it reboots the VM, which ends the task, and replaces it only if that does not help; the disk is kept, the jobs are not drained`
	nextDelete  = `try "bootstrap delete MANIFEST --fix": it deletes the VM without stopping its jobs; or "bootstrap deploy MANIFEST --fix" first, which reboots the VM`
	nextAgain   = `when the cause is fixed, run "bootstrap deploy MANIFEST": it replaces this VM, which has no jobs yet`
	nextForeign = `find out which VM has that address, and correct cloud_provider.mbus or the network; "bootstrap delete MANIFEST --fix" deletes the VM that was made for this deployment, not the other one`
)

// silent returns the error of a command that needs the silent agent of a VM.
func (r *run) silent(vm string) error {
	err := &plan.AgentSilentError{VM: vm, Err: r.facts.AgentErr, Next: nextFix}
	switch {
	case r.facts.Busy():
		err.Next = nextBusy
	case r.revived:
		err.Next = nextReplace
	}
	return err
}

// neverAnswered returns the error of a new VM whose agent does not answer.
func (r *run) neverAnswered(vm string, found error) error {
	err := &plan.AgentSilentError{VM: vm, Err: found, Next: nextAgain}
	if _, foreign := errors.AsType[*ForeignAgentError](found); foreign {
		err.Next = nextForeign
	}
	return err
}

// Question is what a person is asked before a run destroys something.
type Question struct {
	What []string // a line for each thing that is destroyed
	Data bool     // data is lost for ever
}

// question asks the person, if confirmation is wanted; the error is a
// *NotConfirmedError without a yes.
func (r *run) question(ctx context.Context, q Question) error {
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

// UnaskedError says that a run would destroy data and nobody can be asked.
type UnaskedError struct {
	What []string // as in Question
}

func (e *UnaskedError) Error() string {
	return fmt.Sprintf("cannot ask for confirmation, because standard input is not a terminal: %s; nothing was changed; add --yes to do it without a question", strings.Join(e.What, "; "))
}
