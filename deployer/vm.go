package deployer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/state"
	"bootstrap/tunnel"
)

// clearRecord takes back that the deployment is current, so that no tool
// skips a deploy that was cut half-way.
func (r *run) clearRecord(context.Context) error {
	return r.state.Update(func(st *state.State) error {
		st.CurrentManifestSHA = ""
		st.CurrentReleaseIDs = nil
		st.Releases = nil
		return nil
	})
}

// stopOldVM stops the jobs on the VM that makes way and unmounts its disks,
// in the order of the job lifecycle. A VM without an answering agent is left
// to the CPI.
func (r *run) stopOldVM(ctx context.Context) error {
	cid := r.state.Get().CurrentVMCID
	if cid == "" || !r.facts.hasVM {
		return nil
	}
	if !r.facts.agentTold {
		r.root.warning(fmt.Sprintf("the jobs on VM %s are not stopped and its disk is not unmounted: its agent does not answer", cid))
		return r.detachDisk(ctx, cid)
	}
	instance := r.manifest.Group.Name + "/0"
	old := r.running
	if !r.opts.SkipDrain {
		err := r.do(fmt.Sprintf("Running the pre-stop scripts '%s'", instance), func(*stage) error {
			return script(old.RunScript(ctx, "pre-stop", r.nextState()))
		})
		if err != nil {
			return err
		}
		err = r.do(fmt.Sprintf("Draining jobs on instance '%s'", instance), func(*stage) error {
			return old.Drain(ctx, "shutdown", nil)
		})
		if err != nil {
			return fmt.Errorf("%w; --skip-drain stops without pre-stop and drain", err)
		}
	}
	err := r.do(fmt.Sprintf("Stopping jobs on instance '%s'", instance), func(s *stage) error { return stopJobs(ctx, old, s) })
	if err != nil {
		return err
	}
	err = r.do(fmt.Sprintf("Running the post-stop scripts '%s'", instance), func(*stage) error {
		return script(old.RunScript(ctx, "post-stop", r.nextState()))
	})
	if err != nil {
		return err
	}
	disks, err := old.ListDisk(ctx)
	if err != nil {
		return fmt.Errorf("cannot ask which disks are mounted: %w", err)
	}
	for _, d := range disks {
		if err := r.do(fmt.Sprintf("Unmounting disk '%s'", d), func(*stage) error { return old.UnmountDisk(ctx, d) }); err != nil {
			return err
		}
	}
	return nil
}

// stopJobs stops and waits. Processes that do not stop are named, and do not
// keep the VM from being replaced.
func stopJobs(ctx context.Context, a *agent.Client, s *stage) error {
	err := a.Stop(ctx)
	var notStopped *agent.StopError
	if !errors.As(err, &notStopped) {
		return err
	}
	s.warning(fmt.Sprintf("not everything stopped: %v; going on without waiting", err))
	return a.StopAsync(ctx)
}

// nextState is what the scripts of a stop are told of what comes after it
// (the Director's names; docs of pre-stop).
func (r *run) nextState() map[string]string {
	after := "keep"
	if r.manifest != nil && r.stemcell == nil { // a delete fetches no stemcell
		after = "delete"
	}
	return map[string]string{"BOSH_VM_NEXT_STATE": "delete", "BOSH_INSTANCE_NEXT_STATE": after, "BOSH_DEPLOYMENT_NEXT_STATE": after}
}

// script forgives an agent that is too old to run scripts.
func script(err error) error {
	if agent.UnknownMessage(err) {
		return skip("the agent runs no scripts")
	}
	return err
}

func (r *run) detachDisk(ctx context.Context, vm string) error {
	st := r.state.Get()
	d := st.Disk()
	if d == nil {
		return nil
	}
	return r.do(fmt.Sprintf("Detaching disk '%s'", d.CID), func(*stage) error {
		err := r.cpi.DetachDisk(ctx, vm, d.CID)
		if cpi.NotFound(err) || cpi.NotImplemented(err) {
			return skip("not attached")
		}
		return err
	})
}

