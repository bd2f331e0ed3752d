package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// create announces a CPI call in the state, makes it, and records what it
// made, or what the disk is now that it changed. The CPI writes its reply to a
// file, and outlives this process: a run that comes after a kill reads it there.
func (r *run) create(ctx context.Context, in state.Intent, call func(*cpi.Client) (cid string, err error)) (string, error) {
	c, err := r.cpi(ctx)
	if err != nil {
		return "", err
	}
	in, err = r.announce(in)
	if err != nil {
		return "", err
	}
	cid, err := call(c.Recorded(in.Reply))
	if err != nil {
		if !answered(err) {
			return "", &UnsettledError{Method: in.Method, Err: err} // it may have made something all the same
		}
		if unwritten := r.settle(in, ""); unwritten != nil {
			// Whoever could do without the call must see this.
			return "", fmt.Errorf("%v; %w", err, unwritten)
		}
		return "", err
	}
	if err := r.settle(in, cid); err != nil {
		return "", r.rescue(in, cid, err)
	}
	return cid, nil
}

// destroy announces a CPI call that deletes in.CID, makes it, and records with
// forget that it is gone. What the CPI does not know any more, or does not
// have when it is asked after an error, is gone, too; the first is told by
// notFound, as a skip.
func (r *run) destroy(ctx context.Context, in state.Intent, call func(*cpi.Client) error, notFound string, forget func(*state.State)) error {
	c, err := r.cpi(ctx)
	if err != nil {
		return err
	}
	in, err = r.announce(in)
	if err != nil {
		return err
	}
	err = call(c.Recorded(in.Reply))
	missing := notFoundBy(in, err)
	if err != nil && !missing {
		there, known := r.stillThere(ctx, in, err)
		if there || answered(err) && !known {
			return errors.Join(err, r.settle(in, ""))
		}
		if !known {
			return err
		}
		r.root.Info(fmt.Sprintf("%s of %s failed, and it is gone all the same: %v", in.Method, in.CID, err))
	}
	if err := r.forget(in, forget); err != nil {
		return err
	}
	if missing {
		return report.Skip(notFound)
	}
	return nil
}

// announce writes the intent, and where the CPI's reply will stand, before
// the call. The file of the reply comes first: it proves that a call which was
// cut here was not begun.
func (r *run) announce(in state.Intent) (state.Intent, error) {
	in.ID, in.Started = uuid.NewString(), time.Now().UTC().Truncate(time.Second)
	in.Reply = filepath.Join(r.dir, "replies", in.ID+".json")
	if in.Arguments == "" { // they stand in the intent
		in.Arguments = r.arguments(in.Method, in.CID, in.Disk, in.Size, in.CloudProperties, in.Stemcell)
	}
	if err := os.MkdirAll(filepath.Dir(in.Reply), 0o700); err != nil {
		return in, fmt.Errorf("cannot make the folder of the CPI's replies: %w", err)
	}
	if err := cpi.Announce(in.Reply); err != nil {
		return in, fmt.Errorf("cannot make the file of the CPI's reply: %w", err)
	}
	err := r.state.Update(func(st *state.State) error {
		st.Own.Salt = r.salt
		st.Own.Intents = append(st.Own.Intents, in)
		return nil
	})
	if err != nil {
		cpi.RemoveReply(in.Reply)
	}
	return in, err
}

// arguments is the salted digest of what a CPI call is made with. The salt is
// the state's, which has it from the first intent on.
func (r *run) arguments(method string, args ...any) string {
	if r.salt == "" {
		r.salt = cmp.Or(r.state.Get().Own.Salt, plan.NewSalt())
	}
	return plan.Digest(r.salt, "arguments of "+method, args)
}

// notFoundBy tells whether the CPI says that what it was to delete does not
// exist; that something else does not says nothing of it.
func notFoundBy(in state.Intent, err error) bool {
	var refused *cpi.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch in.Method {
	case "delete_vm":
		return refused.Type == cpi.TypeVMNotFound
	case "delete_disk":
		return refused.Type == cpi.TypeDiskNotFound
	case "delete_stemcell":
		return cpi.StemcellGone(err, in.CID)
	}
	return cpi.NotFound(err)
}

