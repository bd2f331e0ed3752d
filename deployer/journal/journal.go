// Package journal makes the CPI calls that create, change or delete an object. It
// announces each call in the state, with the path of the CPI's reply, makes the call and
// records the result. After a kill, the next run reads the result from that reply.
// state.Calls lists these calls.
package journal

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"bootstrap/cpi"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/state"
	"bootstrap/state/file"
)

// Journal is the journal of one deployment. All fields are set.
type Journal struct {
	State  *file.Store
	Dir    string        // folder of the deployment, with the replies
	Limit  time.Duration // time limit of one CPI call; 0: the default
	Report *report.Stage // report of the run
	CPI    func(context.Context) (*cpi.Client, error)
	// Connected reports whether the CPI is connected.
	Connected func() bool
	// About returns the record of the deployment.
	About func() kept.Deployment
	// Answers reports whether the agent of the recorded VM answers.
	Answers func() bool
	// Gone is called when an earlier run has deleted the recorded VM.
	Gone func()
	// WhoIsThere returns the CID of the VM that a create_vm created; doubt is the reason
	// if that is not proven.
	WhoIsThere func(ctx context.Context, in state.Intent) (cid, doubt string)
	// Adopted is called after a VM that an earlier run created was recorded.
	Adopted func(ctx context.Context, in state.Intent, cid string) error
	// Foresee is true in a run that changes nothing: Settle changes only the state in
	// memory, waits for no CPI, and keeps the replies.
	Foresee bool

	salt string
}

// Create announces a CPI call in the state, makes it, and records its result: the created
// object, or the changed disk. The CPI writes its reply to a file and survives a kill of
// this process; then the next run reads the reply.
func (j *Journal) Create(ctx context.Context, in state.Intent, call func(*cpi.Client) (cid string, err error)) (string, error) {
	c, err := j.CPI(ctx)
	if err != nil {
		return "", err
	}
	in, err = j.Announce(in)
	if err != nil {
		return "", err
	}
	cid, err := call(c.Recorded(in.Reply))
	if err != nil {
		if !answered(err) {
			return "", &UnsettledError{Method: in.Method, Err: err} // The call may have created something.
		}
		if unwritten := j.settle(in, ""); unwritten != nil {
			// The caller must see this error, even if it does not need the call.
			return "", fmt.Errorf("%v; %w", err, unwritten)
		}
		return "", err
	}
	if err := j.settle(in, cid); err != nil {
		return "", j.rescue(in, cid, err)
	}
	return cid, nil
}

// Delete announces the CPI call that deletes in.CID, makes it, and removes the object
// from the state. "Not found" counts as deleted, and the stage ends as skipped. After
// another error, the CPI is asked whether the object exists.
func (j *Journal) Delete(ctx context.Context, in state.Intent, call func(*cpi.Client) error) error {
	return j.delete(ctx, in, call, func(st *state.State) { st.Forget(in.Method, in.CID) })
}

func (j *Journal) delete(ctx context.Context, in state.Intent, call func(*cpi.Client) error, forget func(*state.State)) error {
	c, err := j.CPI(ctx)
	if err != nil {
		return err
	}
	in, err = j.Announce(in)
	if err != nil {
		return err
	}
	err = call(c.Recorded(in.Reply))
	missing := notFoundBy(in, err)
	if err != nil && !missing {
		there, known := j.stillThere(ctx, in, err)
		if there || answered(err) && !known {
			return errors.Join(err, j.settle(in, ""))
		}
		if !known {
			return err
		}
		j.Report.Info(fmt.Sprintf("%s failed, but %s does not exist any more: %v", in.Method, in.CID, err))
	}
	if err := j.forget(in, forget); err != nil {
		return err
	}
	if missing {
		thing := in.Call().Thing
		return report.Skip(strings.ToUpper(thing[:1]) + thing[1:] + " not found")
	}
	return nil
}

