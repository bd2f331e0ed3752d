package deployer

import (
	"context"
	"fmt"
	"maps"
	"strconv"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/report"
)

// awaitAgent waits until the agent answers, and reports the causes of the wait. why is
// the call that may have restarted the VM; empty: none.
func (w *work) awaitAgent(ctx context.Context, s *report.Stage, client *agent.Client, limit time.Duration, why string) error {
	waiting := s.Wait(ctx)
	defer waiting.End()
	return client.WaitReady(ctx, limit, func(met agent.Probe) {
		waiting.Probe(met)
		if why != "" {
			waiting.Say(fmt.Sprintf("the agent does not answer yet after %s: %s", why, met))
		}
	})
}

func (w *work) warn(err error) {
	if err != nil {
		w.rec.Out.Warning(err.Error() + "; it stays recorded and the next run tries again")
	}
}

// vmArguments returns the digest of the arguments of create_vm.
func (w *work) vmArguments() string {
	m := w.in.Manifest
	return w.journal.Arguments("create_vm", w.artifacts.Stemcell.Name, w.artifacts.Stemcell.Version, m.ResourcePool.CloudProperties, m.Interfaces(), vmEnv(m))
}

// director is the name of the Director in the tags of VMs, as create-env sets it.
const director = "bosh-init"

// tags returns the tags of a VM, as create-env sets them.
func (w *work) tags() map[string]string {
	m := w.in.Manifest
	tags := map[string]string{
		"deployment":     m.Name,
		"job":            m.Group.Name,
		"instance_group": m.Group.Name,
		"index":          strconv.Itoa(m.Index()),
		"director":       director,
		"name":           m.Instance(),
		"created_at":     time.Now().Format(time.RFC3339),
	}
	if m.Identity != nil { // as with a Director
		tags["id"], tags["name"] = m.Identity.ID, m.Group.Name+"/"+m.Identity.ID
	}
	maps.Copy(tags, m.Tags)
	return tags
}
