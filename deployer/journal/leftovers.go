package journal

import (
	"context"
	"fmt"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

// LookAtLeftovers checks the leftovers of earlier runs again. It removes a leftover if
// its object is recorded or does not exist any more, and repeats a delete. It does
// nothing if the CPI is not connected, and errors are only warnings.
func (j *Journal) LookAtLeftovers(ctx context.Context) error {
	if !j.Connected() {
		return nil
	}
	for _, l := range j.State.Get().Own.Leftovers {
		if ctx.Err() != nil {
			return nil
		}
		if err := j.lookAtLeftover(ctx, l); err != nil {
			j.Report.Warning(fmt.Sprintf("cannot settle the leftover %s of %s: %v; `bootstrap state leftovers MANIFEST` lists it", l.Method, report.Minute(l.Started), err))
		}
	}
	return nil
}

func (j *Journal) lookAtLeftover(ctx context.Context, l state.Leftover) error {
	st := j.State.Get()
	switch {
	case l.Call().Effect == state.Creates && l.CID == "" && l.AgentID != "" && l.AgentID == st.Own.AgentID:
		return j.dropLeftover(l, "VM "+st.CurrentVMCID+" is recorded")
	case l.CID == "":
		return nil // Without a CID it cannot be checked.
	case st.Owns(l.CID):
		return j.dropLeftover(l, l.CID+" is recorded")
	}
	c, err := j.CPI(ctx)
	if err != nil {
		return err
	}
	if has := asking(c, l.Intent); has != nil {
		there, err := has(ctx, l.CID)
		switch {
		case err != nil && l.Call().Effect != state.Deletes:
			return nil // The CPI cannot answer that.
		case err == nil && !there:
			return j.dropLeftover(l, l.CID+" does not exist any more")
		}
	}
	if l.Call().Effect != state.Deletes {
		return nil // The user decides.
	}
	return j.Report.Do(fmt.Sprintf("Deleting '%s', a leftover of an earlier run", l.CID), func(*report.Stage) error {
		in := state.Intent{Method: l.Method, CID: l.CID}
		call := func(c *cpi.Client) error { return deleteCall(ctx, c, l.Method, l.CID) }
		return j.delete(ctx, in, call, func(st *state.State) { forgetLeftover(st, l.ID) })
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
	case "delete_snapshot":
		return c.DeleteSnapshot(ctx, cid)
	}
	return fmt.Errorf("unknown CPI method %s", method)
}

func (j *Journal) dropLeftover(l state.Leftover, why string) error {
	err := j.State.Update(func(st *state.State) error {
		forgetLeftover(st, l.ID)
		return nil
	})
	if err == nil {
		j.Report.Info(fmt.Sprintf("The leftover of an earlier %s is removed from the list: %s", l.Method, why))
	}
	return err
}

func forgetLeftover(st *state.State, id string) {
	st.Own.Leftovers = slices.DeleteFunc(st.Own.Leftovers, func(l state.Leftover) bool { return l.ID == id })
}

// searchFor says how a person can find an object that a call may have created.
func (j *Journal) searchFor(in state.Intent) string {
	what := in.Sought()
	if d := j.About(); in.Call().Thing == "VM" && d.Name != "" {
		what += fmt.Sprintf(" or the tags deployment=%s, instance_group=%s", d.Name, in.Group)
	}
	return fmt.Sprintf("look in the cloud for %s made at about %s", what, report.Minute(in.Started))
}
