package deployer

import (
	"context"
	"crypto/x509"
	"errors"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/manifest"
)

// maxPending bounds the changes of an agent's settings that are remembered
// while nobody knows whether the agent has taken them.
const maxPending = 4

// accesses lists how the agent may be reached, the likeliest first: as it was
// last, with settings that it may have taken since, and as the manifest says.
func (r *run) accesses(how kept.Agent) []agent.Access {
	first := agent.Access{MBus: how.MBus, CA: how.CA}
	list := []agent.Access{first}
	add := func(mbus, ca string) {
		// The password is for the agent at this address and for nobody else.
		if a := (agent.Access{MBus: mbus, CA: ca}); mbus != "" && a.Host() == first.Host() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for next := how.Next; next != nil && len(list) <= maxPending; next = next.Next {
		add(next.MBus, next.CA)
	}
	if r.about.MBus != "" {
		add(r.about.MBus, r.about.CA)
	}
	if how.Made != nil {
		add(how.Made.MBus, how.Made.CA)
	}
	return list
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
// it is reached. The client of an error is the one of the likeliest access.
func (r *run) findAgent(ctx context.Context, how kept.Agent, limit time.Duration, replyTo string) (*agent.Client, agent.Access, error) {
	list := r.accesses(how)
	clients := make([]*agent.Client, 0, len(list))
	for i, a := range list {
		r.opts.Secret(a.MBus)
		client, err := r.agentAt(a.MBus, agent.Trusted(list, a), replyTo)
		switch {
		case err != nil && i == 0:
			return nil, a, err
		case err == nil:
			clients = append(clients, client)
		default:
			list[i].MBus = "" // not a way to reach it
		}
	}
	list = slices.DeleteFunc(list, func(a agent.Access) bool { return a.MBus == "" })
	client, err := agent.WaitAny(ctx, limit, clients...)
	if err != nil {
		return clients[0], list[0], err
	}
	found := list[slices.Index(clients, client)]
	if len(list) == 1 {
		return client, found, nil
	}
	return r.narrow(ctx, client, found, list, replyTo)
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

// narrow returns a client that trusts only the CA that signed the certificate
// which the agent serves, where one CA alone did.
func (r *run) narrow(ctx context.Context, client *agent.Client, found agent.Access, list []agent.Access, replyTo string) (*agent.Client, agent.Access, error) {
	if found.CA == "" {
		return client, found, nil
	}
	peer, err := client.Peer(ctx)
	if err != nil {
		return client, found, nil // it has answered: with one of these CAs
	}
	if !found.Signed(peer.Certificates) {
		for _, a := range list {
			if (agent.Access{MBus: found.MBus, CA: a.CA}).Signed(peer.Certificates) {
				found.CA = a.CA
				break
			}
		}
	}
	narrowed, err := r.agentAt(found.MBus, found.CA, replyTo)
	if err != nil {
		return client, found, err
	}
	client.Close()
	return narrowed, found, nil
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