// stillThere asks the CPI whether what a delete that failed was about exists,
// where there is a method for it. A CPI that did not start, or hangs, is not
// asked.
func (r *run) stillThere(ctx context.Context, in state.Intent, failed error) (there, known bool) {
	var unstarted *cpi.StartError
	var late *cpi.TimeoutError
	if errors.As(failed, &unstarted) || errors.As(failed, &late) || in.CID == "" {
		return false, false
	}
	c, err := r.cpi(ctx)
	if err != nil {
		return false, false
	}
	switch in.Method {
	case "delete_vm":
		there, err = c.HasVM(ctx, in.CID)
	case "delete_disk":
		there, err = c.HasDisk(ctx, in.CID)
	default:
		return false, false
	}
	return there && err == nil, err == nil
}

// forget records that what the intent deletes is gone.
func (r *run) forget(in state.Intent, forget func(*state.State)) error {
	err := r.state.Update(func(st *state.State) error {
		forget(st)
		return st.Settle(in, "")
	})
	if err == nil {
		cpi.RemoveReply(in.Reply)
	}
	return err
}

// UnsettledError says that a CPI call ended without a usable reply, so that it
// may have made something. The next run settles it.
type UnsettledError struct {
	Method string
	Err    error
}

func (e *UnsettledError) Error() string { return e.Err.Error() }

func (e *UnsettledError) Unwrap() error { return e.Err }

// answered tells whether a failed CPI call was answered, or never begun, so
// that nothing it made is left behind.
func answered(err error) bool {
	var refused *cpi.Error
	var unstarted *cpi.StartError
	return errors.As(err, &refused) || errors.As(err, &unstarted)
}

func (r *run) settle(in state.Intent, cid string) error {
	if err := r.state.Update(func(st *state.State) error { return st.Settle(in, cid) }); err != nil {
		return err
	}
	// The state tells now what the reply told.
	cpi.RemoveReply(in.Reply)
	return nil
}

// settleIntents finds out what became of the calls that an earlier run
// announced and did not see the end of: it waits for a CPI that still works,
// and reads its reply. What nobody can tell is told and left alone.
func (r *run) settleIntents(ctx context.Context) error {
	open := r.state.Get().Own.Intents
	if len(open) == 0 {
		return nil
	}
	if err := r.connect(ctx); err != nil {
		return err
	}
	for _, in := range open {
		settle := r.settleCreate
		switch {
		case deletes(in):
			settle = r.settleDelete
		case changes(in):
			settle = r.settleChange
		}
		if err := settle(ctx, in); err != nil {
			return err
		}
	}
	return nil
}

func deletes(in state.Intent) bool { return strings.HasPrefix(in.Method, "delete_") }

// settleDelete finds out whether a delete that an earlier run was cut in did
// its work. Where it did not, or nobody can tell, the record is still there
// and the delete is made again when its time comes.
func (r *run) settleDelete(ctx context.Context, in state.Intent) error {
	_, err := r.recover(ctx, in)
	var working *stillRunningError
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if errors.As(err, &working) {
		return err
	}
	gone := err == nil || notFoundBy(in, err)
	if !gone && !errors.Is(err, cpi.ErrNotBegun) {
		there, known := r.stillThere(ctx, in, err)
		gone = known && !there
	}
	if st := r.state.Get(); !gone && !st.Owns(in.CID) {
		// Another tool, or an older version of the state, has lost the record.
		why := fmt.Sprintf("whether it ended is not known, and %s is not recorded any more", in.CID)
		r.root.Warning(fmt.Sprintf("an earlier run was cut during %s: %s; it stays in the state file as a leftover", in.Method, why))
		return r.keepLeftover(in, why)
	}
	if !gone {
		r.root.Info(fmt.Sprintf("An earlier run was cut during %s of %s, which is not known to have ended: it is tried again", in.Method, in.CID))
		return r.settleHalfDeleted(in)
	}
	r.root.Info(fmt.Sprintf("An earlier run was cut during %s; %s is gone", in.Method, in.CID))
	if r.state.Get().CurrentVMCID == in.CID && in.Method == "delete_vm" {
		r.running, r.facts = nil, plan.Facts{}
	}
	return r.forget(in, func(st *state.State) { st.Forget(in.Method, in.CID) })
}

// settleHalfDeleted settles a delete that is not known to have ended. A VM whose
// agent is silent then has nothing left that could be stopped in order: the jobs
// were stopped before the delete, which may have ended the agent.
func (r *run) settleHalfDeleted(in state.Intent) error {
	if in.Method != "delete_vm" || in.CID != r.state.Get().CurrentVMCID || r.facts.Answers {
		return r.settle(in, "")
	}
	if err := r.state.Update(func(st *state.State) error {
		st.Own.Reached = false
		return st.Settle(in, "")
	}); err != nil {
		return err
	}
	cpi.RemoveReply(in.Reply)
	return nil
}

