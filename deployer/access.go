package deployer

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/reach"
	"bootstrap/manifest"
)

// accesses lists how the agent may be reached, the likeliest first.
func (r *run) accesses(how kept.Agent) []agent.Access {
	return reach.Accesses(how, r.wantedAccess())
}

// agents makes the clients of the deployment's agents.
func (r *run) agents(replyTo string) reach.Agents {
	return reach.Agents{
		Dial: r.route.Dial, TunnelErr: r.tunnelErr, TaskTimeout: r.opts.TaskTimeout, ReplyTo: replyTo,
		Redact: r.opts.Redact, Secret: r.opts.Secret, Trace: r.opts.traceAgent(), Report: r.root,
	}
}

// wantedAccess is how the agent is reached as the manifest says.
func (r *run) wantedAccess() agent.Access {
	return agent.Access{MBus: r.about.MBus, CA: r.about.CA}
}

// forgetsSettings reports whether the agent keeps its settings in memory, so
// that a reboot brings back those that the VM was made with.
func forgetsSettings(m *manifest.Manifest) bool {
	value, _ := plan.LookUp(m.ResourcePool.Env, "bosh.agent.settings.tmpfs")
	return value == true
}

// findAgent waits for the agent and returns the client that it answers, and how
// it is reached; see reach.Agents.Find.
func (r *run) findAgent(ctx context.Context, how kept.Agent, limit time.Duration, replyTo string) (*agent.Client, agent.Access, error) {
	return r.agents(replyTo).Find(ctx, r.accesses(how), limit)
}

// settleAccess finds out which of several accesses the agent answers, if any
// does, for those that only look.
func (r *run) settleAccess(ctx context.Context, how *kept.Agent, replyTo string) {
	if len(r.accesses(*how)) == 1 {
		return
	}
	client, found, err := r.findAgent(ctx, *how, min(existingAgentTimeout, r.opts.AgentTimeout), replyTo)
	if client != nil {
		client.Close()
	}
	if err == nil {
		how.MBus, how.CA = found.MBus, found.CA
	}
}

// servedBy returns the certificate that the agent serves; nil: unknown, as of
// one that restarts just now.
func servedBy(ctx context.Context, client *agent.Client) *x509.Certificate {
	if peer, err := client.Peer(ctx); err == nil && len(peer.Certificates) > 0 {
		return peer.Certificates[0]
	}
	return nil
}

// keepAccess keeps, for the next runs, how the agent of the VM has answered.
func (r *run) keepAccess(vm string, found agent.Access) error {
	now, ok := r.folder().Agent()
	if r.scratch != "" || !ok || now.VM != vm || now.Access() == found || r.state.Get().CurrentVMCID != vm {
		return nil
	}
	if next := now.Next; next != nil && next.Access() == found {
		now.Next = nil
	}
	now.MBus, now.CA = found.MBus, found.CA
	return r.keepAgent(now)
}

// agentDiffers lists the settings of the agent that are not what the manifest
// says, as the agent has shown them: what is recorded may be wrong, or from
// another machine.
func (r *run) agentDiffers() []string {
	if !r.facts.Answers {
		return nil
	}
	var list []string
	if leaf := wantedLeaf(r.manifest); leaf != nil && r.facts.Served != nil && !leaf.Equal(r.facts.Served) {
		list = append(list, plan.PartCertificate)
	}
	if r.facts.Reached.MBus != "" && r.facts.Reached.User() != r.wantedAccess().User() {
		list = append(list, plan.PartPassword)
	}
	return list
}

// unreachable reports whether the message did not get to an agent that accepts it.
func unreachable(err error) bool {
	var e *agent.UnreachableError
	return errors.As(err, &e)
}
