// Package manifest reads what the user wrote: one YAML file with the
// deployment (releases, networks, pools, one instance group) and the CPI that
// makes its VM (cloud_provider). Load returns it typed and checked; everything
// that is wrong is reported in one go, with its place in the file.
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
	// Digest is the SHA-512, as hex, of the evaluated document in the form
	// in which create-env takes it, so that both see the same changes.
	Digest string
	// Sketch is the document as YAML after operations and before variables,
	// without the secrets that it holds as plain text: for Diff.
	Sketch     []byte
	Releases   []Release
	Networks   []Network
	Group      InstanceGroup
	Properties map[string]any // global ones; never nil
	Tags       map[string]string
	Update     Update
	Protect    bool // delete must not take it down
	UseDNS     bool // the VM gets the DNS records of its instance
	// ResourcePool is the one that the instance group uses.
	ResourcePool ResourcePool
	CPI          Installation
	// Secrets holds every secret value of the document, the longest first:
	// what a redactor must hide.
	Secrets []string
	// Names holds the public names of the document: those of things and of
	// variables, and the keys. One of them may equal a secret.
	Names []string
	// Generated are the names of variables that were generated, or would be
	// with the mode Plan, in their order.
	Generated []string
	kinds     map[string]string // of Generated, by name
	Warnings  []document.Problem
}

// Release names a release and says where it comes from.
type Release struct {
	Name string
	// URL is http(s)://…, file:// with an absolute path, or embedded:NAME.
	URL  string
	SHA1 string // multi-digest; may be empty unless URL is http(s)
	Pos  document.Position
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
}

// ResourcePool says what VM is created, and from which stemcell.
type ResourcePool struct {
	Name            string
	Network         string
	CloudProperties map[string]any
	Env             map[string]any
	Stemcell        StemcellRef
}

// StemcellRef says where the stemcell comes from; URL is like Release.URL.
type StemcellRef struct {
	URL  string
	SHA1 string
	Pos  document.Position
}

// InstanceGroup is the one VM: what runs on it, its networks and its disk.
type InstanceGroup struct {
	Name       string
	Jobs       []JobRef
	Networks   []GroupNetwork
	Disk       *DiskPool      // nil: no persistent disk
	Properties map[string]any // nil if absent, which is not the same as {}
	Pos        document.Position
}

// JobRef names a job of a release.
type JobRef struct {
	Name, Release string
	Properties    map[string]any // nil if absent, which is not the same as {}
	// Consumes and Provides say of the job's links, by name, where they come
	// from and what they are called.
	Consumes, Provides map[string]any
	Pos                document.Position
	Path               string // in the user's spelling, for example jobs[0].templates[1]
}

// GroupNetwork attaches the instance group to a network.
type GroupNetwork struct {
	Name      string
	StaticIPs []string // only the first is used
	Default   []string // dns, gateway
}

// DiskPool describes the persistent disk; Name is empty if the manifest gives
// only a size.
type DiskPool struct {
	Name            string
	Size            int // MiB
	CloudProperties map[string]any
}

// Update says how the VM may be updated.
type Update struct {
	WatchTime WatchTime
	// VMStrategy is empty (keep the VM where possible), delete-create or
	// create-swap-delete.
	VMStrategy string
	// Snapshot asks for a snapshot of the disk before something is destroyed.
	Snapshot bool
}

// WatchTime is how long to wait for the jobs to run: not less than Min, not
// more than Max.
type WatchTime struct {
	Min, Max time.Duration
}

// Installation is cloud_provider: the CPI and how to reach the agent.
type Installation struct {
	Templates  []JobRef // without properties
	MBus       string   // as written
	MBusURL    *url.URL
	CA         string     // PEM; empty: none given
	SSHTunnel  *SSHTunnel // nil: none
	Registry   *Registry  // nil: none; never nil with an SSHTunnel
	Properties map[string]any
	Pos        document.Position
}

// SSHTunnel says how to reach the VM by SSH.
type SSHTunnel struct {
	User, Host string
	Port       int
	Password   string
	PrivateKey string // the text of the key, not its path; empty: none
	// ConnectTimeout and AuthTimeout are connection_refused_timeout and
	// auth_failure_timeout; 0 means the default.
	ConnectTimeout, AuthTimeout time.Duration
}

// Registry says where the registry listens.
type Registry struct {
	Host     string
	Port     int    // 0: pick a free one
	Username string // never empty
	Password string // empty: generate one
	// OpenGet lets agents read their settings without credentials, but
	// only through the tunnel.
	OpenGet bool
}

// Interfaces returns the networks of the VM by name, as create_vm and the
// apply spec want them. The maps are the caller's own, down to but not
// including cloud_properties.
func (m *Manifest) Interfaces() map[string]map[string]any {
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
		result[ref.Name] = entry
	}
	return result
}

// Address returns the static IP on the network that is the VM's address: its
// only one, or the default for the gateway. The IP is empty and dynamic true if
// only the running VM can tell.
func (m *Manifest) Address() (ip string, dynamic bool) {
	for _, ref := range m.Group.Networks {
		if len(m.Group.Networks) > 1 && !slices.Contains(ref.Default, "gateway") {
			continue
		}
		network := m.network(ref.Name)
		if network == nil || network.Type == typeDynamic || len(ref.StaticIPs) == 0 {
			return "", true
		}
		return ref.StaticIPs[0], false
	}
	return "", true
}

// network returns the network of that name: the last one, as create-env does.
func (m *Manifest) network(name string) *Network {
	for i := range slices.Backward(m.Networks) {
		if m.Networks[i].Name == name {
			return &m.Networks[i]
		}
	}
	return nil
}

// settings returns what the network itself contributes to an interface.
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
