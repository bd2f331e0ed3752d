package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/wait"
	"bootstrap/state"
	"bootstrap/tunnel"
)

// clearRecord records that no manifest is deployed as a whole, so that no tool
// skips the deploy after an interrupted one.
func (r *run) clearRecord(context.Context) error {
	return r.state.Update(func(st *state.State) error {
		st.CurrentManifestSHA = ""
		st.CurrentReleaseIDs = nil
		st.Releases = nil
		return nil
	})
}

// deleteCurrentVM deletes the recorded VM, and forgets it when the CPI has
// confirmed that.
func (r *run) deleteCurrentVM(ctx context.Context) error {
	r.deletedAgent = cmp.Or(r.state.Get().Own.AgentID, r.facts.Now.AgentID)
	return r.deleteVM(ctx, r.stage, r.state.Get().CurrentVMCID)
}

// deleteOldVM deletes the VM that the current one has replaced.
func (r *run) deleteOldVM(ctx context.Context) error {
	old := r.state.Get().Own.Swap
	if old == nil {
		return nil
	}
	return r.deleteVM(ctx, r.stage, old.CID)
}

func (r *run) deleteVM(ctx context.Context, in *report.Stage, cid string) error {
	if cid == "" {
		return nil
	}
	return in.Do(fmt.Sprintf("Deleting VM '%s'", cid), func(*report.Stage) error {
		// Files that stay there do no harm, because no other VM has this CID.
		_ = tunnel.Forget(filepath.Join(r.dir, "known_hosts"), cid)
		in := state.Intent{Method: "delete_vm", CID: cid}
		call := func(c *cpi.Client) error { return c.DeleteVM(ctx, cid) }
		return r.journal.Delete(ctx, in, call)
	})
}

// createVM creates the VM and records it at once. Few CPIs have has_stemcell:
// often only this call shows that a stemcell does not exist any more.
func (r *run) createVM(ctx context.Context) error {
	err := r.makeVM(ctx)
	st := r.state.Get()
	sc := st.FindStemcell(r.stemcell.Name, r.stemcell.Version)
	var refused *cpi.Error
	switch {
	case !errors.As(err, &refused):
		return err
	case sc == nil || r.stemcellMade:
		return r.afterRefusal(err, "")
	case cpi.StemcellGone(err, sc.CID):
		r.missStemcell(sc.CID)
	case r.opts.Fix && !r.plan.Swap:
		r.root.Warning(fmt.Sprintf("the CPI does not create the VM (%v): uploading stemcell %s again", err, sc.CID))
		if err := r.deleteStemcell(ctx, r.stage, "Deleting stemcell '%s'", *sc); err != nil {
			r.stemcellGone = sc.CID // or else the CPI would fail to delete it again
		}
	default:
		return r.afterRefusal(err, sc.CID)
	}
	if err := r.uploadStemcell(ctx); err != nil {
		return r.afterRefusal(err, "")
	}
	return r.afterRefusal(r.makeVM(ctx), "")
}

// afterRefusal adds to an error of the CPI whether there still is a VM, and
// what to do. stemcell is the CID of a stemcell that may not exist any more;
// empty: it does.
func (r *run) afterRefusal(err error, stemcell string) error {
	var refused *cpi.Error
	if !errors.As(err, &refused) {
		return err
	}
	text := "correct what the CPI refuses, then run `bootstrap deploy MANIFEST` again"
	if r.plan.On(plan.VM) == plan.Replace && !r.plan.Swap {
		text = "the old VM is deleted, its disk is kept: " + text
	}
	if stemcell != "" && !r.plan.Swap {
		text += fmt.Sprintf("; if it means that stemcell %s is gone from the cloud, `bootstrap deploy MANIFEST --fix` uploads it again", stemcell)
	}
	return fmt.Errorf("%w; %s", err, text)
}

func (r *run) makeVM(ctx context.Context) error {
	st := r.state.Get()
	sc := st.FindStemcell(r.stemcell.Name, r.stemcell.Version)
	if sc == nil {
		return fmt.Errorf("stemcell %s/%s is not recorded as uploaded", r.stemcell.Name, r.stemcell.Version)
	}
	m := r.manifest
	return r.do(fmt.Sprintf("Creating VM for instance '%s/0' from stemcell '%s'", m.Group.Name, sc.CID), func(*report.Stage) error {
		req := cpi.VMRequest{
			AgentID:         uuid.NewString(),
			StemcellCID:     sc.CID,
			CloudProperties: m.ResourcePool.CloudProperties,
			Networks:        m.Interfaces(),
			Env:             withTags(m.ResourcePool.Env, m.Tags),
		}
		if d := st.Disk(); d != nil && m.Group.Disk != nil {
			req.DiskCIDs = []string{d.CID} // so that the VM is placed where the disk is
		}
		if err := r.expectAgent(req.AgentID); err != nil {
			return fmt.Errorf("cannot save how the agent is reached: %w", err)
		}
		cid, err := r.journal.Create(ctx, state.Intent{Method: "create_vm", Arguments: r.vmArguments(), AgentID: req.AgentID, StemcellID: sc.ID, Group: m.Group.Name, Made: r.want.Made, Replaces: r.plan.Swap}, func(c *cpi.Client) (string, error) {
			vm, err := c.CreateVM(ctx, req)
			return vm.CID, err
		})
		if err != nil {
			return err
		}
		if err := r.rememberAgent(cid); err != nil {
			return fmt.Errorf("cannot save how the agent is reached: %w", err)
		}
		r.tagVM(ctx, cid)
		return nil
	})
}

