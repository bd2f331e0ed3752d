package agent

import "time"

// Settings is what a CPI passes to the agent of a new VM, through the metadata
// service of the IaaS or the registry. It has the fields that this program
// writes or reads.
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

// Blobstore describes where the agent keeps blobs; with the provider "local",
// the agent itself keeps them.
type Blobstore struct {
	Provider string         `json:"provider"`
	Options  map[string]any `json:"options"`
}

// Disks are the disks of the VM; the value of a persistent disk is a path, or a
// map with the key path.
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

// The kinds of embedded VMs: a folder and processes of this machine; or Linux namespaces,
// in which it sees nothing else; or namespaces with the root file system and the agent of
// a stemcell.
const (
	MachineFolder    = "folder"
	MachineNamespace = "namespace"
	MachineContainer = "container"
)

// Isolated reports whether an embedded VM of that kind has its own namespaces.
func Isolated(machine string) bool { return machine == MachineNamespace || machine == MachineContainer }

// Boot is the file boot.json in the folder of an embedded VM, which takes the
// place of the metadata service of an IaaS: the embedded CPI writes it, the
// embedded agent reads it when it starts. Exactly one of SettingsFile and
// Registry is set.
type Boot struct {
	Name string `json:"name"` // VM CID
	// Machine is one of the kinds above; empty: MachineFolder.
	Machine string `json:"machine,omitempty"`
	// SettingsFile contains Settings as JSON (CPI API v2). It may change while
	// the VM runs. A relative path begins at the VM's folder.
	SettingsFile string `json:"settings_file,omitempty"`
	// Registry is the URL with credentials of the registry (CPI API v1). The
	// agent reaches it only through a port that is forwarded to the VM by SSH.
	Registry string `json:"registry,omitempty"`
	// SSH configures the VM's SSH server; nil: the VM has no SSH server.
	SSH *BootSSH `json:"ssh,omitempty"`
}

// BootReport is the file agent.lock in the folder of an embedded VM. The agent
// holds a lock on it and writes its progress into it.
type BootReport struct {
	PID     int       `json:"pid"`
	Started time.Time `json:"started"`
	// Ready is true when the agent listens for messages, or waits for settings
	// that come only after create_vm.
	Ready bool   `json:"ready,omitempty"`
	Ended string `json:"ended,omitempty"` // the error with which it ended
}

// BootSSH describes where the embedded VM's SSH server listens, and who may log
// in.
type BootSSH struct {
	Address        string   `json:"address"` // host:port
	User           string   `json:"user"`
	Password       string   `json:"password,omitempty"`
	AuthorizedKeys []string `json:"authorized_keys,omitempty"`
	// Jumpbox is true if users may make connections through the server to addresses that
	// the VM reaches.
	Jumpbox bool `json:"jumpbox,omitempty"`
}
