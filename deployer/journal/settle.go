package journal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"bootstrap/cpi"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// Settle finds out the results of calls that an interrupted run announced: it waits for a
// CPI that is still running, and reads its reply. A call with an unknown result becomes a
// leftover. If Foresee is set, what a running CPI deletes counts as deleted, and its call
// stays open.
func (j *Journal) Settle(ctx context.Context) error {
	open := j.State.Get().Own.Intents
	if len(open) == 0 {
		return nil
	}
	if _, err := j.CPI(ctx); err != nil {
		return err
	}
	for _, in := range open {
		settle := j.settleCreate
		switch in.Call().Effect {
		case state.Deletes:
			settle = j.settleDelete
		case state.Changes:
			settle = j.settleChange
		}
		if err := settle(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

// settleDelete finds out the result of an interrupted delete. If it failed or the result
// is unknown, the object stays recorded, and a later step deletes it.
func (j *Journal) settleDelete(ctx context.Context, in state.Intent) error {
	_, err := j.recover(ctx, in)
	var working *stillRunningError
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.As(err, &working) {
		if !j.Foresee {
			return err
		}
		if j.isCurrentVM(in) {
			j.Gone()
		}
		return j.State.Suppose(func(st *state.State) error {
			st.Forget(in.Method, in.CID) // the call stays open
			return nil
		})
	}
	gone := err == nil || notFoundBy(in, err)
	if !gone && !errors.Is(err, cpi.ErrNotBegun) {
		there, known := j.stillThere(ctx, in, err)
		gone = known && !there
	}
	if st := j.State.Get(); !gone && !st.Owns(in.CID) {
		// Another tool, or an older version of the state, does not have the record.
		why := fmt.Sprintf("the result is unknown, and %s is not recorded any more", in.CID)
		j.warn(fmt.Sprintf("an earlier run was interrupted during %s: %s; the state file keeps the call as a leftover", in.Method, why))
		return j.keepLeftover(in, why)
	}
	if !gone {
		j.Report.Info(j.again(in, in.CID))
		return j.settleHalfDeleted(in)
	}
	j.Report.Info(fmt.Sprintf("An earlier run was interrupted during %s; %s is gone", in.Method, in.CID))
	if j.isCurrentVM(in) {
		j.Gone()
	}
	return j.forget(in, func(st *state.State) { st.Forget(in.Method, in.CID) })
}

// isCurrentVM reports whether the call is about the current VM.
func (j *Journal) isCurrentVM(in state.Intent) bool {
	return in.Call().Thing == "VM" && in.CID != "" && in.CID == j.State.Get().CurrentVMCID
}

// settleHalfDeleted settles a delete_vm with an unknown result. If the VM's agent is
// silent, its jobs need not be stopped in order: that was done before the delete, which
// may have ended the agent.
func (j *Journal) settleHalfDeleted(in state.Intent) error {
	if !j.isCurrentVM(in) || j.Answers() {
		return j.settle(in, "")
	}
	return j.record(in, func(st *state.State) error {
		st.Own.Reached = false
		return st.Settle(in, "")
	})
}

// recover waits for the CPI of an interrupted run and reads its reply. It does not kill
// that CPI: after the time limit, the error names its process.
func (j *Journal) recover(ctx context.Context, in state.Intent) (string, error) {
	if in.Reply == "" {
		return "", fs.ErrNotExist
	}
	limit := max(time.Minute, cmp.Or(j.Limit, 2*time.Hour)-time.Since(in.Started))
	if j.Foresee {
		limit = time.Nanosecond // a reply that is there is read, and no CPI is waited for
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	process := "its process"
	c, err := j.CPI(ctx)
	if err != nil {
		return "", err
	}
	cid, err := c.Recover(limited, in.Method, in.Reply, func(child cpi.Child) {
		if child.PID > 0 {
			process = fmt.Sprintf("process %d", child.PID)
		}
		text := fmt.Sprintf("An earlier run was interrupted during %s, which the CPI is still running since %s (%s)", in.Method, report.Minute(in.Started), process)
		if j.Foresee {
			j.Report.Info(text + ": a deploy waits for it")
			return
		}
		j.Report.Info(text + ": waiting for it")
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return "", &stillRunningError{fmt.Sprintf("cannot continue: the CPI of an earlier run is still running %s after %s; check what %s is doing, stop it, then run the same command again", in.Method, time.Since(in.Started).Round(time.Second), process)}
	}
	return cid, err
}

// stillRunningError says that a CPI of an earlier run did not end in time.
type stillRunningError struct{ text string }

func (e *stillRunningError) Error() string { return e.text }

// settleChange finds out the CID of a disk that an interrupted run was changing. While
// the recorded disk exists, it stays the current one: it has the data, and a later step
// changes it.
func (j *Journal) settleChange(ctx context.Context, in state.Intent) error {
	why, err := j.settleByReply(ctx, in)
	switch {
	case err != nil || why == "":
		return err
	case in.Call().Asks == "":
		j.Report.Info(j.again(in, in.Disk))
		return j.settle(in, "")
	}
	c, err := j.CPI(ctx)
	if err != nil {
		return err
	}
	switch there, err := c.HasDisk(ctx, in.Disk); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		why += fmt.Sprintf(", and the CPI cannot say whether disk %s still exists (%v)", in.Disk, err)
	case there:
		why += fmt.Sprintf("; disk %s still exists and stays the current one, but another disk may have been made from it", in.Disk)
	default:
		why += fmt.Sprintf("; disk %s does not exist any more, and another disk contains its data: with the CID of that disk, `bootstrap state leftovers MANIFEST --adopt ID CID`, `bootstrap disks forget MANIFEST --current` and `bootstrap disks attach MANIFEST CID` make it the current one", in.Disk)
	}
	return j.leaveBehind(in, why)
}

// settleByReply settles a call that creates or changes an object, if its reply has the
// result; otherwise it returns why the result is unknown.
func (j *Journal) settleByReply(ctx context.Context, in state.Intent) (why string, err error) {
	cid, err := j.recover(ctx, in)
	var working *stillRunningError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &working) && j.Foresee:
		return "", nil
	case errors.As(err, &working):
		return "", err
	case err == nil:
		if in.Call().Effect == state.Changes {
			cid = cmp.Or(cid, in.Disk)
		}
		return "", j.adopt(ctx, in, cid, "the CPI finished it")
	case errors.Is(err, cpi.ErrNotBegun):
		return "", j.settle(in, "")
	case answered(err):
		j.Report.Info(fmt.Sprintf("An earlier run was interrupted during %s, which failed: %v", in.Method, err))
		return "", j.settle(in, "")
	case errors.Is(err, fs.ErrNotExist):
		return "the file with the CPI's reply does not exist any more", nil
	}
	return badReply(err), nil
}

// badReply says what is wrong with the reply of a CPI that has ended.
func badReply(err error) string {
	var result *cpi.ResultError
	var garbage *cpi.GarbageError
	switch {
	case errors.As(err, &result):
		return fmt.Sprintf("the CPI's reply gives %s instead of %s", result.Got, result.Want)
	case errors.As(err, &garbage) && garbage.Head != "":
		return "the CPI's reply cannot be read: " + garbage.Reason
	}
	return "the CPI left no reply"
}

// leaveBehind warns of a call with an unknown result and keeps it as a leftover.
func (j *Journal) leaveBehind(in state.Intent, why string) error {
	why += "; " + j.searchFor(in)
	j.warn(fmt.Sprintf("an earlier run was interrupted during %s (started %s): %s. An object that the call may have made stays in the cloud, and the state file lists the call as a leftover", in.Method, report.Minute(in.Started), why))
	return j.keepLeftover(in, why)
}

// warn warns of a call with an unknown result, unless nothing is recorded yet: the run
// that records it warns.
func (j *Journal) warn(text string) {
	if !j.Foresee {
		j.Report.Warning(text)
	}
}

// again says that a call with an unknown result is made again.
func (j *Journal) again(in state.Intent, cid string) string {
	text := fmt.Sprintf("An earlier run was interrupted during %s of %s, and the result is unknown: ", in.Method, cid)
	if j.Foresee {
		return text + "a deploy tries again"
	}
	return text + "trying again"
}

func (j *Journal) keepLeftover(in state.Intent, why string) error {
	return j.record(in, func(st *state.State) error { return st.LeaveBehind(in, why) })
}

// settleCreate finds out the result of an interrupted call that creates an object.
func (j *Journal) settleCreate(ctx context.Context, in state.Intent) error {
	why, err := j.settleByReply(ctx, in)
	if err != nil || why == "" {
		return err
	}
	if in.Call().Thing == "VM" {
		cid, doubt := j.WhoIsThere(ctx, in)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if doubt == "" {
			return j.adopt(ctx, in, cid, "its agent answers")
		}
		why += ", and " + doubt
	}
	return j.leaveBehind(in, why)
}

// adopt records the object that an interrupted call created.
func (j *Journal) adopt(ctx context.Context, in state.Intent, cid, how string) error {
	j.Report.Info(fmt.Sprintf("An earlier run was interrupted during %s; %s: %s", in.Method, how, cid))
	var contrary error // the CID contradicts the state
	err := j.record(in, func(st *state.State) error {
		if contrary = st.Settle(in, cid); contrary == nil {
			return nil
		}
		left := in
		left.CID = cid
		return st.LeaveBehind(left, contrary.Error())
	})
	if err != nil {
		return err
	}
	if contrary != nil {
		j.Report.Warning(fmt.Sprintf("%v; bootstrap leaves it alone, and the state file keeps the call as a leftover", contrary))
		return nil
	}
	if in.Call().Thing != "VM" {
		return nil
	}
	return j.Adopted(ctx, in, cid)
}

// rescue stores the CID of a created object in a file of its own, if the state cannot be
// written.
func (j *Journal) rescue(in state.Intent, cid string, cause error) error {
	file, err := j.State.Rescue(in, cid)
	if err != nil {
		return fmt.Errorf("%s made %s, but no file could record that: %w; %w", in.Method, cid, cause, err)
	}
	return fmt.Errorf("%s made %s: %w; the CID is kept in %s, and the next run records it", in.Method, cid, cause, file)
}
