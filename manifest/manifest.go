// Package manifest reads the manifest: one YAML file with the deployment
// (releases, networks, pools, one instance group) and the CPI that creates its
// VM (cloud_provider). Load returns it typed and checked, or reports all errors
// at once, with their positions in the file.
package manifest

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"go4.org/netipx"

	"bootstrap/manifest/document"
)

// Manifest is a manifest that passed all checks.
type Manifest struct {
	Path string // absolute; empty for standard input
	Name string // of the deployment
	// Digest is the SHA-512, as hex, of the evaluated document. It equals
	// create-env's current_manifest_sha, so that both see the same changes.
	Digest   string
	Releases []Release
	// CloudConfigs are the files of the cloud config; empty: the manifest is in
	// create-env's style, with networks and resource pools of its own.
	CloudConfigs []string
	Networks     []Network  // of the manifest itself
	Placement    *Placement // nil if the manifest itself names all addresses
	Group        InstanceGroup
	Properties   map[string]any // of all jobs; never nil
	Tags         map[string]string
	Update       Update
	Protect      bool // delete refuses to delete the deployment
	UseDNS       bool // the VM gets the DNS records of its instance, or of all of the deployment's
	DNS          DNS  // which names templates get
	// Identity is which instance of a deployment with several it is; nil: the only
	// one.
	Identity *Identity
	// ResourcePool is the one that the instance group uses. With a cloud config it has
	// no name, and contains the properties of zone, VM type and VM extensions.
	ResourcePool ResourcePool
	CPI          Installation
	Compilation  Compilation `json:"-"`
	// Secrets holds every secret value of the document, the longest first, for a
	// redactor.
	Secrets []string
	// StoreReaders are the recipients of the vars store; empty if it is not encrypted.
	StoreReaders []string
	// Names holds the texts that are not redacted even if a secret equals one of
	// them: keys, and the names of variables, jobs and other parts.
	Names []string
	// Generated are the variables that were generated or, with the mode Plan,
	// will be, in their order.
	Generated []string
	// Own are those of Generated with scope: instance, which only this instance lacks.
	Own []string
	// Variables are the sorted names of the variables that can be generated; never nil.
	Variables []string
	Warnings  []document.Problem

	document *document.Document // nil for a part of another manifest
	// addonSystems are the operating systems that rules of addons name.
	addonSystems []string
}

// Sketch returns the document as YAML for document.Diff, with operations applied,
// variables not filled in, and plain-text secrets redacted.
func (m *Manifest) Sketch() ([]byte, error) {
	if m.document == nil {
		return nil, nil
	}
	return m.document.Sketch()
}

// Record returns what is needed to read the manifest again, with the values of its variables,
// which are secrets; nil for a part of another manifest.
func (m *Manifest) Record() (*document.Recorded, error) {
	if m.document == nil {
		return nil, nil
	}
	return m.document.Record()
}

// Unknown returns the texts in the manifest, of values and of keys, that contain a value that
// is not known yet: a variable without a value, or one that the next deploy generates.
func (m *Manifest) Unknown() map[string]bool {
	if m.document == nil {
		return nil
	}
	return m.document.Unknown()
}

// Release is an entry of releases.
type Release struct {
	Name string
	// URL is http(s)://…, file:// with an absolute path, or embedded:NAME.
	URL  string
	SHA1 string // multi-digest; may be empty unless URL is http(s)
	Pos  document.Position
	// Lock is the path of the lock file from which URL and SHA1 are; empty: they are the
	// manifest's.
	Lock string `json:",omitempty"`
}

// Network is one entry of networks.
type Network struct {
	Name            string
	Type            string // manual, dynamic or vip
	DNS             []string
	CloudProperties map[string]any
	Subnet          *Subnet // of a manual network, else nil
}

// Subnet is the one subnet of a manual network.
type Subnet struct {
	Range           netip.Prefix
	Gateway         string
	DNS             []string
	CloudProperties map[string]any

	reserved, static netipx.IPSet
	ignored          []document.Value // both lists, if static_ips names the address
}