// deleteOldVM deletes the recorded VM; it is forgotten when the CPI confirms.
func (r *run) deleteOldVM(ctx context.Context) error {
	cid := r.state.Get().CurrentVMCID
	if cid == "" {
		return nil
	}
	return r.do(fmt.Sprintf("Deleting VM '%s'", cid), func(*stage) error {
		// What stays of it there does no harm: no other VM has this CID.
		_ = tunnel.Forget(filepath.Join(r.dir, "known_hosts"), cid)
		in := state.Intent{Method: "delete_vm", CID: cid}
		call := func(c *cpi.Client) error { return c.DeleteVM(ctx, cid) }
		return r.destroy(ctx, in, call, "VM not found", func(st *state.State) {
			st.CurrentVMCID = ""
			st.Own.AgentID, st.Own.Address, st.Own.Reached = "", "", false
		})
	})
}

// createVM makes the VM and records it at once.
func (r *run) createVM(ctx context.Context) error {
	st := r.state.Get()
	sc := st.FindStemcell(r.stemcell.Name, r.stemcell.Version)
	if sc == nil {
		return fmt.Errorf("stemcell %s/%s is not recorded as uploaded", r.stemcell.Name, r.stemcell.Version)
	}
	m := r.manifest
	return r.do(fmt.Sprintf("Creating VM for instance '%s/0' from stemcell '%s'", m.Group.Name, sc.CID), func(*stage) error {
		req := cpi.VMRequest{
			AgentID:         uuid.NewString(),
			StemcellCID:     sc.CID,
			CloudProperties: m.ResourcePool.CloudProperties,
			Networks:        m.Interfaces(),
			Env:             withTags(m.ResourcePool.Env, m.Tags),
		}
		if d := st.Disk(); d != nil {
			req.DiskCIDs = []string{d.CID} // so that the VM is placed where the disk is
		}
		cid, err := r.create(state.Intent{Method: "create_vm", AgentID: req.AgentID, StemcellID: sc.ID, Group: m.Group.Name}, func(c *cpi.Client) (string, error) {
			vm, err := c.CreateVM(ctx, req)
			return vm.CID, err
		})
		if err != nil {
			return err
		}
		if err := r.rememberAgent(cid); err != nil {
			return fmt.Errorf("cannot keep how the agent is reached: %w", err)
		}
		err = r.cpi.SetVMMetadata(ctx, cid, r.metadata())
		if err != nil && !cpi.NotImplemented(err) {
			r.root.warning(fmt.Sprintf("VM %s has no tags: %v", cid, err))
		}
		return nil
	})
}

// metadata are the tags of a VM, as create-env sets them.
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

// withTags puts the manifest's tags at env.bosh.tags, as create-env does.
func withTags(env map[string]any, tags map[string]string) map[string]any {
	env = maps.Clone(env)
	if env == nil {
		env = map[string]any{}
	}
	if len(tags) == 0 {
		return env
	}
	bosh, _ := env["bosh"].(map[string]any) // manifest checked that it is a map
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
	if r.agent != nil {
		return nil
	}
	cid := r.state.Get().CurrentVMCID
	client, err := r.newAgent(r.manifest.CPI.MBus, r.manifest.CPI.CA)
	if err != nil {
		return err
	}
	return r.do(fmt.Sprintf("Waiting for the agent on VM '%s' to be ready", cid), func(s *stage) error {
		told := &patience{tell: s.info}
		defer time.AfterFunc(patientFor, told.end).Stop()
		if err := client.WaitReady(ctx, r.opts.AgentTimeout, told.met); err != nil {
			return err
		}
		r.agent = client
		return r.state.Update(func(st *state.State) error {
			st.Own.Reached = true
			return nil
		})
	})
}

// patientFor is how long a new VM may be silent without a word: most are, for
// a moment.
const patientFor = 3 * time.Second

// patience tells what probes meet, once a VM has had its moment.
type patience struct {
	mu   sync.Mutex
	last string // what was met and not told
	over bool
	tell func(string)
}

func (p *patience) met(probe agent.Probe) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = fmt.Sprintf("  the agent does not answer yet: %s (%v)", probe.Cause, probe.Err)
	p.say()
}

func (p *patience) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.over = true
	p.say()
}

func (p *patience) say() {
	if p.over && p.last != "" {
		p.tell(p.last)
		p.last = ""
	}
}