// Announce writes the intent, with the path of the CPI's reply, before the call. It
// creates the reply's file first: if the file is unchanged after a kill, the call had not
// begun.
func (j *Journal) Announce(in state.Intent) (state.Intent, error) {
	in.ID, in.Started = uuid.NewString(), time.Now().UTC().Truncate(time.Second)
	in.Reply = filepath.Join(j.Dir, "replies", in.ID+".json")
	if in.Arguments == "" { // in has the arguments
		in.Arguments = j.Arguments(in.Method, in.CID, in.Disk, in.Size, in.CloudProperties, in.Stemcell)
	}
	if err := os.MkdirAll(filepath.Dir(in.Reply), 0o700); err != nil {
		return in, fmt.Errorf("cannot make the folder of the CPI's replies: %w", err)
	}
	if err := cpi.Announce(in.Reply); err != nil {
		return in, fmt.Errorf("cannot make the file of the CPI's reply: %w", err)
	}
	err := j.State.Update(func(st *state.State) error {
		st.Own.Salt = j.Salt()
		st.Own.Intents = append(st.Own.Intents, in)
		return nil
	})
	if err != nil {
		cpi.RemoveReply(in.Reply)
	}
	return in, err
}

// Salt returns the key of the digests in this state: the recorded one, or a new one,
// which the first announced call records.
func (j *Journal) Salt() string {
	if j.salt == "" {
		j.salt = j.State.Get().Own.Salt
	}
	if j.salt == "" {
		j.salt = plan.NewSalt()
	}
	return j.salt
}

// Arguments returns the salted digest of the arguments of a CPI call.
func (j *Journal) Arguments(method string, args ...any) string {
	return plan.Digest(j.Salt(), "arguments of "+method, args)
}

// notFoundBy reports whether the CPI's error says that the object to delete does not
// exist. A not-found error about another object proves nothing.
func notFoundBy(in state.Intent, err error) bool {
	var refused *cpi.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch in.Call().Thing {
	case "VM":
		return refused.Type == cpi.TypeVMNotFound
	case "disk":
		return refused.Type == cpi.TypeDiskNotFound
	case "stemcell", "snapshot": // Most CPIs have no error type for these.
		return cpi.StemcellGone(err, in.CID)
	}
	return cpi.NotFound(err)
}

// asking returns the CPI's method that reports whether the object exists; nil: there is
// none.
func asking(c *cpi.Client, in state.Intent) func(context.Context, string) (bool, error) {
	switch in.Call().Asks {
	case "has_vm":
		return c.HasVM
	case "has_disk":
		return c.HasDisk
	}
	return nil
}

// stillThere asks the CPI whether the object exists after a failed delete, if it has a
// method for that. A CPI that did not start, or hangs, is not asked.
func (j *Journal) stillThere(ctx context.Context, in state.Intent, failed error) (there, known bool) {
	var unstarted *cpi.StartError
	var late *cpi.TimeoutError
	if errors.As(failed, &unstarted) || errors.As(failed, &late) || in.CID == "" {
		return false, false
	}
	c, err := j.CPI(ctx)
	if err != nil {
		return false, false
	}
	has := asking(c, in)
	if has == nil {
		return false, false
	}
	there, err = has(ctx, in.CID)
	return there && err == nil, err == nil
}

// forget removes the deleted object from the state.
func (j *Journal) forget(in state.Intent, forget func(*state.State)) error {
	return j.record(in, func(st *state.State) error {
		forget(st)
		return st.Settle(in, "")
	})
}

// record records the result of a call and removes its reply.
func (j *Journal) record(in state.Intent, change func(*state.State) error) error {
	if j.Foresee {
		return j.State.Suppose(change)
	}
	if err := j.State.Update(change); err != nil {
		return err
	}
	// The result is in the state.
	cpi.RemoveReply(in.Reply)
	return nil
}

// UnsettledError says that a CPI call ended without a usable reply, so it may have
// created something. The next run settles it.
type UnsettledError struct {
	Method string
	Err    error
}

func (e *UnsettledError) Error() string { return e.Err.Error() }

func (e *UnsettledError) Name() string { return "call-unsettled" }

func (e *UnsettledError) Hint() string {
	return fmt.Sprintf("the result of %s is unknown; run the same command again: it looks for the result, lists it as a leftover if it cannot find it (bootstrap state leftovers MANIFEST), and continues", e.Method)
}

func (e *UnsettledError) Unwrap() error { return e.Err }

// answered reports whether the CPI answered a failed call, or had not begun it, so that
// it created nothing.
func answered(err error) bool {
	var refused *cpi.Error
	var unstarted *cpi.StartError
	return errors.As(err, &refused) || errors.As(err, &unstarted)
}

func (j *Journal) settle(in state.Intent, cid string) error {
	return j.record(in, func(st *state.State) error { return st.Settle(in, cid) })
}
