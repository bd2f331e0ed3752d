package deployer

import (
	"context"
	"fmt"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// asks is the method that tells whether what a call made or deletes is there.
func asks(method string) string {
	switch method {
	case "create_vm", "delete_vm":
		return "has_vm"
	case "create_disk", "update_disk", "delete_disk":
		return "has_disk"
	}
	return ""
}

// lookAtLeftovers looks again at what earlier runs could not tell: what is
// recorded or gone by now is none any more, and a delete is made again. It
// needs a CPI that is there for other reasons, and no run fails of it.
func (r *run) lookAtLeftovers(ctx context.Context) error {
	if r.cpiClient == nil {
		return nil
	}
	for _, l := range r.state.Get().Own.Leftovers {
		if ctx.Err() != nil {
			return nil
		}
		if err := r.lookAtLeftover(ctx, l); err != nil {
			r.root.Warning(fmt.Sprintf("%s of %s, a leftover of an earlier run: %v; it stays one, for bootstrap state leftovers", l.Method, utcMinute(l.Started), err))
		}
	}
	return nil
}

func (r *run) lookAtLeftover(ctx context.Context, l state.Leftover) error {
	st := r.state.Get()
	switch {
	case l.Method == "create_vm" && l.CID == "" && l.AgentID != "" && l.AgentID == st.Own.AgentID:
		return r.dropLeftover(l, "VM "+st.CurrentVMCID+" is recorded")
	case l.CID == "":
		return nil // nobody can tell
	case st.Owns(l.CID):
		return r.dropLeftover(l, l.CID+" is recorded, and what becomes of it with it")
	}
	if asks(l.Method) != "" {
		has := r.cpiClient.HasDisk
		if asks(l.Method) == "has_vm" {
			has = r.cpiClient.HasVM
		}
		there, err := has(ctx, l.CID)
		switch {
		case err != nil && !deletes(l.Intent):
			return nil // nothing new
		case err == nil && !there:
			return r.dropLeftover(l, l.CID+" does not exist any more")
		}
	}
	if !deletes(l.Intent) {
		return nil // a person decides
	}
	return r.root.Do(fmt.Sprintf("Deleting '%s', a leftover of an earlier run", l.CID), func(*report.Stage) error {
		in := state.Intent{Method: l.Method, CID: l.CID}
		call := func(c *cpi.Client) error { return deleteCall(ctx, c, l.Method, l.CID) }
		return r.destroy(ctx, in, call, "not found", func(st *state.State) { forgetLeftover(st, l.ID) })
	})
}

func deleteCall(ctx context.Context, c *cpi.Client, method, cid string) error {
	switch method {
	case "delete_vm":
		return c.DeleteVM(ctx, cid)
	case "delete_disk":
		return c.DeleteDisk(ctx, cid)
	case "delete_stemcell":
		return c.DeleteStemcell(ctx, cid)
	}
	return fmt.Errorf("nothing is known of %s", method)
}

func (r *run) dropLeftover(l state.Leftover, why string) error {
	err := r.state.Update(func(st *state.State) error {
		forgetLeftover(st, l.ID)
		return nil
	})
	if err == nil {
		r.root.Info(fmt.Sprintf("What an earlier run left of %s is settled: %s", l.Method, why))
	}
	return err
}

func forgetLeftover(st *state.State, id string) {
	st.Own.Leftovers = slices.DeleteFunc(st.Own.Leftovers, func(l state.Leftover) bool { return l.ID == id })
}