// ResourcePool describes the VM and its stemcell.
type ResourcePool struct {
	Name            string
	Network         string
	CloudProperties map[string]any
	Env             map[string]any
	Stemcell        StemcellRef
}

// StemcellRef is the source of a stemcell; URL is like Release.URL.
type StemcellRef struct {
	URL  string
	SHA1 string
	Pos  document.Position
	// Name, OS and Version are from the section stemcells; empty if the section does
	// not contain them.
	Name, OS, Version string
	Lock              string `json:",omitempty"` // like Release.Lock
	// Instead is true if the URL is embedded:NAME and is not the manifest's: Name, OS and
	// Version are those of the stemcell that it replaces.
	Instead bool `json:",omitempty"`

	assumed string // operating system by which addons were chosen, if OS is empty
}

// InstanceGroup describes the one instance: its jobs, networks and disk.
type InstanceGroup struct {
	Name       string
	Jobs       []JobRef
	Networks   []GroupNetwork
	Disk       *DiskPool      // nil: no persistent disk
	Disks      []NamedDisk    // of persistent_disks, in place of Disk
	Properties map[string]any // nil if absent, which is not the same as {}
	Health     []HealthCheck  // of the service, from this machine
	Pos        document.Position
}

// JobRef names a job of a release.
type JobRef struct {
	Name, Release string
	Properties    map[string]any // nil if absent, which is not the same as {}
	// Consumes and Provides configure the job's links by name.
	Consumes, Provides map[string]any
	// Custom are links that the job provides beside those of its spec.
	Custom []ProviderDefinition
	Pos    document.Position
	Path   string // in the user's spelling, for example jobs[0].templates[1]
}

// ProviderDefinition is an entry of custom_provider_definitions.
type ProviderDefinition struct {
	Name, Type string
	Properties []string // dotted names of those that consumers see
}

// GroupNetwork attaches the instance group to a network.
type GroupNetwork struct {
	Name      string
	StaticIPs []string // only the first is used
	Default   []string // dns, gateway
	// NICGroup is the number of the interface that the network shares with others, as
	// the CPI gets it; empty: not given.
	NICGroup string

	open bool // the address is chosen for the instance
}

// DiskPool describes the persistent disk; Name is empty if the manifest gives
// only a size.
type DiskPool struct {
	Name            string
	Size            int // MiB
	CloudProperties map[string]any
}

// NamedDisk is a persistent disk that the agent does not mount: jobs find it under its
// name, unique in the group, in /var/vcap/instance/disks.
type NamedDisk struct {
	Name string
	Pool DiskPool
}

// Update configures updates of the VM.
type Update struct {
	WatchTime WatchTime
	// VMStrategy is empty (keep the VM where possible), delete-create or
	// create-swap-delete.
	VMStrategy string
	// Snapshot asks for a snapshot of the disk before the VM or disk is changed.
	Snapshot bool
	// CrashLoops is WaitForCrashLoops, or empty: a crash loop ends the wait.
	CrashLoops string
}

// WaitForCrashLoops is a value of update.crash_loops: a deploy waits, as long as
// update_watch_time allows, for processes that end again and again.
const WaitForCrashLoops = "wait"

// WatchTime limits how long to wait until the jobs run.
type WatchTime struct {
	Min, Max time.Duration
}

// Installation is cloud_provider: the CPI, and how to reach the agent.
type Installation struct {
	Templates []JobRef // without properties
	// MBus is the URL as written, or with the address of the instance. With #name
	// appended, the agent's certificate is verified for that name, not the host.
	MBus    string
	MBusURL *url.URL
	// MBusPending is true if the next deploy generates the password in MBusURL.
	MBusPending bool       `json:"-"`
	CA          string     // PEM; empty: none given
	CAPending   bool       // the next deploy generates the CA
	SSHTunnel   *SSHTunnel // nil: none
	Registry    *Registry  // nil: none; never nil with an SSHTunnel
	Properties  map[string]any
	Pos         document.Position
}

