// Package exit has the one table of errors, exit codes and hints.
package exit

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"bootstrap/addresses"
	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/cmd/values"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/health"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/fleet/queue"
	"bootstrap/fleet/rollout"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// The exit codes, which scripts may rely on; docs/troubleshooting.md explains them.
const (
	Done        = 0
	Failed      = 1
	Changes     = 2
	Usage       = 64
	Manifest    = 65
	NoState     = 66
	Agent       = 69
	CPI         = 70
	Moved       = 73
	PutBack     = 74
	Locked      = 75
	Unsent      = 76
	NotBelieved = 77
	Interrupted = 130
)

// Code is the error of a child process that has printed its own message.
type Code int

func (e Code) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// nextSilent is the hint for an agent that stopped answering in the middle of a
// run.
const nextSilent = `run the same command again to continue; if the agent stays silent, "bootstrap deploy MANIFEST --fix" reboots the VM first and replaces it only if that does not help`

// nextRefused is the hint for an agent that answers, and refuses the password.
const nextRefused = "the agent runs, and does not accept this password: use the vars store of the last deploy, or let the person who changed the password give it to you; with the old password, --old-mbus https://USER:PASSWORD@HOST:PORT of a deploy gives the agent the new one"

// Judge returns the exit code of an error and, if it can add anything to the
// error's text, a hint. No other function chooses exit codes.
func Judge(err error) (code int, hint string) {
	var (
		plain       Code
		usage       *UsageError
		changes     *ChangesError
		problems    *document.Problems
		missing     *file.MissingError
		unreadable  *document.FileError
		folder      *file.FolderError
		locked      *file.LockedError
		held        *team.HeldError
		lost        *team.LostError
		unsent      *file.UnsentError
		conflict    *team.ConflictError
		unproven    *team.ProofError
		elsewhere   *state.MovedError
		busy        *artifact.BusyError
		silent      *plan.AgentSilentError
		second      *deployer.SecondDiskError
		noSecond    *plan.NoSecondDiskError
		unreachable *agent.UnreachableError
		late        *agent.TaskTimeoutError
		vanished    *agent.TaskLostError
		refused     *cpi.Error
		unsettled   *journal.UnsettledError
		interrupted *report.InterruptedError
		stopped     *StoppedError
		moved       *plan.MovedError
		format      *deployer.PlanFormatError
		failing     *deployer.NotRunningError
		putBack     *deployer.PutBackError
		unhealthy   *health.UnhealthyError
		unrecorded  *instance.UnrecordedVMError
		refusal     *deployer.NotConfirmedError
		unasked     *deployer.UnaskedError
		address     *network.Refused
		ledger      *addresses.Error
		ended       *rollout.EndedError
		idle        *rollout.NotRunningError
		unplanned   *rollout.InterruptedError
		taken       *queue.TakenOverError
	)
	switch {
	case err == nil:
		return Done, ""
	case errors.As(err, &plain):
		return int(plain), ""
	case errors.As(err, &changes):
		return Changes, ""
	case errors.As(err, &folder):
		return Manifest, ""
	case errors.As(err, &usage):
		return Usage, "see " + usage.Command + " --help"
	case errors.As(err, &interrupted), errors.As(err, &stopped), errors.As(err, &refusal) && refusal.Interrupted:
		return Interrupted, ""
	case errors.As(err, &unasked):
		return Usage, ""
	case errors.As(err, &problems):
		return Manifest, ""
	case errors.As(err, &missing):
		return NoState, "nothing is deployed there; give --state if the state file is elsewhere"
	case errors.As(err, &unreadable) && errors.Is(err, fs.ErrNotExist):
		return NoState, ""
	case errors.As(err, &unreadable):
		return Manifest, ""
	case errors.As(err, &unrecorded):
		return NoState, ""
	case errors.As(err, &moved):
		return Moved, `"bootstrap plan MANIFEST --out FILE" makes a new plan; "bootstrap deploy MANIFEST" deploys without one`
	case errors.As(err, &format):
		return Moved, ""
	case errors.As(err, &putBack):
		return PutBack, "correct the cause and deploy again"
	case errors.As(err, &failing) && failing.Previous, errors.As(err, &unhealthy) && unhealthy.Previous:
		return Failed, `"bootstrap logs MANIFEST" fetches all of their logs; correct the cause and deploy again, or "bootstrap deploy MANIFEST --previous" puts back what the last deploy that worked had applied`
	case errors.As(err, &failing), errors.As(err, &unhealthy):
		return Failed, `"bootstrap logs MANIFEST" fetches all of their logs; correct the cause and deploy again`
	case errors.As(err, &ended):
		return fleetCode(ended), ended.Next()
	case errors.As(err, &idle):
		return Failed, idle.Next()
	case errors.As(err, &taken):
		return Locked, `"bootstrap fleet status FLEET" shows what the other process does`
	case errors.As(err, &unplanned):
		return Interrupted, ""
	case errors.As(err, &locked) && locked.What == file.Fleet:
		return Locked, "\"bootstrap fleet status FLEET\" shows what it does; run the same command again when it has ended"
	case errors.As(err, &locked):
		return Locked, "run the same command again when the other run has ended, or with --lock-wait 10m to wait for it; the lock ends with its process"
	case errors.As(err, &held):
		return Locked, "run the same command again when the other run has ended, or with --lock-wait 10m to wait for it; \"bootstrap state unlock MANIFEST\" takes the lock from a run that cannot end"
	case errors.As(err, &lost):
		return Unsent, "look at what the other run does, then run the same command again"
	case errors.As(err, &unsent):
		return Unsent, "run the same command again on this machine: it brings the state there first; \"bootstrap state push MANIFEST\" does only that"
	case errors.As(err, &conflict):
		return Unsent, "\"bootstrap state push MANIFEST --force\" replaces what the store has, \"bootstrap state pull MANIFEST\" gives up what only this machine has"
	case errors.As(err, &unproven):
		return NotBelieved, nextProof(unproven)
	case errors.As(err, &elsewhere):
		return NoState, ""
	case errors.As(err, &busy):
		return Locked, "run the same command again when the other run has ended; --dry-run works at any time"
	case errors.As(err, &address):
		return Failed, nextAddress(address)
	case errors.As(err, &ledger) && ledger.Kind == addresses.Busy:
		return Locked, ""
	case errors.As(err, &ledger):
		return Failed, "" // the error says what to do
	case errors.As(err, &second):
		return Agent, second.Next()
	case errors.As(err, &noSecond):
		return Failed, deployer.NextKeepDisk
	case errors.As(err, &unreachable) && unreachable.Last.Cause == agent.Unauthorized:
		return Agent, nextRefused
	case errors.As(err, &silent) && isFull(err):
		return Agent, "the disk is full: free space where the message says, and run the same command again"
	case errors.As(err, &silent):
		return Agent, silent.Next
	case errors.As(err, &late):
		return Failed, `run the same command again, with a longer --task-timeout if the task needs it; if it hangs, "bootstrap deploy MANIFEST --fix" reboots the VM`
	case errors.As(err, &unreachable):
		return Agent, nextSilent
	case errors.As(err, &vanished):
		return Failed, nextSilent
	case errors.As(err, &unsettled):
		return Failed, fmt.Sprintf("the result of %s is unknown; run the same command again: it looks for the result, lists it as a leftover if it cannot find it (bootstrap state leftovers MANIFEST), and continues", unsettled.Method)
	case errors.As(err, &refused):
		return CPI, ""
	}
	return Failed, ""
}

