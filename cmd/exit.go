package cmd

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"bootstrap/addresses"
	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/cmd/ui"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/health"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployer/target"
	"bootstrap/fleet/queue"
	"bootstrap/fleet/rollout"
	"bootstrap/internal/guard"
	"bootstrap/manifest/document"
	"bootstrap/network"
	"bootstrap/state/file"
)

// The exit codes, which scripts may rely on; exitHelp explains them.
const (
	exitDone        = 0
	exitFailed      = 1
	exitChanges     = 2
	exitUsage       = 64
	exitManifest    = 65
	exitNoState     = 66
	exitAgent       = 69
	exitCPI         = 70
	exitMoved       = 73
	exitPutBack     = 74
	exitLocked      = 75
	exitInterrupted = 130
)

// exitCode is the error of a child process that has printed its own message.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// nextSilent is the hint for an agent that stopped answering in the middle of a
// run.
const nextSilent = `run the same command again to continue; if the agent stays silent, "bootstrap deploy MANIFEST --fix" reboots the VM first and replaces it only if that does not help`

// judge returns the exit code of an error and, if it can add anything to the
// error's text, a hint. No other function chooses exit codes.
func judge(err error) (code int, hint string) {
	var (
		plain       exitCode
		usage       *usageError
		changes     *changesError
		problems    *document.Problems
		missing     *file.MissingError
		unreadable  *document.FileError
		folder      *file.FolderError
		locked      *file.LockedError
		busy        *artifact.BusyError
		silent      *plan.AgentSilentError
		second      *deployer.SecondDiskError
		noSecond    *plan.NoSecondDiskError
		unreachable *agent.UnreachableError
		late        *agent.TaskTimeoutError
		lost        *agent.TaskLostError
		refused     *cpi.Error
		unsettled   *journal.UnsettledError
		interrupted *report.InterruptedError
		stopped     *stoppedError
		moved       *plan.MovedError
		format      *deployer.PlanFormatError
		failing     *deployer.NotRunningError
		putBack     *deployer.PutBackError
		unhealthy   *health.UnhealthyError
		unrecorded  *target.UnrecordedVMError
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
		return exitDone, ""
	case errors.As(err, &plain):
		return int(plain), ""
	case errors.As(err, &changes):
		return exitChanges, ""
	case errors.As(err, &folder):
		return exitManifest, ""
	case errors.As(err, &usage):
		return exitUsage, "see " + usage.command + " --help"
	case errors.As(err, &interrupted), errors.As(err, &stopped), errors.As(err, &refusal) && refusal.Interrupted:
		return exitInterrupted, ""
	case errors.As(err, &unasked):
		return exitUsage, ""
	case errors.As(err, &problems):
		return exitManifest, ""
	case errors.As(err, &missing):
		return exitNoState, "nothing is deployed there; give --state if the state file is elsewhere"
	case errors.As(err, &unreadable) && errors.Is(err, fs.ErrNotExist):
		return exitNoState, ""
	case errors.As(err, &unreadable):
		return exitManifest, ""
	case errors.As(err, &unrecorded):
		return exitNoState, ""
	case errors.As(err, &moved):
		return exitMoved, `"bootstrap plan MANIFEST --out FILE" makes a new plan; "bootstrap deploy MANIFEST" deploys without one`
	case errors.As(err, &format):
		return exitMoved, ""
	case errors.As(err, &putBack):
		return exitPutBack, "correct the cause and deploy again"
	case errors.As(err, &failing) && failing.Previous, errors.As(err, &unhealthy) && unhealthy.Previous:
		return exitFailed, `"bootstrap logs MANIFEST" fetches all of their logs; correct the cause and deploy again, or "bootstrap deploy MANIFEST --previous" puts back what the last deploy that worked had applied`
	case errors.As(err, &failing), errors.As(err, &unhealthy):
		return exitFailed, `"bootstrap logs MANIFEST" fetches all of their logs; correct the cause and deploy again`
	case errors.As(err, &ended):
		return fleetCode(ended), ended.Next()
	case errors.As(err, &idle):
		return exitFailed, idle.Next()
	case errors.As(err, &taken):
		return exitLocked, `"bootstrap fleet status FLEET" shows what the other process does`
	case errors.As(err, &unplanned):
		return exitInterrupted, ""
	case errors.As(err, &locked) && locked.What == rollout.LockName:
		return exitLocked, "\"bootstrap fleet status FLEET\" shows what it does; run the same command again when it has ended"
	case errors.As(err, &locked):
		return exitLocked, "run the same command again when the other run has ended, or with --lock-wait 10m to wait for it; the lock ends with its process"
	case errors.As(err, &busy):
		return exitLocked, "run the same command again when the other run has ended; --dry-run works at any time"
	case errors.As(err, &address):
		return exitFailed, nextAddress(address)
	case errors.As(err, &ledger) && ledger.Kind == addresses.Busy:
		return exitLocked, ""
	case errors.As(err, &ledger):
		return exitFailed, "" // the error says what to do
	case errors.As(err, &second):
		return exitAgent, second.Next()
	case errors.As(err, &noSecond):
		return exitFailed, deployer.NextKeepDisk
	case errors.As(err, &silent) && isFull(err):
		return exitAgent, "the disk is full: free space where the message says, and run the same command again"
	case errors.As(err, &silent):
		return exitAgent, silent.Next
	case errors.As(err, &late):
		return exitFailed, `run the same command again, with a longer --task-timeout if the task needs it; if it hangs, "bootstrap deploy MANIFEST --fix" reboots the VM`
	case errors.As(err, &unreachable):
		return exitAgent, nextSilent
	case errors.As(err, &lost):
		return exitFailed, nextSilent
	case errors.As(err, &unsettled):
		return exitFailed, fmt.Sprintf("the result of %s is unknown; run the same command again: it looks for the result, lists it as a leftover if it cannot find it (bootstrap state leftovers MANIFEST), and continues", unsettled.Method)
	case errors.As(err, &refused):
		return exitCPI, ""
	}
	return exitFailed, ""
}