// SSHTunnel configures the SSH connection to the VM.
type SSHTunnel struct {
	User, Host string
	Port       int
	Password   string
	PrivateKey string // the text of the key, not its path; empty: none
	// ConnectTimeout and AuthTimeout are connection_refused_timeout and
	// auth_failure_timeout; 0 means the default.
	ConnectTimeout, AuthTimeout time.Duration
}

// Registry configures the registry.
type Registry struct {
	Host     string
	Port     int    // 0: pick a free one
	Username string // never empty
	Password string // empty: generate one
	// OpenGet allows agents to read their settings without credentials, but only
	// through the tunnel.
	OpenGet bool
}

// Interfaces returns the networks of the VM by name, as create_vm and the apply
// spec expect them. The caller may change the maps, but not the values in
// cloud_properties.
func (m *Manifest) Interfaces() map[string]map[string]any {
	if m.SharesNetworks() {
		return m.Placement.interfaces()
	}
	result := make(map[string]map[string]any, len(m.Group.Networks))
	for _, ref := range m.Group.Networks {
		network := m.network(ref.Name)
		if network == nil {
			continue
		}
		entry := network.settings()
		if len(ref.StaticIPs) > 0 {
			entry["ip"] = ref.StaticIPs[0]
		}
		if len(m.Group.Networks) == 1 {
			entry["default"] = []string{"dns", "gateway"}
		} else if len(ref.Default) > 0 {
			entry["default"] = slices.Clone(ref.Default)
		}
		if ref.NICGroup != "" && network.Type != typeDynamic {
			entry["nic_group"] = ref.NICGroup
		}
		result[ref.Name] = entry
	}
	return result
}

// Address returns the VM's static IP on its only network, or on the one that is the
// default for the gateway. If the IP is known only after the VM has started, ip is
// empty and dynamic is true. Place may have chosen the IP. With a cloud config, the
// network may be the default for addressable.
func (m *Manifest) Address() (ip string, dynamic bool) {
	if m.SharesNetworks() {
		return m.Placement.address()
	}
	ref := m.mainNetwork()
	network := m.network(ref.Name)
	if network == nil || network.Type == typeDynamic || len(ref.StaticIPs) == 0 {
		return "", true
	}
	return ref.StaticIPs[0], false
}

// AddressNetwork returns the name of the network of Address.
func (m *Manifest) AddressNetwork() string {
	if m.SharesNetworks() {
		w, _ := m.Placement.main()
		return w.Network
	}
	return m.mainNetwork().Name
}

// mainNetwork returns the group's only network, or the one that is the default for the
// gateway; it is empty if there is none.
func (m *Manifest) mainNetwork() GroupNetwork {
	for _, ref := range m.Group.Networks {
		if len(m.Group.Networks) == 1 || slices.Contains(ref.Default, "gateway") {
			return ref
		}
	}
	return GroupNetwork{}
}

// SharesNetworks reports whether the networks are those of a cloud config, which
// many deployments share.
func (m *Manifest) SharesNetworks() bool { return m.Placement != nil && !m.Placement.Own }

// Zone returns the availability zone of the instance, or "".
func (m *Manifest) Zone() string {
	if m.Placement == nil {
		return ""
	}
	return m.Placement.Zone
}

// network returns the last network with a name, as create-env does.
func (m *Manifest) network(name string) *Network {
	for i := range slices.Backward(m.Networks) {
		if m.Networks[i].Name == name {
			return &m.Networks[i]
		}
	}
	return nil
}

// settings returns the part of an interface that comes from the network.
func (n *Network) settings() map[string]any {
	entry := map[string]any{"type": n.Type}
	if n.Type == typeManual {
		entry["gateway"] = n.Subnet.Gateway
		entry["netmask"] = netmask(n.Subnet.Range)
		entry["cloud_properties"] = maps.Clone(n.Subnet.CloudProperties)
		if len(n.Subnet.DNS) > 0 {
			entry["dns"] = slices.Clone(n.Subnet.DNS)
		}
		return entry
	}
	entry["cloud_properties"] = maps.Clone(n.CloudProperties)
	if n.Type == typeDynamic && len(n.DNS) > 0 {
		entry["dns"] = slices.Clone(n.DNS)
	}
	return entry
}
