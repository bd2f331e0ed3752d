package deployer

import (
	"fmt"
	"strings"

	"bootstrap/internal/failure"
)

// What to do if the agent does not answer. With --fix every command except delete reboots
// the VM first.
const (
	nextFix     = `try "bootstrap deploy MANIFEST --fix": it reboots the VM first and replaces it only if that does not help; the disk is kept, the jobs are not drained`
	nextReplace = `try "bootstrap deploy MANIFEST --fix": rebooting the VM did not help, so it replaces the VM; the disk is kept, the jobs are not drained`
	nextBusy    = `run the same command again after the task has ended, or try "bootstrap deploy MANIFEST --fix": it reboots the VM, which ends the task, and replaces it only if that does not help; the disk is kept, the jobs are not drained`
	nextDelete  = `try "bootstrap delete MANIFEST --fix": it deletes the VM without stopping its jobs; or "bootstrap deploy MANIFEST --fix" first, which reboots the VM`
	nextAgain   = `when the cause is fixed, run "bootstrap deploy MANIFEST": it replaces this VM, which has no jobs yet`
	nextForeign = `find out which VM has that address, and correct cloud_provider.mbus or the network; "bootstrap delete MANIFEST --fix" deletes the VM that was made for this deployment, not the other one`
)

// Question is a question to the user before a run destroys something.
type Question struct {
	What []string // one line for each object that is destroyed
	Data bool     // true: data is lost
	Down bool     // true: nothing is destroyed, but packages are compiled while the service is down
}

// NotConfirmedError says that the person did not confirm the run.
type NotConfirmedError struct {
	Interrupted bool // the question was interrupted
}

func (e *NotConfirmedError) Error() string { return "cancelled: nothing was changed" }

func (e *NotConfirmedError) ExitCode() failure.Code {
	if e.Interrupted {
		return failure.Interrupted
	}
	return failure.Failed
}

// UnaskedError says that a run would destroy data, and there is no terminal for a
// question.
type UnaskedError struct {
	What []string // like Question.What
}

func (e *UnaskedError) Error() string {
	return fmt.Sprintf("cannot ask for confirmation, because standard input is not a terminal: %s; nothing was changed; add --yes to do it without a question", strings.Join(e.What, "; "))
}

func (e *UnaskedError) Name() string { return "needs-yes" }

func (e *UnaskedError) ExitCode() failure.Code { return failure.Usage }
