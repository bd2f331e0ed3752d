// Package network gives VMs of namespaces networks of their own, without root.
//
// A VM has an interface for each of its networks. Its first process hands out two things
// to any process that can open the socket in the VM's folder: connections that begin
// inside of the VM, and the other ends of its interfaces. A process outside, the cable of
// the VM, moves frames between these ends, the cables of the other VMs of the same
// network, and a helper (passt or slirp4netns), which connects to other networks. It also
// forwards published ports. A cable can end and be started again while the VM is running.
package network

import (
	"net/netip"
	"strings"
)

// Spec is the network of a VM that does not use the machine's.
type Spec struct {
	Interfaces []Interface  `json:"interfaces"` // the first one is the VM's main interface
	DNS        []netip.Addr `json:"dns,omitempty"`
}

// Interface connects a VM to a network.
type Interface struct {
	Name    string       `json:"name"`
	Address netip.Prefix `json:"address"` // address of the VM, with the length of the network's range
	Gateway netip.Addr   `json:"gateway"` // of the default route; invalid: there is none
	Out     bool         `json:"out"`     // the gateway leads to other networks
}

// Segment returns the name of an interface's network: VMs whose networks have the same
// range reach each other.
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
	controlFile = "network.sock" // socket at which the VM's first process hands out connections
	lockFile    = "cable.lock"   // locked while the cable is running
	logFile     = "cable.log"
)

// mtu is the largest packet of an interface. Larger packets need less time per byte, but
// too few of them fit into the queue to the cable.
const mtu = 8000

// mac returns the hardware address for an IP address, so that the destination of a frame
// is known without asking.
func mac(addr netip.Addr) [6]byte {
	if addr.Is4() {
		four := addr.As4()
		return [6]byte{0x02, 0x00, four[0], four[1], four[2], four[3]}
	}
	all := addr.As16()
	return [6]byte{0x02, 0x06, all[12], all[13], all[14], all[15]}
}