// nextAddress returns the command that shows why an address was refused.
func nextAddress(refused *network.Refused) string {
	switch {
	case refused.Kind == network.AlreadyInUse && len(refused.Holders) == 1 && !refused.Leaves && !refused.Orphan:
		holder := refused.Holders[0]
		release := "bootstrap addresses release " + holder.Block.Addr().String()
		if refused.Ledger != "" {
			release += " --database " + databaseArg(refused.Ledger)
		}
		return fmt.Sprintf("if %s does not exist any more, \"%s\" releases its address; then run the same command again", holder.Owner, release)
	case refused.Kind == network.AlreadyInUse, refused.Kind == network.NotEnoughCapacity:
		return `"bootstrap addresses check MANIFEST" shows how many are free and needed; then run the same command again`
	}
	return "correct the manifest or the cloud config, and run the same command again"
}

// holderIn returns who holds the address that was refused; nil: err says nothing of
// that.
func holderIn(err error) *report.Holder {
	refused, ok := errors.AsType[*network.Refused](err)
	if !ok || refused.Kind != network.AlreadyInUse || len(refused.Holders) != 1 {
		return nil
	}
	h := refused.Holders[0]
	return &report.Holder{Address: h.Address(), Network: h.Network, Deployment: h.Owner.Deployment, Name: h.Owner.Name, Instance: h.Owner.Instance}
}

// fleetCode returns the exit code of a run of a fleet that did not end well.
func fleetCode(e *rollout.EndedError) int {
	switch e.Record.Result {
	case rollout.Busy:
		return exitLocked
	case rollout.Interrupted, rollout.Aborted:
		return exitInterrupted
	}
	return exitFailed
}

// isFull reports whether a full disk is the cause, on this machine or according
// to the agent.
func isFull(err error) bool { return strings.Contains(err.Error(), "no space left on device") }

// finish prints how the command ended, and returns its exit code. Nothing else
// prints that.
func (c *console) finish(err error) int {
	if wantsJSON(c.args) && !c.started {
		c.json = true // the flag may follow the mistake
	}
	if _, usage := err.(*usageError); usage {
		c.redactor.Add(valuesIn(c.args)...)
	}
	var panicked *guard.Panic
	if errors.As(err, &panicked) {
		err = c.reportPanic(panicked)
	}
	code, hint := judge(err)
	hint = c.withTarget(hint)
	if err != nil {
		err = &completed{err, c.withTarget(err.Error())}
	}
	c.tell(code, err, hint)
	if c.openEvents() == nil && c.events != nil { // the first event said why it cannot be opened
		told := err
		if !failure(told) {
			told = nil
		}
		ui.JSONResult(c.events, resultOf(c, code, told, hint))
	}
	if lost := c.out.lost(); lost != nil && (c.json || !failure(err)) {
		code = exitFailed
		c.failed(code, fmt.Errorf("cannot write to the standard output: %w; the command itself has finished", lost), "")
	}
	return code
}

// tell prints the end of the output.
func (c *console) tell(code int, err error, hint string) {
	told := err != nil && !failure(err)
	if told {
		err = nil
	}
	switch {
	case err == nil && c.silent:
	case c.json:
		out := c.redactor.Lines(c.out)
		printProblems(out, err)
		ui.JSONResult(out, resultOf(c, code, err, hint))
	case err != nil:
		c.failed(code, err, hint)
	case !told && !c.quiet && c.report != nil:
		stream := io.Writer(c.out)
		if c.plain {
			stream = c.stderr
		}
		out := writerTo(c, stream)
		ui.Succeeded(out, c.outcome, nextAfter(c, code, ""))
		_ = out.Flush()
	}
}

// resultOf returns the end of a run for programs.
func resultOf(c *console, code int, err error, hint string) ui.Result {
	r := ui.Result{Status: report.Finished, ExitCode: code, Hint: hint, HeldBy: holderIn(err), Outcome: c.outcome, Next: nextAfter(c, code, hint)}
	if err != nil {
		r.Status, r.Error = report.Failed, err.Error()
	}
	return r
}

// failure reports whether err is a failure, and not only an exit code that
// reports a result.
func failure(err error) bool {
	var ended exitCode
	var changes *changesError
	return err != nil && !errors.As(err, &ended) && !errors.As(err, &changes)
}

func (c *console) failed(code int, err error, hint string) {
	out := writerTo(c, c.stderr)
	ui.Failed(out, code, err, hint)
	_ = out.Flush() // no stream is left to report it on
}

// valuesIn returns the values of variables in the arguments: an error about the
// command line may repeat them before the redactor knows them.
func valuesIn(args []string) []string {
	var values []string
	for i, arg := range args {
		before := ""
		if i > 0 {
			before = args[i-1]
		}
		short := strings.HasPrefix(arg, "-") && !strings.HasPrefix(arg, "--") && strings.Contains(arg, "v")
		_, value, found := strings.Cut(strings.TrimPrefix(arg, "--var="), "=")
		if found && (short || strings.HasPrefix(arg, "--var=") || before == "--var" || strings.HasPrefix(before, "-") && strings.HasSuffix(before, "v")) {
			values = append(values, value)
		}
	}
	return values
}