// recover waits for the CPI of an earlier run and reads its reply. Nobody ends
// a CPI whose time is over: the error then says which process it is.
func (r *run) recover(ctx context.Context, in state.Intent) (string, error) {
	if in.Reply == "" {
		return "", fs.ErrNotExist
	}
	limited, cancel := context.WithTimeout(ctx, max(time.Minute, cmp.Or(r.opts.CPITimeout, 2*time.Hour)-time.Since(in.Started)))
	defer cancel()
	process := "its process"
	c, err := r.cpi(ctx)
	if err != nil {
		return "", err
	}
	cid, err := c.Recover(limited, in.Method, in.Reply, func(child cpi.Child) {
		if child.PID > 0 {
			process = fmt.Sprintf("process %d", child.PID)
		}
		r.root.Info(fmt.Sprintf("An earlier run was cut during %s, which the CPI still works at since %s (%s): waiting for it", in.Method, utcMinute(in.Started), process))
	})
	if err != nil && ctx.Err() == nil && limited.Err() != nil {
		return "", &stillRunningError{fmt.Sprintf("cannot go on: the CPI of an earlier run still works at %s after %s; look what %s does, end it, and run the same command again", in.Method, time.Since(in.Started).Round(time.Second), process)}
	}
	return cid, err
}

// stillRunningError says that a CPI of an earlier run does not come to an end.
type stillRunningError struct{ text string }

func (e *stillRunningError) Error() string { return e.text }

// changes tells whether the call changes a disk, which may be another one then.
func changes(in state.Intent) bool { return in.Method == "resize_disk" || in.Method == "update_disk" }

// settleChange finds out what a disk is that an earlier run was cut in the
// change of. The one that is recorded stays so while it exists: its data is
// there, and the change is made again when its time comes.
func (r *run) settleChange(ctx context.Context, in state.Intent) error {
	why, err := r.settleByReply(ctx, in)
	switch {
	case err != nil || why == "":
		return err
	case in.Method == "resize_disk":
		r.root.Info(fmt.Sprintf("An earlier run was cut during %s of %s, which is not known to have ended: it is tried again", in.Method, in.Disk))
		return r.settle(in, "")
	}
	c, err := r.cpi(ctx)
	if err != nil {
		return err
	}
	switch there, err := c.HasDisk(ctx, in.Disk); {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		why += fmt.Sprintf(" and does not tell whether disk %s still exists (%v)", in.Disk, err)
	case there:
		why += fmt.Sprintf("; disk %s is there and stays the current one, and another may have been made from it", in.Disk)
	default:
		why += fmt.Sprintf("; disk %s does not exist any more, and the one in its place holds the data: with its CID, `bootstrap state leftovers --adopt`, `bootstrap disks forget --current` and `bootstrap disks attach` make it the current one", in.Disk)
	}
	return r.leaveBehind(in, why)
}

