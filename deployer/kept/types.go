package kept

import (
	"fmt"
	"net/url"
	"time"

	"bootstrap/agent"
	"bootstrap/manifest"
)

// Agent describes the access to the agent of the running VM, which may differ from the
// manifest.
type Agent struct {
	VM   string `json:"vm"` // CID
	MBus string `json:"mbus"`
	CA   string `json:"ca"`
	// Next describes the access after the agent has taken new settings. It is recorded
	// before they are sent, until the agent uses them. Its own Next is an earlier change
	// that was never confirmed.
	Next *Agent `json:"next,omitempty"`
	// Made describes the access when the VM was created: after a reboot the agent may use
	// these settings again, if it keeps new ones only in memory. nil: the same as now.
	Made *agent.Access `json:"made,omitempty"`
	// Fixed is true if the agent cannot change its settings.
	Fixed bool `json:"fixed,omitempty"`
	// Old describes the access to the agent of the replaced VM until that is deleted;
	// nil: there is none.
	Old *Agent `json:"old,omitempty"`
	// Coming describes the access to the agent of a VM that is being created. If the run
	// is interrupted, the CID of that VM is unknown.
	Coming  *Agent `json:"coming,omitempty"`
	AgentID string `json:"agent_id,omitempty"` // agent id of Coming
}

// Access returns the URL and the CA of the agent.
func (a Agent) Access() agent.Access { return agent.Access{MBus: a.MBus, CA: a.CA} }

// Agent returns the recorded access to agents; ok is false if there is none.
func (f Folder) Agent() (kept Agent, ok bool) {
	ok = f.read(agentFile, &kept)
	return kept, ok
}

// SetAgent records the access to agents.
func (f Folder) SetAgent(a Agent) error { return f.write(agentFile, a) }

// Of returns the access to the agent of a VM: of the current one, the replaced one, or
// one that was being created. madeWith reports whether the current VM was created with an
// agent id.
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

// Deployment has settings for commands that do not read the manifest, whose variables,
// releases and downloads may be missing.
type Deployment struct {
	Manifest    string             `json:"manifest"` // absolute path
	Name        string             `json:"name"`
	Group       string             `json:"group"` // the instance group
	Index       int                `json:"index,omitempty"`
	MBus        string             `json:"mbus"`
	CA          string             `json:"ca"`
	WatchTime   manifest.WatchTime `json:"update_watch_time"`
	CrashLoops  string             `json:"crash_loops,omitempty"`
	Protect     bool               `json:"protect,omitempty"`
	UseDNS      bool               `json:"use_dns,omitempty"`
	Tags        map[string]string  `json:"tags,omitempty"`
	CPI         string             `json:"cpi,omitempty"` // path of bin/cpi
	Packages    string             `json:"packages,omitempty"`
	Jobs        string             `json:"jobs,omitempty"`
	Local       string             `json:"local,omitempty"`       // folder of the embedded CPI; empty: it is another CPI
	API         int                `json:"api_version,omitempty"` // last reported API version of the CPI
	StemcellAPI int                `json:"stemcell_api_version,omitempty"`
	Database    string             `json:"database,omitempty"` // ledger of its addresses; empty: none
	// OldDatabases are earlier ledgers, which may still have addresses of it.
	OldDatabases []string           `json:"old_databases,omitempty"`
	Registry     *manifest.Registry `json:"registry,omitempty"` // including the port that was used
	// Health are the health checks; programs run in the environment of the present
	// command.
	Health []manifest.HealthCheck `json:"health,omitempty"`
	// OtherChecks is how many checks are left out because another machine recorded them,
	// and they run a program.
	OtherChecks int `json:"other_checks,omitempty"`
	// Secrets are values to hide if the manifest is not read, the newest first: the VM's
	// logs may contain older ones.
	Secrets []string `json:"secrets,omitempty"`
	// Sealed is the list of secrets as encrypted JSON, with the recipients of the vars
	// store; then Secrets is empty.
	Sealed []byte `json:"sealed,omitempty"`
}

// Instance returns the name of the instance for people: web/0.
func (d Deployment) Instance() string { return fmt.Sprintf("%s/%d", d.Group, d.Index) }

// MBusURL returns the URL of the agent; nil if it is not a URL.
func (d Deployment) MBusURL() *url.URL {
	u, err := url.Parse(d.MBus)
	if err != nil {
		return nil
	}
	return u
}

// Access returns the URL and the CA of the agent.
func (d Deployment) Access() agent.Access { return agent.Access{MBus: d.MBus, CA: d.CA} }

// Deployment returns the recorded settings; ok is false if there are none.
func (f Folder) Deployment() (d Deployment, ok bool) {
	ok = f.read(deploymentFile, &d)
	return d, ok
}

// SetDeployment records the settings.
func (f Folder) SetDeployment(d Deployment) error { return f.write(deploymentFile, d) }

// SecondDisk records that a CPI could not attach a second disk: the VM's agent did not
// answer after that.
type SecondDisk struct {
	CPI  []string  `json:"cpi"` // releases, as name/version
	When time.Time `json:"when"`
	// New is true if it failed on a new VM, too: replacing the VM again would not help.
	New bool `json:"new_vm,omitempty"`
	// Lost is the CID of the VM whose agent has not answered since. Its jobs had
	// been stopped.
	Lost string `json:"lost,omitempty"`
}
