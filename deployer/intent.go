package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/google/uuid"

	"bootstrap/cpi"
	"bootstrap/state"
)

// create announces a CPI call in the state, makes it, and records what it
// made. The CPI writes its reply to a file, and outlives this process: a run
// that comes after a kill reads it there.
func (r *run) create(in state.Intent, call func(*cpi.Client) (cid string, err error)) (string, error) {
	in, err := r.announce(in)
	if err != nil {
		return "", err
	}
	cid, err := call(r.cpi.Recorded(in.Reply, nil))
	if err != nil {
		if !answered(err) {
			return "", err // it may have made something all the same
		}
		return "", errors.Join(err, r.settle(in, ""))
	}
	if err := r.settle(in, cid); err != nil {
		return "", fmt.Errorf("%s made %s, but: %w", in.Method, cid, err)
	}
	return cid, nil
}

// destroy announces a CPI call that deletes in.CID, makes it, and records with
// forget that it is gone. What the CPI does not know any more, or does not
// have when it is asked after an error, is gone, too; the first is told by
// notFound, as a skip.
func (r *run) destroy(ctx context.Context, in state.Intent, call func(*cpi.Client) error, notFound string, forget func(*state.State)) error {
	in, err := r.announce(in)
	if err != nil {
		return err
	}
	err = call(r.cpi.Recorded(in.Reply, nil))
	missing := notFoundBy(in.Method, err)
	if err != nil && !missing {
		there, known := r.stillThere(ctx, in, err)
		if there || answered(err) && !known {
			return errors.Join(err, r.settle(in, ""))
		}
		if !known {
			return err
		}
		r.root.info(fmt.Sprintf("%s of %s failed, and it is gone all the same: %v", in.Method, in.CID, err))
	}
	if err := r.forget(in, forget); err != nil {
		return err
	}
	if missing {
		return skip(notFound)
	}
	return nil
}

// announce writes the intent, and where the CPI's reply will stand, before
// the call.
func (r *run) announce(in state.Intent) (state.Intent, error) {
	in.ID, in.Started = uuid.NewString(), time.Now().UTC().Truncate(time.Second)
	in.Reply = filepath.Join(r.dir, "replies", in.ID+".json")
	if err := os.MkdirAll(filepath.Dir(in.Reply), 0o700); err != nil {
		return in, fmt.Errorf("cannot make the folder of the CPI's replies: %w", err)
	}
	return in, r.state.Update(func(st *state.State) error {
		st.Own.Intents = append(st.Own.Intents, in)
		return nil
	})
}

// notFoundBy tells whether the CPI says that what it was to delete does not
// exist; that something else does not says nothing of it.
func notFoundBy(method string, err error) bool {
	var refused *cpi.Error
	if !errors.As(err, &refused) {
		return false
	}
	switch method {
	case "delete_vm":
		return refused.Type == cpi.TypeVMNotFound
	case "delete_disk":
		return refused.Type == cpi.TypeDiskNotFound
	case "delete_stemcell":
		return refused.Type == cpi.TypeStemcellNotFound
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
	var err error
	switch in.Method {
	case "delete_vm":
		there, err = r.cpi.HasVM(ctx, in.CID)
	case "delete_disk":
		there, err = r.cpi.HasDisk(ctx, in.CID)
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
		_ = os.Remove(in.Reply)
	}
	return err
}

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
	_ = os.Remove(in.Reply)
	return nil
}

// settleIntents finds out what became of the calls that an earlier run
// announced and did not see the end of: it waits for a CPI that still works,
// and reads its reply. What nobody can tell is told and left alone.
func (r *run) settleIntents(ctx context.Context) error {
	for _, in := range r.state.Get().Own.Intents {
		settle := r.settleCreate
		if deletes(in) {
			settle = r.settleDelete
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
	if ctx.Err() != nil {
		return ctx.Err()
	}
	gone := err == nil || notFoundBy(in.Method, err)
	if !gone && !(errors.Is(err, fs.ErrNotExist) && r.keptReplies(in)) {
		there, known := r.stillThere(ctx, in, err)
		gone = known && !there
	}
	if !gone {
		r.root.info(fmt.Sprintf("An earlier run was cut during %s of %s, which is not known to have ended: it is tried again", in.Method, in.CID))
		return r.settle(in, "")
	}
	r.root.info(fmt.Sprintf("An earlier run was cut during %s; %s is gone", in.Method, in.CID))
	if r.state.Get().CurrentVMCID == in.CID && in.Method == "delete_vm" {
		r.running, r.facts = nil, facts{}
	}
	return r.forget(in, func(st *state.State) { st.Forget(in.Method, in.CID) })
}

// recover waits for the CPI of an earlier run and reads its reply.
func (r *run) recover(ctx context.Context, in state.Intent) (string, error) {
	if in.Reply == "" {
		return "", fs.ErrNotExist
	}
	return r.cpi.Recover(ctx, in.Method, in.Reply)
}

// keptReplies tells whether this machine is the one that made the call: a
// reply's file is there before the CPI starts, so one that is missing there
// says that it never did.
func (r *run) keptReplies(in state.Intent) bool {
	return in.Reply != "" && exists(filepath.Dir(in.Reply))
}

func (r *run) settleCreate(ctx context.Context, in state.Intent) error {
	cid, err := r.recover(ctx, in)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err == nil:
		r.root.info(fmt.Sprintf("An earlier run was cut during %s; the CPI finished it: %s", in.Method, cid))
		if err := r.settle(in, cid); err != nil {
			return err
		}
		if in.Method == "create_vm" {
			return r.lookAtAgent(ctx)
		}
	case errors.Is(err, fs.ErrNotExist) && r.keptReplies(in):
		return r.settle(in, "")
	case answered(err):
		r.root.info(fmt.Sprintf("An earlier run was cut during %s, which failed: %v", in.Method, err))
		return r.settle(in, "")
	default:
		r.root.warning(leftover(in))
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// leftover words what a run that was cut may have left in the cloud.
func leftover(in state.Intent) string {
	text := fmt.Sprintf("an earlier run was cut during %s (started %s) and the CPI left no reply: what it may have made is not recorded and is left alone", in.Method, in.Started.Format(time.RFC3339))
	if in.AgentID != "" {
		text += "; the VM would have the agent id " + in.AgentID
	}
	return text
}
