package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"bootstrap/cpi"
	"bootstrap/state"
)

// create announces a CPI call in the state, makes it, and records what it
// made. The CPI writes its reply to a file, and outlives this process: a run
// that comes after a kill reads it there.
func (r *run) create(in state.Intent, call func(*cpi.Client) (cid string, err error)) (string, error) {
	in.ID, in.Started = uuid.NewString(), time.Now().UTC().Truncate(time.Second)
	in.Reply = filepath.Join(r.dir, "replies", in.ID+".json")
	if err := os.MkdirAll(filepath.Dir(in.Reply), 0o700); err != nil {
		return "", fmt.Errorf("cannot make the folder of the CPI's replies: %w", err)
	}
	err := r.state.Update(func(st *state.State) error {
		st.Own.Intents = append(st.Own.Intents, in)
		return nil
	})
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
		cid, err := "", error(fs.ErrNotExist)
		if in.Reply != "" {
			cid, err = r.cpi.Recover(ctx, in.Method, in.Reply)
		}
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case err == nil:
			r.root.info(fmt.Sprintf("An earlier run was cut during %s; the CPI finished it: %s", in.Method, cid))
			if err := r.settle(in, cid); err != nil {
				return err
			}
			if in.Method == "create_vm" {
				if err := r.lookAtAgent(ctx); err != nil {
					return err
				}
			}
		case in.Reply != "" && errors.Is(err, fs.ErrNotExist) && exists(filepath.Dir(in.Reply)):
			// The reply's file is there before the CPI starts: it never did.
			if err := r.settle(in, ""); err != nil {
				return err
			}
		case answered(err):
			r.root.info(fmt.Sprintf("An earlier run was cut during %s, which failed: %v", in.Method, err))
			if err := r.settle(in, ""); err != nil {
				return err
			}
		default:
			r.root.warning(leftover(in))
		}
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
