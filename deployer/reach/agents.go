package reach

import (
	"context"
	"fmt"
	"net"
	"slices"
	"time"

	"bootstrap/agent"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
)

// Agents creates clients for the agents of one deployment.
type Agents struct {
	Dial        func(ctx context.Context, network, address string) (net.Conn, error) // nil: connect directly
	TunnelErr   func() error                                                         // why the tunnel is down; may be nil
	TaskTimeout time.Duration                                                        // time limit of one task; 0: none
	ReplyTo     string                                                               // id of the Director
	Redact      func(string) string
	Secret      func(values ...string)      // adds values that the redactor hides
	Trace       func(method, moment string) // may be nil
	Report      *report.Stage               // report of the run
}

// At returns a client for the agent at one access.
func (a Agents) At(at agent.Access) (*agent.Client, error) {
	return agent.New(agent.Config{
		URL:         at.MBus,
		CA:          at.CA,
		ReplyTo:     a.ReplyTo,
		Dial:        a.Dial,
		TunnelErr:   a.TunnelErr,
		TaskTimeout: a.TaskTimeout,
		Redact:      a.Redact,
		Trace:       a.Trace,
		Waiting: func(method string, since time.Duration) {
			text := fmt.Sprintf("Still waiting for the agent to finish %s after %s", method, since.Round(time.Second))
			if method == agent.UnmountDiskMethod {
				text += "; a process may use the disk: bootstrap ssh MANIFEST -- fuser -vm /var/vcap/store"
			}
			a.Report.Info(text)
		},
		WaitsFor: func(method, what string) {
			a.Report.Info(fmt.Sprintf("The agent cannot finish %s: %s", method, what))
		},
	})
}

// maxPending limits how many unconfirmed changes of an agent's settings are recorded.
const maxPending = 4

// Accesses lists the ways to reach an agent, the likeliest first: the last one, those
// with settings that it may have taken since, and that of the manifest.
func Accesses(how kept.Agent, wanted agent.Access) []agent.Access {
	first := how.Access()
	list := []agent.Access{first}
	add := func(a agent.Access) {
		// The password is sent only to this address of the agent.
		if a.MBus != "" && a.Host() == first.Host() && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for next := how.Next; next != nil && len(list) <= maxPending; next = next.Next {
		add(next.Access())
	}
	add(wanted)
	if how.Made != nil {
		add(*how.Made)
	}
	return list
}

// Find waits for the agent. It returns the client that the agent answers, and its URL and
// CA. With an error, it returns the client of the likeliest access, or nil if that is
// unusable.
func (a Agents) Find(ctx context.Context, list []agent.Access, limit time.Duration) (*agent.Client, agent.Access, error) {
	list = slices.Clone(list)
	clients := make([]*agent.Client, 0, len(list))
	for i, at := range list {
		a.Secret(at.MBus)
		client, err := a.At(agent.Access{MBus: at.MBus, CA: agent.Trusted(list, at)})
		switch {
		case err != nil && i == 0:
			return nil, at, err
		case err == nil:
			clients = append(clients, client)
		default:
			list[i].MBus = "" // its URL is invalid
		}
	}
	list = slices.DeleteFunc(list, func(at agent.Access) bool { return at.MBus == "" })
	client, err := agent.WaitAny(ctx, limit, clients...)
	if err != nil {
		return clients[0], list[0], err
	}
	found := list[slices.Index(clients, client)]
	if len(list) == 1 {
		return client, found, nil
	}
	return a.narrow(ctx, client, found, list)
}

// narrow returns a client that trusts only the CA that signed the agent's certificate, if
// it is known which of the CAs did.
func (a Agents) narrow(ctx context.Context, client *agent.Client, found agent.Access, list []agent.Access) (*agent.Client, agent.Access, error) {
	if found.CA == "" {
		return client, found, nil
	}
	peer, err := client.Peer(ctx)
	if err != nil {
		return client, found, nil // The agent has answered with a certificate of one of these CAs.
	}
	if !found.Signed(peer.Certificates) {
		for _, at := range list {
			if (agent.Access{MBus: found.MBus, CA: at.CA}).Signed(peer.Certificates) {
				found.CA = at.CA
				break
			}
		}
	}
	narrowed, err := a.At(found)
	if err != nil {
		return client, found, err
	}
	client.Close()
	return narrowed, found, nil
}