// nextProof returns what to do about a document of a store that is not believed.
func nextProof(e *team.ProofError) string {
	trust := "\"bootstrap state trust --state " + values.Quote(e.Argument) + "\""
	switch e.Why {
	case team.UnknownKey:
		return ""
	case team.Unproven:
		return "look at what is there before you believe it: " + trust + " shows it, and asks"
	case team.OtherKey, team.NotGiven:
		return "ask the team whether it has made a new state key (\"bootstrap secrets rekey --remove\" does), and compare \"bootstrap state key\": then " + trust + " makes this machine trust it"
	}
	return "find out who has written to the store; \"bootstrap state push MANIFEST --force\" puts back the state that this machine has, " + trust + " shows what is there, and asks whether to believe it"
}

// nextAddress returns the command that shows why an address was refused.
func nextAddress(refused *network.Refused) string {
	switch {
	case refused.Kind == network.AlreadyInUse && len(refused.Holders) == 1 && !refused.Leaves && !refused.Orphan:
		holder := refused.Holders[0]
		release := "bootstrap addresses release " + holder.Block.Addr().String()
		if refused.Ledger != "" {
			release += " --database " + values.QuoteDatabase(refused.Ledger)
		}
		return fmt.Sprintf("if %s does not exist any more, \"%s\" releases its address; then run the same command again", holder.Owner, release)
	case refused.Kind == network.AlreadyInUse, refused.Kind == network.NotEnoughCapacity:
		return `"bootstrap addresses check MANIFEST" shows how many are free and needed; then run the same command again`
	}
	return "correct the manifest or the cloud config, and run the same command again"
}

// fleetCode returns the exit code of a run of a fleet that did not end well.
func fleetCode(e *rollout.EndedError) int {
	switch e.Record.Result {
	case rollout.Busy:
		return Locked
	case rollout.Interrupted, rollout.Aborted:
		return Interrupted
	}
	return Failed
}

// isFull reports whether a full disk is the cause, on this machine or according
// to the agent.
func isFull(err error) bool { return strings.Contains(err.Error(), "no space left on device") }

// UsageError says that a command line is wrong.
type UsageError struct {
	Err     error
	Command string // the command whose help explains more: "bootstrap state rm"
}

func (e *UsageError) Error() string { return e.Err.Error() }

func (e *UsageError) Unwrap() error { return e.Err }

// ChangesError says that a plan contains changes; it is not a failure.
type ChangesError struct{}

func (e *ChangesError) Error() string { return "there are changes" }

// StoppedError says that a second signal stopped the run at once, in the middle
// of its work.
type StoppedError struct {
	Calls []cpi.Call // CPI calls that go on
}

func (e *StoppedError) Error() string {
	text := "stopped at once"
	for _, call := range e.Calls {
		text += fmt.Sprintf("; the CPI continues with %s (process %d)", call.Method, call.PID)
	}
	return text + "; run the same command again: it finds out what was done, and continues"
}

func (e *StoppedError) Name() string { return "stopped-at-once" }
