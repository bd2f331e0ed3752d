package instance

import (
	"context"
	"crypto/x509"
	"errors"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/access"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/reach"
)

// Agents has the URLs and credentials of a deployment's agents: those of the manifest,
// and those that this machine has recorded.
type Agents struct {
	rec       *Record
	tunnelErr func() error // why the tunnel to the new VM is down; nil: it is not
}

// accesses lists the URLs and CAs with which the agent may be reached, the likeliest
// first.
func (a *Agents) accesses(how kept.Agent) []agent.Access {
	return reach.Accesses(how, a.Wanted())
}

// clients returns a factory of clients for the deployment's agents.
func (a *Agents) clients(replyTo string) reach.Agents {
	return reach.Agents{
		Dial: a.rec.dialAgent(), TunnelErr: a.tunnelErr, TaskTimeout: a.rec.Env.TaskTimeout, ReplyTo: replyTo,
		Redact: a.rec.Env.Redact, Secret: a.rec.Env.Secret, Trace: a.rec.Env.traceAgent(), Report: a.rec.Out.Root,
	}
}

// Wanted returns the URL and the CA of the agent according to the manifest.
func (a *Agents) Wanted() agent.Access {
	return agent.Access{MBus: a.rec.About.MBus, CA: a.rec.About.CA}
}

// Find waits for the agent. It returns the client that the agent answers, and its URL and
// CA; see reach.Agents.Find.
func (a *Agents) Find(ctx context.Context, how kept.Agent, limit time.Duration, replyTo string) (*agent.Client, agent.Access, error) {
	return a.clients(replyTo).Find(ctx, a.accesses(how), limit)
}

// Settle finds out to which of several accesses the agent answers, if to any, for
// commands that change nothing.
func (a *Agents) Settle(ctx context.Context, how *kept.Agent, replyTo string) {
	if len(a.accesses(*how)) == 1 {
		return
	}
	client, found, err := a.Find(ctx, *how, min(ExistingAgentTimeout, a.rec.Env.AgentTimeout), replyTo)
	if client != nil {
		client.Close()
	}
	if err == nil {
		how.MBus, how.CA = found.MBus, found.CA
	}
}

// servedBy returns the agent's certificate; nil: unknown, for example because the agent
// is restarting.
func servedBy(ctx context.Context, client *agent.Client) *x509.Certificate {
	if peer, err := client.Peer(ctx); err == nil && len(peer.Certificates) > 0 {
		return peer.Certificates[0]
	}
	return nil
}

// unreachable reports whether the message did not reach an agent that accepts
// it.
func unreachable(err error) bool {
	var e *agent.UnreachableError
	return errors.As(err, &e)
}

// New returns a client of the agent at an address, for the Director's id in the state.
func (a *Agents) New(mbus, ca string) (*agent.Client, error) {
	return a.At(mbus, ca, a.rec.State.Get().DirectorID)
}

// At returns a client of the agent at an address. replyTo is the id of the Director to
// which the agent answers.
func (a *Agents) At(mbus, ca, replyTo string) (*agent.Client, error) {
	return a.clients(replyTo).At(agent.Access{MBus: mbus, CA: ca})
}

// Reached returns a VM whose agent answers.
func (a *Agents) Reached(client *agent.Client, vm string) *access.VM {
	return &access.VM{
		CID: vm, Agent: client, Deployment: a.rec.About.Name, Group: a.rec.About.Group, Instance: a.rec.About.Instance(),
		Dir: a.rec.Dir, Dial: a.rec.dialAgent(), Redact: a.rec.Env.Redact, Report: a.rec.Out.Root,
	}
}
