// Package network gives VMs of namespaces networks of their own, without root.
//
// A VM has an interface for each of its networks, and its first process hands out
// two things to whoever can open the socket in the VM's folder: connections that
// begin inside the VM, and the other ends of its interfaces. A process outside,
// the cable of the VM, moves frames between these ends, the cables of the other
// VMs of the same network, and a helper (passt or slirp4netns), which is the way
// out. It also forwards published ports. A cable can end and be started again
// while the VM runs.
package network

import (
	"net/netip"
	"strings"
)

// Spec is the network that a VM has in place of the machine's.
type Spec struct {
	Interfaces []Interface  `json:"interfaces"` // the first is the VM's main one
	DNS        []netip.Addr `json:"dns,omitempty"`
}

// Interface connects a VM to a network.
type Interface struct {
	Name    string       `json:"name"`
	Address netip.Prefix `json:"address"` // of the VM, with the length of the network's range
	Gateway netip.Addr   `json:"gateway"` // of the default route; invalid: there is none
	Out     bool         `json:"out"`     // the gateway leads to the outside
}

// Segment names the network of an interface: VMs whose networks have the same range can
// reach each other.
func (i Interface) Segment() string {
	return strings.NewReplacer("/", "-", ":", ".").Replace(i.Address.Masked().String())
}

// Has reports whether the VM has the address.
func (s *Spec) Has(addr netip.Addr) bool {
	for _, i := range s.Interfaces {
		if i.Address.Addr() == addr {
			return true
		}
	}
	return false
}

// Names in the folder of a VM.
const (
	controlFile = "network.sock" // where the VM's first process hands out connections
	lockFile    = "cable.lock"   // locked while the cable runs
	logFile     = "cable.log"
)

// mtu is the largest packet of an interface. Larger packets take less time per byte,
// but too few of them fit into the queue to the cable.
const mtu = 8000

// mac returns the hardware address for an IP address, so that the destination of a
// frame is known without asking.
func mac(addr netip.Addr) [6]byte {
	if addr.Is4() {
		four := addr.As4()
		return [6]byte{0x02, 0x00, four[0], four[1], four[2], four[3]}
	}
	all := addr.As16()
	return [6]byte{0x02, 0x06, all[12], all[13], all[14], all[15]}
}
