package deployer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/deployment/dns"
	"bootstrap/internal/wait"
	"bootstrap/manifest"
	"bootstrap/state"
)

// vms creates, tags and deletes VMs.
type vms struct {
	*work
	agents       *instance.Agents
	cpi          *instance.CPI
	stemcells    *stemcells
	addresses    *reservations
	ledgers      *instance.Addresses
	deletedAgent string         // agent id of the VM that this run has deleted
	sized        map[string]any // cloud_properties that the CPI has chosen; nil: it was not asked
	untagged     bool           // the tags of the new VM could not be set
}

// properties returns the cloud_properties of a new VM. If the manifest names only the
// resources that it needs, the CPI is asked once for theirs.
func (v *vms) properties(ctx context.Context) (map[string]any, error) {
	resources, zone, set := v.in.Manifest.Resources()
	if resources == nil {
		return v.in.Manifest.ResourcePool.CloudProperties, nil
	}
	if v.sized == nil {
		c, err := v.cpi.Client(ctx)
		if err != nil {
			return nil, err
		}
		chosen, err := c.VMProperties(ctx, resources)
		if cpi.NotImplemented(err) {
			return nil, fmt.Errorf("cannot choose a VM by its vm_resources: %w; name a vm_type of the cloud config in the instance group %s", err, v.in.Manifest.Group.Name)
		}
		if err != nil {
			return nil, err
		}
		v.sized = maps.Clone(zone)
		maps.Copy(v.sized, chosen)
		maps.Copy(v.sized, set)
	}
	return v.sized, nil
}

// neverAnswered returns the error for a new VM whose agent does not answer.
func (v *vms) neverAnswered(vm string, found error) error {
	err := &plan.AgentSilentError{VM: vm, Err: found, Next: nextAgain}
	if _, foreign := errors.AsType[*instance.ForeignAgentError](found); foreign {
		err.Next = nextForeign
	}
	return err
}

// create creates the VM and records it at once. Most CPIs have no has_stemcell: often
// only this call shows that a stemcell does not exist any more.
func (v *vms) create(ctx context.Context, s plan.Step) error {
	err := v.make(ctx, s.With)
	st := v.rec.State.Get()
	sc := st.FindStemcell(v.artifacts.Stemcell.Name, v.artifacts.Stemcell.Version)
	var refused *cpi.Error
	switch {
	case !errors.As(err, &refused):
		return err
	case sc == nil || v.stemcells.made:
		return v.afterRefusal(s.With, err, "")
	case cpi.StemcellGone(err, sc.CID):
		v.stemcells.miss(sc.CID)
	case s.With.Fix && !s.With.OldServes:
		v.rec.Out.Warning(fmt.Sprintf("the CPI refused to create the VM (%v): uploading stemcell %s again", err, sc.CID))
		v.stemcells.gone = sc.CID // The CPI fails to delete it, or another instance still records it.
		_ = v.stemcells.delete(ctx, v.rec.Out.Open, "Deleting stemcell '%s'", *sc)
	default:
		return v.afterRefusal(s.With, err, sc.CID)
	}
	if err := v.stemcells.upload(ctx, s); err != nil {
		return v.afterRefusal(s.With, err, "")
	}
	return v.afterRefusal(s.With, v.make(ctx, s.With), "")
}

// afterRefusal adds to an error of the CPI whether the old VM still exists, and what to
// do. stemcell is the CID of a stemcell that may not exist any more; empty: it exists.
func (v *vms) afterRefusal(with plan.With, err error, stemcell string) error {
	var refused *cpi.Error
	if !errors.As(err, &refused) {
		return err
	}
	text := "correct what the CPI refuses, then run `bootstrap deploy MANIFEST` again"
	if with.Gone {
		text = "the old VM is deleted, its disk is kept: " + text
	}
	if stemcell != "" && !with.OldServes {
		text += fmt.Sprintf("; if it means that stemcell %s does not exist any more, `bootstrap deploy MANIFEST --fix` uploads it again", stemcell)
	}
	return fmt.Errorf("%w; %s", err, text)
}

func (v *vms) make(ctx context.Context, with plan.With) error {
	st := v.rec.State.Get()
	sc := st.FindStemcell(v.artifacts.Stemcell.Name, v.artifacts.Stemcell.Version)
	if sc == nil {
		return fmt.Errorf("stemcell %s/%s is not recorded as uploaded", v.artifacts.Stemcell.Name, v.artifacts.Stemcell.Version)
	}
	m := v.in.Manifest
	properties, err := v.properties(ctx)
	if err != nil {
		return err
	}
	var notes []string
	err = v.rec.Out.Do(fmt.Sprintf("Creating VM for instance '%s' from stemcell '%s'", m.Instance(), sc.CID), func(*report.Stage) error {
		req := cpi.VMRequest{
			AgentID:         uuid.NewString(),
			StemcellCID:     sc.CID,
			CloudProperties: properties,
			Networks:        v.networks(with.OldServes),
			Env:             vmEnv(m),
		}
		req.DiskCIDs = with.Disks // so that the VM is created at the place of the disks
		if err := v.agents.Expect(req.AgentID); err != nil {
			return fmt.Errorf("cannot save how the agent is reached: %w", err)
		}
		v.addresses.used = true // even if create_vm fails, a VM may have the addresses
		cid, err := v.journal.Create(ctx, state.Intent{Method: "create_vm", Arguments: v.vmArguments(), AgentID: req.AgentID, StemcellID: sc.ID, Group: m.Group.Name, Made: v.want.Made, Replaces: with.OldServes}, func(c *cpi.Client) (string, error) {
			vm, err := c.CreateVM(ctx, req)
			notes = vm.Notes
			return vm.CID, err
		})
		if err != nil {
			return err
		}
		v.vm = cid
		if err := v.agents.Remember(cid); err != nil {
			return fmt.Errorf("cannot save how the agent is reached: %w", err)
		}
		v.tag(ctx, cid)
		return nil
	})
	for _, note := range notes {
		v.rec.Out.Info(fmt.Sprintf("%s; the reasons are in %s", note, v.cpi.LogFile()))
	}
	return err
}

