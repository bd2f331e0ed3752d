package kept

import (
	"net/url"
	"time"

	"bootstrap/agent"
	"bootstrap/manifest"
)

// Agent is how the agent of the VM that runs is reached, which may differ from
// what the manifest says.
type Agent struct {
	VM   string `json:"vm"` // CID
	MBus string `json:"mbus"`
	CA   string `json:"ca"`
	// Next is how it is reached once it has taken new settings, from before they
	// are sent until it has been seen to use them. Its own Next is an earlier
	// change that was never seen to be taken.
	Next *Agent `json:"next,omitempty"`
	// Made is how it was reached when the VM was made, which a reboot brings back
	// where the agent keeps its settings in memory; else nil.
	Made *agent.Access `json:"made,omitempty"`
	// Fixed says that the agent cannot change its settings.
	Fixed bool `json:"fixed,omitempty"`
	// Old is that of the VM which this one replaces and which is not deleted
	// yet; nil if there is none.
	Old *Agent `json:"old,omitempty"`
	// Coming is that of a VM that is being made: its CID is unknown when a run
	// that follows an interrupted one has to reach it.
	Coming  *Agent `json:"coming,omitempty"`
	AgentID string `json:"agent_id,omitempty"` // of Coming
}

// Access returns how the agent is reached.
func (a Agent) Access() agent.Access { return agent.Access{MBus: a.MBus, CA: a.CA} }

// Agent returns how agents are reached; ok is false where nothing is remembered.
func (f Folder) Agent() (kept Agent, ok bool) {
	ok = f.read(agentFile, &kept)
	return kept, ok
}

// SetAgent remembers it.
func (f Folder) SetAgent(a Agent) error { return f.write(agentFile, a) }

// Of returns how the agent of that VM is reached: the current one, the one that
// is replaced, or one that was being made. madeWith reports whether the current VM
// was made with an agent id.
func (a Agent) Of(vm string, madeWith func(agentID string) bool) (Agent, bool) {
	if a.Old != nil && a.Old.VM == vm {
		a = *a.Old
	}
	if c := a.Coming; c != nil && a.VM != vm && madeWith(c.AgentID) {
		a = *c
		a.VM = vm
	}
	return a, a.VM == vm && a.MBus != ""
}

// Deployment is what the commands need that do not read the manifest: its
// variables, releases and downloads may not be at hand.
type Deployment struct {
	Manifest    string             `json:"manifest"` // absolute path
	Name        string             `json:"name"`
	Group       string             `json:"group"` // the instance group
	MBus        string             `json:"mbus"`
	CA          string             `json:"ca"`
	WatchTime   manifest.WatchTime `json:"update_watch_time"`
	Protect     bool               `json:"protect,omitempty"`
	UseDNS      bool               `json:"use_dns,omitempty"`
	Tags        map[string]string  `json:"tags,omitempty"`
	CPI         string             `json:"cpi,omitempty"` // path of bin/cpi
	Packages    string             `json:"packages,omitempty"`
	Jobs        string             `json:"jobs,omitempty"`
	API         int                `json:"api_version,omitempty"` // of the CPI, as it reported last
	StemcellAPI int                `json:"stemcell_api_version,omitempty"`
	Registry    *manifest.Registry `json:"registry,omitempty"` // with the port it had
	// Secrets are what a redactor must hide where the manifest is not read, the
	// newest first: the VM's logs may hold older ones.
	Secrets []string `json:"secrets,omitempty"`
}

// MBusURL returns the URL of the agent; nil: it is none.
func (d Deployment) MBusURL() *url.URL {
	u, err := url.Parse(d.MBus)
	if err != nil {
		return nil
	}
	return u
}

// Access returns how the agent is reached.
func (d Deployment) Access() agent.Access { return agent.Access{MBus: d.MBus, CA: d.CA} }

// Deployment returns what is remembered; ok is false where that is nothing.
func (f Folder) Deployment() (d Deployment, ok bool) {
	ok = f.read(deploymentFile, &d)
	return d, ok
}

// SetDeployment remembers it.
func (f Folder) SetDeployment(d Deployment) error { return f.write(deploymentFile, d) }

// SecondDisk is what is remembered of a CPI that could not attach a second disk:
// the VM's agent did not come back.
type SecondDisk struct {
	CPI  []string  `json:"cpi"` // releases, as name/version
	When time.Time `json:"when"`
	// New says that it failed on a new VM, too, so another VM does not help.
	New bool `json:"new_vm,omitempty"`
	// Lost is the CID of the VM whose agent has not answered since. Its jobs
	// were stopped before.
	Lost string `json:"lost,omitempty"`
}