// settleByReply settles a call that makes or changes something, where its reply
// tells how it ended; else it says why not.
func (r *run) settleByReply(ctx context.Context, in state.Intent) (why string, err error) {
	cid, err := r.recover(ctx, in)
	var working *stillRunningError
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case errors.As(err, &working):
		return "", err
	case err == nil:
		if changes(in) {
			cid = cmp.Or(cid, in.Disk)
		}
		return "", r.adopt(ctx, in, cid, "the CPI finished it")
	case errors.Is(err, cpi.ErrNotBegun):
		return "", r.settle(in, "")
	case answered(err):
		r.root.Info(fmt.Sprintf("An earlier run was cut during %s, which failed: %v", in.Method, err))
		return "", r.settle(in, "")
	case errors.Is(err, fs.ErrNotExist):
		return "the file of the CPI's reply is not there any more", nil
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

// leaveBehind tells of a call whose outcome nobody knows and keeps it as a
// leftover.
func (r *run) leaveBehind(in state.Intent, why string) error {
	why += "; " + r.searchFor(in)
	r.root.Warning(fmt.Sprintf("an earlier run was cut during %s (started %s): %s. What it may have made is left alone and stays in the state file as a leftover", in.Method, utcMinute(in.Started), why))
	return r.keepLeftover(in, why)
}

func (r *run) keepLeftover(in state.Intent, why string) error {
	err := r.state.Update(func(st *state.State) error { return st.LeaveBehind(in, why) })
	if err == nil {
		cpi.RemoveReply(in.Reply)
	}
	return err
}

// settleCreate finds out what a call made that an earlier run was cut in.
func (r *run) settleCreate(ctx context.Context, in state.Intent) error {
	why, err := r.settleByReply(ctx, in)
	if err != nil || why == "" {
		return err
	}
	if in.Method == "create_vm" {
		cid, doubt := r.askWhoIsThere(ctx, in)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if doubt == "" {
			return r.adopt(ctx, in, cid, "its agent answers")
		}
		why += " and " + doubt
	}
	return r.leaveBehind(in, why)
}

// adopt records what a call of an earlier run made.
func (r *run) adopt(ctx context.Context, in state.Intent, cid, how string) error {
	r.root.Info(fmt.Sprintf("An earlier run was cut during %s; %s: %s", in.Method, how, cid))
	var contrary error // to what is recorded
	err := r.state.Update(func(st *state.State) error {
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
	cpi.RemoveReply(in.Reply)
	if contrary != nil {
		r.root.Warning(fmt.Sprintf("%v; it is left alone and stays in the state file as a leftover", contrary))
		return nil
	}
	if in.Method != "create_vm" {
		return nil
	}
	if r.manifest != nil && r.stemcell != nil && in.Arguments != "" && in.Arguments != r.vmArguments() {
		r.root.Info(fmt.Sprintf("The manifest, or what it names, has changed since VM %s was asked for: the plan says what becomes of it", cid))
	}
	if err := r.keepCurrent(r.recallAgent(cid)); err != nil {
		return fmt.Errorf("cannot keep how the agent is reached: %w", err)
	}
	return r.lookAtAgent(ctx)
}

// askWhoIsThere asks the agent at the manifest's address whether it is the one
// of the VM that in may have made, and the CPI whether the VM's name, as the
// agent knows it, is its CID. doubt says why that is not proven.
func (r *run) askWhoIsThere(ctx context.Context, in state.Intent) (cid, doubt string) {
	if r.about.MBus == "" {
		return "", "no manifest says where its agent would answer"
	}
	mbus, ca := r.about.MBus, r.about.CA
	if how := r.comingAgent(in.AgentID); how != nil { // the manifest may have changed
		mbus, ca = how.MBus, how.CA
		r.opts.Secret(mbus)
	}
	client, err := r.newAgent(mbus, ca)
	if err != nil {
		return "", err.Error()
	}
	var now agent.State
	err = r.do("Looking for the agent of a VM that an earlier run may have made", func(*report.Stage) error {
		if err = client.WaitReady(ctx, min(existingAgentTimeout, r.opts.AgentTimeout), nil); err == nil {
			now, err = client.GetState(ctx, false)
		}
		if err != nil {
			doubt = "no agent tells who it is at " + client.Address()
			return report.Skip("it does not answer: " + err.Error())
		}
		return nil
	})
	name := now.VM.Name
	switch {
	case err != nil || doubt != "":
		return "", doubt
	case now.AgentID != in.AgentID:
		return "", fmt.Sprintf("another agent (%s) answers at %s", now.AgentID, client.Address())
	case cpi.CheckCID(name) != nil:
		return "", "its agent, which answers, knows no name of the VM"
	}
	// On some clouds the name that the agent knows is not the CID.
	c, err := r.cpi(ctx)
	if err != nil {
		return "", err.Error()
	}
	there, err := c.HasVM(ctx, name)
	switch {
	case err != nil:
		return "", fmt.Sprintf("its agent answers on VM %q, but whether that is its CID the CPI does not tell (%v)", name, err)
	case !there:
		return "", fmt.Sprintf("its agent answers on VM %q, but that is not its CID", name)
	}
	return name, ""
}

// searchFor says how a person finds what a create may have made.
func (r *run) searchFor(in state.Intent) string {
	var what string
	switch in.Method {
	case "create_vm":
		what = fmt.Sprintf("a VM with the agent id %s", in.AgentID)
		if r.about.Name != "" {
			what += fmt.Sprintf(" or the tags deployment=%s, instance_group=%s", r.about.Name, in.Group)
		}
	case "create_disk":
		what = fmt.Sprintf("a disk of %d MiB without tags", in.Size)
	case "create_stemcell":
		what = "a stemcell"
		if in.Stemcell != nil {
			what += fmt.Sprintf(" %s/%s", in.Stemcell.Name, in.Stemcell.Version)
		}
	case "snapshot_disk":
		what = "a snapshot of disk " + in.Disk
	case "update_disk":
		what = fmt.Sprintf("a disk of %d MiB that was made from disk %s", in.Size, in.Disk)
	default:
		what = "what " + in.Method + " makes"
	}
	return fmt.Sprintf("look in the cloud for %s made at about %s", what, utcMinute(in.Started))
}