// vmArguments returns the digest of the arguments of create_vm.
func (r *run) vmArguments() string {
	m := r.manifest
	return r.journal.Arguments("create_vm", r.stemcell.Name, r.stemcell.Version, m.ResourcePool.CloudProperties, m.Interfaces(), withTags(m.ResourcePool.Env, m.Tags))
}

// tagVM sets the tags of the VM in the cloud; a failure is only a warning.
func (r *run) tagVM(ctx context.Context, cid string) {
	c, err := r.cpi(ctx)
	if err == nil {
		err = c.SetVMMetadata(ctx, cid, r.metadata())
	}
	if err != nil && ctx.Err() == nil && !cpi.NotImplemented(err) { // after an interrupt, the next deploy tags it
		r.root.Warning(fmt.Sprintf("cannot tag VM %s: %v", cid, err))
	}
}

// updateTags sets the tags of an existing VM and its disk again.
func (r *run) updateTags(ctx context.Context) error {
	st := r.state.Get()
	return r.do(fmt.Sprintf("Updating the tags of VM '%s'", st.CurrentVMCID), func(*report.Stage) error {
		r.tagVM(ctx, st.CurrentVMCID)
		if d := st.Disk(); d != nil {
			r.tagDisk(ctx, d.CID)
		}
		return nil
	})
}

// metadata returns the tags of a VM, as create-env sets them.
func (r *run) metadata() map[string]string {
	m := r.manifest
	tags := map[string]string{
		"deployment":     m.Name,
		"job":            m.Group.Name,
		"instance_group": m.Group.Name,
		"index":          "0",
		"director":       "bosh-init",
		"name":           m.Group.Name + "/0",
		"created_at":     time.Now().Format(time.RFC3339),
	}
	maps.Copy(tags, m.Tags)
	return tags
}

// withTags adds the manifest's tags at env.bosh.tags, as create-env does.
func withTags(env map[string]any, tags map[string]string) map[string]any {
	env = maps.Clone(env)
	if env == nil {
		env = map[string]any{}
	}
	if len(tags) == 0 {
		return env
	}
	bosh, _ := env["bosh"].(map[string]any) // package manifest has checked that it is a map
	bosh = maps.Clone(bosh)
	if bosh == nil {
		bosh = map[string]any{}
	}
	bosh["tags"] = tags
	env["bosh"] = bosh
	return env
}

// waitForAgent waits until the new VM's agent answers.
func (r *run) waitForAgent(ctx context.Context) error {
	if err := r.openTunnel(ctx); err != nil {
		return err
	}
	cid := r.state.Get().CurrentVMCID
	client, err := r.newAgent(r.about.MBus, r.about.CA)
	if err != nil {
		return err
	}
	return r.do(fmt.Sprintf("Waiting for the agent on VM '%s' to be ready", cid), func(s *report.Stage) error {
		if err := r.waitForOwn(ctx, s, client); err != nil {
			if ctx.Err() != nil {
				return err
			}
			r.suspectLeftovers()
			return r.neverAnswered(cid, err)
		}
		r.agent = client
		return r.state.Update(func(st *state.State) error {
			st.Own.Reached = true
			return nil
		})
	})
}

// suspectLeftovers warns of VMs that earlier runs may have created, and that
// may use the address of a new VM that does not answer.
func (r *run) suspectLeftovers() {
	for _, l := range r.state.Get().Own.Leftovers {
		if l.Method == "create_vm" {
			r.root.Warning(fmt.Sprintf("a VM that an earlier run may have made (agent id %s, %s) may hold the address of this one: look for it in the cloud; `bootstrap state leftovers MANIFEST` lists it", l.AgentID, report.Minute(l.Started)))
		}
	}
}

// waitForOwn waits until the agent of the new VM answers: at an address that is
// used again, another VM's agent may still answer.
func (r *run) waitForOwn(ctx context.Context, s *report.Stage, client *agent.Client) error {
	told := s.Wait(ctx)
	defer told.End()
	want := r.state.Get().Own.AgentID
	until := time.Now().Add(r.opts.AgentTimeout)
	var foreign foreignSince
	for {
		if err := client.WaitReady(ctx, max(time.Until(until), time.Second), told.Probe); err != nil {
			return err
		}
		now, err := client.GetState(ctx, false)
		if err == nil {
			if err = ownAgent(client, now, want); err == nil {
				return nil
			}
		}
		told.Say(err.Error())
		if foreign.lasts(err, r.deletedAgent) || time.Now().After(until) {
			return err
		}
		if err := wait.For(ctx, ownPause); err != nil {
			return err
		}
	}
}

// ownPause is how long to wait before an agent is asked again for its id.
const ownPause = time.Second

// foreignTime is how long another VM's agent may answer at the address of a new
// VM. deletedTime is the same for a VM that this run has deleted: some clouds
// end a VM only after they have reported it as deleted.
const (
	foreignTime = 15 * time.Second
	deletedTime = 2 * time.Minute
)

// foreignSince measures how long the same other VM's agent has answered.
type foreignSince struct {
	id    string
	since time.Time
}

// lasts reports whether another VM's agent has answered for longer than
// foreignTime, or deletedTime.
func (f *foreignSince) lasts(found error, deleted string) bool {
	other, ok := errors.AsType[*ForeignAgentError](found)
	if !ok {
		f.id = ""
		return false
	}
	if other.Got != f.id {
		f.id, f.since = other.Got, time.Now()
	}
	limit := foreignTime
	if other.Got == deleted {
		limit = deletedTime
	}
	return time.Since(f.since) >= limit
}
