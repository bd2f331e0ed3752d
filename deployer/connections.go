package deployer

import (
	"fmt"
	"slices"
	"sync"

	"bootstrap/deployment/dns"
	"bootstrap/deployment/links"
	"bootstrap/deployment/shared"
	"bootstrap/manifest"
	"bootstrap/templates"
)

// Connections keeps the links of a deployment for all runs about its instances in this
// process. All runs have the same links, except a run that knows an address which the
// cloud has chosen.
type Connections struct {
	mu     sync.Mutex
	made   map[string]made // by the address that only the run knows; empty: there is none
	others *others
}

// others are the entries of other deployments. Each is read once.
type others struct {
	mu   sync.Mutex
	read map[string]other // by the name of the deployment
}

// other is the entry of another deployment, or why it is unknown.
type other struct {
	entry *shared.Entry
	err   error
}

// made is the result of links.Resolve.
type made struct {
	all *links.Connected
	err error
}

// NewConnections returns the connections of a deployment, without any link yet.
func NewConnections() *Connections {
	return &Connections{made: map[string]made{}, others: &others{read: map[string]other{}}}
}

// Again returns connections without any link yet that have the same entries of other
// deployments: after the plan, addresses of this deployment may change, and nothing else.
func (c *Connections) Again() *Connections {
	return &Connections{made: map[string]made{}, others: c.others}
}

// read keeps the entry of another deployment. It calls do for it, only once.
func (c *Connections) read(deployment string, do func() (*shared.Entry, error)) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	if _, known := c.others.read[deployment]; !known {
		entry, err := do()
		c.others.read[deployment] = other{entry, err}
	}
}

// other returns the entry of another deployment that read has kept.
func (c *Connections) other(deployment string) (*shared.Entry, error) {
	c.others.mu.Lock()
	defer c.others.mu.Unlock()
	o, known := c.others.read[deployment]
	if !known {
		return nil, fmt.Errorf("the links of the deployment %q were not read", deployment)
	}
	return o.entry, o.err
}

// get returns the links for a run. It calls resolve to connect them, unless they are
// known.
func (c *Connections) get(address string, resolve func() (*links.Connected, error)) (*links.Connected, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	m, known := c.made[address]
	if !known {
		m.all, m.err = resolve()
		c.made[address] = m
	}
	return m.all, m.err
}

// Names returns the names of the deployment with a number for each link; nil: it has none,
// or its links are not known.
func (c *Connections) Names() *dns.Names {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.made { // they are the same in all
		if m.all != nil && m.all.Names != nil {
			return m.all.Names
		}
	}
	return nil
}

// resolve returns the links of all jobs of the deployment. The caller must not change
// them. own are the jobs of the run's group.
func (j *jobs) resolve(own []templates.Job) (*links.Connected, error) {
	d := j.in.Deployment
	return j.connections.get(j.ownAddress(d), func() (*links.Connected, error) {
		all, err := links.Resolve(d.Name, j.linkGroups(own), j.others(), j.names())
		if err == nil {
			err = refuseScoped(d, all)
		}
		return all, err
	})
}

// refuseScoped refuses links with a variable that has scope: instance: a link is the same
// for all instances.
func refuseScoped(d *manifest.Deployment, all *links.Connected) error {
	if !d.HasScopes() {
		return nil
	}
	const advice = "which has scope: instance, but a link is the same for all instances: use a variable without scope there"
	for _, l := range all.Links {
		if name := d.Scoped(l.Content["properties"]); name != "" {
			return fmt.Errorf("the link %q of the job %q in the group %q contains the variable ((%s)), %s", l.Consumer.Name, l.Consumer.Job, l.Consumer.Group, name, advice)
		}
	}
	for _, p := range all.Shared {
		if name := d.Scoped(p.Properties); name != "" {
			return fmt.Errorf("the shared link %q of the job %q in the group %q contains the variable ((%s)), %s", p.Name, p.Job, p.Group, name, advice)
		}
	}
	return nil
}

// ownAddress returns the instance and its address if the cloud has chosen that: only the
// run knows it. The record has all other addresses.
func (j *jobs) ownAddress(d *manifest.Deployment) string {
	in := j.rec.From.Of.Instance
	i := slices.IndexFunc(d.Groups, func(g manifest.Group) bool { return g.Name == in.Group })
	if j.address == "" || i < 0 {
		return ""
	}
	if block, recorded := in.Addresses[d.Groups[i].DefaultNetwork()]; recorded && block.Addr().String() == j.address {
		return ""
	}
	return in.ID + " " + j.address
}
