package agent

import "time"

// Settings is what a CPI tells the agent of a new VM, through the IaaS's
// metadata or the registry. Fields that this program neither writes nor reads
// are left out.
type Settings struct {
	AgentID   string                    `json:"agent_id"`
	VM        VM                        `json:"vm"`
	MBus      string                    `json:"mbus"` // https://user:password@host:port
	NTP       []string                  `json:"ntp"`
	Blobstore Blobstore                 `json:"blobstore"`
	Disks     Disks                     `json:"disks"`
	Networks  map[string]map[string]any `json:"networks"`
	Env       Env                       `json:"env"`
}

// Blobstore names where the agent keeps blobs; provider "local" is the agent
// itself.
type Blobstore struct {
	Provider string         `json:"provider"`
	Options  map[string]any `json:"options"`
}

// Disks maps what the VM has; a persistent disk's value is a path, or a map
// with the key path.
type Disks struct {
	System     any            `json:"system,omitempty"`
	Ephemeral  any            `json:"ephemeral,omitempty"`
	Persistent map[string]any `json:"persistent"`
}

// Env is the env of create_vm, as far as the agent reads it.
type Env struct {
	Bosh EnvBosh `json:"bosh"`
}

// EnvBosh is the part of Env under the key bosh.
type EnvBosh struct {
	MBus struct {
		URLs []string `json:"urls,omitempty"`
		Cert Cert     `json:"cert"`
	} `json:"mbus"`
	Agent struct {
		Settings struct {
			TmpFS bool `json:"tmpfs,omitempty"` // kept in memory
		} `json:"settings"`
	} `json:"agent"`
	Blobstores []Blobstore       `json:"blobstores,omitempty"`
	Tags       map[string]string `json:"tags,omitempty"`
}

// Cert is a certificate with its CA and private key, each as PEM.
type Cert struct {
	CA          string `json:"ca,omitempty"`
	Certificate string `json:"certificate,omitempty"`
	PrivateKey  string `json:"private_key,omitempty"`
}

// Boot is the file boot.json in the folder of an embedded VM, which stands in
// for an IaaS's metadata service: the embedded CPI writes it, the embedded
// agent reads it when it starts. Exactly one of SettingsFile and Registry is
// set.
type Boot struct {
	Name string `json:"name"` // VM CID
	// SettingsFile holds Settings as JSON (CPI API v2). It may change
	// while the VM runs.
	SettingsFile string `json:"settings_file,omitempty"`
	// Registry is the URL with credentials of the registry (CPI API v1),
	// reached only through a port forwarded to the VM by SSH, as on a VM
	// whose loopback is its own.
	Registry string `json:"registry,omitempty"`
	// SSH is the VM's SSH server; nil means none.
	SSH *BootSSH `json:"ssh,omitempty"`
}

// BootReport is the file agent.lock in the folder of an embedded VM. The agent
// locks it while it lives, and writes into it how far it has come.
type BootReport struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Ready tells that the agent listens for messages, or waits for settings
	// that come only after the VM was made.
	Ready bool   `json:"ready,omitempty"`
	Ended string `json:"ended,omitempty"` // why it ended, if with an error
}

// BootSSH says where the embedded VM's SSH server listens and whom it admits.
type BootSSH struct {
	Address        string   `json:"address"` // host:port
	User           string   `json:"user"`
	Password       string   `json:"password,omitempty"`
	AuthorizedKeys []string `json:"authorized_keys,omitempty"`
}