// networks returns the networks for create_vm, with hints for dynamic ones unless the old
// VM still has these addresses.
func (v *vms) networks(oldHas bool) map[string]map[string]any {
	list := v.in.Manifest.Interfaces()
	for name, ip := range v.hints {
		if !oldHas {
			list[name]["ip"] = ip
		}
	}
	return list
}

// tag sets the tags of the VM in the cloud; a failure is only a warning.
func (v *vms) tag(ctx context.Context, cid string) {
	c, err := v.cpi.Client(ctx)
	if err == nil {
		err = c.SetVMMetadata(ctx, cid, v.tags())
	}
	v.untagged = err != nil && !cpi.NotImplemented(err)
	if v.untagged && ctx.Err() == nil { // After an interruption, the next deploy sets the tags.
		v.rec.Out.Warning(fmt.Sprintf("cannot tag VM %s: %v", cid, err))
	}
}

// vmEnv returns the env of create_vm.
func vmEnv(m *manifest.Manifest) map[string]any {
	env := withTags(m.ResourcePool.Env, m.Tags)
	if m.Identity == nil {
		return env
	}
	// As with a Director: some CPIs place the VMs of a group on different hosts.
	bosh, _ := env["bosh"].(map[string]any)
	bosh = maps.Clone(bosh)
	if bosh == nil {
		bosh = map[string]any{}
	}
	director, deployment, group := dns.Label(director), dns.Label(m.Name), dns.Label(m.Group.Name)
	bosh["group"] = director + "-" + deployment + "-" + group
	bosh["groups"] = []string{director, deployment, group, director + "-" + deployment, deployment + "-" + group, director + "-" + deployment + "-" + group}
	env["bosh"] = bosh
	return env
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
func (v *vms) waitForAgent(ctx context.Context) error {
	if err := v.cpi.OpenTunnel(ctx, v.in.Manifest.CPI.SSHTunnel); err != nil {
		return err
	}
	cid := v.vm
	client, err := v.agents.New(v.rec.About.MBus, v.rec.About.CA)
	if err != nil {
		return err
	}
	return v.rec.Out.Do(fmt.Sprintf("Waiting for the agent on VM '%s' to be ready", cid), func(s *report.Stage) error {
		if err := v.waitForOwn(ctx, s, client); err != nil {
			if ctx.Err() != nil {
				return err
			}
			v.suspectLeftovers()
			return v.neverAnswered(cid, err)
		}
		v.agent = client
		return v.rec.State.Update(func(st *state.State) error {
			st.Own.Reached = true
			return nil
		})
	})
}

// suspectLeftovers warns that VMs of earlier runs may use the address of a new VM that
// does not answer.
func (v *vms) suspectLeftovers() {
	for _, l := range v.rec.State.Get().Own.Leftovers {
		if l.Method == "create_vm" {
			v.rec.Out.Warning(fmt.Sprintf("a VM that an earlier run may have made (agent id %s, %s) may use the address of this one: look for it in the cloud; `bootstrap state leftovers MANIFEST` lists it", l.AgentID, report.Minute(l.Started)))
		}
	}
}

// waitForOwn waits until the agent of the new VM answers. Another VM may have used the
// address before, and its agent may still answer.
func (v *vms) waitForOwn(ctx context.Context, s *report.Stage, client *agent.Client) error {
	waiting := s.Wait(ctx)
	defer waiting.End()
	want := v.rec.State.Get().Own.AgentID
	until := time.Now().Add(v.rec.Env.AgentTimeout)
	var foreign foreignSince
	for {
		if err := client.WaitReady(ctx, max(time.Until(until), time.Second), waiting.Probe); err != nil {
			return err
		}
		now, err := client.GetState(ctx, false)
		if err == nil {
			if err = instance.OwnAgent(client, now, want); err == nil {
				return nil
			}
		}
		waiting.Say(err.Error())
		if foreign.lasts(err, v.deletedAgent) || time.Now().After(until) {
			return err
		}
		if err := wait.For(ctx, instance.OwnPause); err != nil {
			return err
		}
	}
}

// foreignTime is how long another VM's agent may answer at the address of a new VM.
// deletedTime is the limit for a VM that this run has deleted: some clouds end a VM only
// after they have reported it as deleted.
const (
	foreignTime = 15 * time.Second
	deletedTime = 2 * time.Minute
)

// foreignSince measures how long the same other agent has been answering.
type foreignSince struct {
	id    string
	since time.Time
}

// lasts reports whether another VM's agent has been answering for longer than
// foreignTime, or deletedTime.
func (f *foreignSince) lasts(found error, deleted string) bool {
	other, ok := errors.AsType[*instance.ForeignAgentError](found)
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
