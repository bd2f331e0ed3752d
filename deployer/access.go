package deployer

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/manifest"
)

// access is one way in which an agent may be reached.
type access struct {
	MBus string `json:"mbus"` // with user and password
	CA   string `json:"ca"`   // PEM; empty: the certificate is not checked
}

// maxPending bounds the changes of an agent's settings that are remembered
// while nobody knows whether the agent has taken them.
const maxPending = 4

// accesses lists how the agent may be reached, the likeliest first: as it was
// last, with settings that it may have taken since, and as the manifest says.
func (r *run) accesses(how agentOfRunning) []access {
	list := []access{{how.MBus, how.CA}}
	add := func(mbus, ca string) {
		// The password is for the agent at this address and for nobody else.
		if a := (access{mbus, ca}); mbus != "" && hostOf(mbus) == hostOf(how.MBus) && !slices.Contains(list, a) {
			list = append(list, a)
		}
	}
	for next := how.Next; next != nil && len(list) <= maxPending; next = next.Next {
		add(next.MBus, next.CA)
	}
	if r.manifest != nil {
		add(r.manifest.CPI.MBus, r.manifest.CPI.CA)
	}
	if how.Made != nil {
		add(how.Made.MBus, how.Made.CA)
	}
	return list
}

// forgetsSettings reports whether the agent keeps its settings in memory, so
// that a reboot brings back those that the VM was made with.
func forgetsSettings(m *manifest.Manifest) bool {
	value, _ := lookUp(m.ResourcePool.Env, "bosh.agent.settings.tmpfs")
	return value == true
}

func hostOf(mbus string) string {
	u, err := url.Parse(mbus)
	if err != nil {
		return ""
	}
	return u.Host
}

// trusted returns the CAs that are accepted for the access: while a change is
// not finished, those of all, since the agent may have taken one part of it and
// not the other. Where one of them checks nothing, each access keeps its own CA.
func trusted(list []access, of access) string {
	var all []string
	for _, a := range list {
		switch ca := strings.TrimSpace(a.CA); {
		case ca == "":
			return of.CA
		case !slices.Contains(all, ca):
			all = append(all, ca)
		}
	}
	return strings.Join(all, "\n") + "\n"
}

// findAgent waits for the agent and returns the client that it answers, and how
// it is reached. The client of an error is the one of the likeliest access.
func (r *run) findAgent(ctx context.Context, how agentOfRunning, limit time.Duration, replyTo string) (*agent.Client, access, error) {
	list := r.accesses(how)
	clients := make([]*agent.Client, 0, len(list))
	for i, a := range list {
		r.opts.Secret(a.MBus)
		client, err := r.agentAt(a.MBus, trusted(list, a), replyTo)
		switch {
		case err != nil && i == 0:
			return nil, a, err
		case err == nil:
			clients = append(clients, client)
		default:
			list[i].MBus = "" // not a way to reach it
		}
	}
	list = slices.DeleteFunc(list, func(a access) bool { return a.MBus == "" })
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
func (r *run) settleAccess(ctx context.Context, how *agentOfRunning, replyTo string) {
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
func (r *run) narrow(ctx context.Context, client *agent.Client, found access, list []access, replyTo string) (*agent.Client, access, error) {
	if found.CA == "" {
		return client, found, nil
	}
	peer, err := client.Peer(ctx)
	if err != nil {
		return client, found, nil // it has answered: with one of these CAs
	}
	host := ""
	if u, err := url.Parse(found.MBus); err == nil {
		host = u.Hostname()
	}
	if !signedBy(found.CA, peer.Certificates, host) {
		for _, a := range list {
			if signedBy(a.CA, peer.Certificates, host) {
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

// signedBy reports whether the certificates, the peer's own first, lead to one
// of the CAs.
func signedBy(ca string, chain []*x509.Certificate, host string) bool {
	if len(chain) == 0 || ca == "" {
		return false
	}
	options := x509.VerifyOptions{DNSName: host, Roots: x509.NewCertPool(), Intermediates: x509.NewCertPool()}
	options.Roots.AppendCertsFromPEM([]byte(ca))
	for _, c := range chain[1:] {
		options.Intermediates.AddCert(c)
	}
	_, err := chain[0].Verify(options)
	return err == nil
}

// noteAccess remembers, for the plan and the next runs, how the agent of the
// VM has answered.
func (r *run) noteAccess(ctx context.Context, vm string, client *agent.Client, found access) error {
	r.facts.access, r.facts.served = found, nil
	// What an agent that restarts just now serves is unknown, and no reason to stop.
	if peer, err := client.Peer(ctx); err == nil && len(peer.Certificates) > 0 {
		r.facts.served = peer.Certificates[0]
	}
	kept, ok := r.keptAgent()
	if r.scratch != "" || !ok || kept.VM != vm || kept.MBus == found.MBus && kept.CA == found.CA || r.state.Get().CurrentVMCID != vm {
		return nil
	}
	if next := kept.Next; next != nil && next.MBus == found.MBus && next.CA == found.CA {
		kept.Next = nil
	}
	kept.MBus, kept.CA = found.MBus, found.CA
	return r.keepAgent(kept)
}

// keptAgent reads agent.json; ok is false where it says nothing.
func (r *run) keptAgent() (kept agentOfRunning, ok bool) {
	data, err := os.ReadFile(r.agentFile())
	ok = err == nil && json.Unmarshal(data, &kept) == nil
	return kept, ok
}

// agentDiffers lists the settings of the agent that are not what the manifest
// says, as the agent has shown them: what is recorded may be wrong, or from
// another machine.
func (r *run) agentDiffers() []string {
	if !r.facts.agentTold {
		return nil
	}
	var list []string
	if leaf := wantedLeaf(r.manifest); leaf != nil && r.facts.served != nil && !leaf.Equal(r.facts.served) {
		list = append(list, partCertificate)
	}
	if r.facts.access.MBus != "" && userOf(r.facts.access.MBus) != userOf(r.manifest.CPI.MBus) {
		list = append(list, partPassword)
	}
	return list
}

// userOf returns user and password of a URL.
func userOf(mbus string) string {
	u, err := url.Parse(mbus)
	if err != nil || u.User == nil {
		return ""
	}
	return u.User.String()
}

// unreachable reports whether the message did not get to an agent that accepts it.
func unreachable(err error) bool {
	var e *agent.UnreachableError
	return errors.As(err, &e)
}
