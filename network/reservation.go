package network

import (
	"net/netip"
	"time"

	"go4.org/netipx"
)

// Owner is the instance that holds addresses. It may have no VM.
type Owner struct {
	// Deployment is the installation id of the state. Each instance has a state of its own,
	// so that this id identifies it.
	Deployment string
	Name       string // name of the deployment, for messages
	Instance   string // for messages, for example bosh/0; it changes if the group is renamed
}

// Same reports whether both are the same instance. Their names may differ.
func (o Owner) Same(other Owner) bool { return o.Deployment == other.Deployment }

// Kind is the kind of a reservation.
type Kind string

// The kinds of reservations.
const (
	Automatic Kind = "automatic" // one of the free addresses
	Static    Kind = "static"    // requested by static_ips
	// Floating is an address of a vip network: of its list or of static_ips.
	Floating Kind = "vip"
)

// Reservation is an address, or a block of them, that an instance holds.
type Reservation struct {
	Scope   string
	Block   netip.Prefix // a single address has 32 or 128 bits
	Owner   Owner
	Network string // name of the network when the reservation was made
	Kind    Kind
	VM      string // CID of the VM that uses the address; empty: no VM uses it yet
	Since   time.Time
	Run     string // id of the run that made the reservation
}

// Address returns the address, or the block if it has several addresses.
func (r Reservation) Address() string { return showBlock(r.Block) }

// Taken answers questions about the reserved addresses. Both methods must be fast for any
// number of addresses and reservations.
type Taken interface {
	// Overlapping looks for reservations that contain an address from first to last, both
	// included. It returns the one with the lowest address.
	Overlapping(scope string, first, last netip.Addr) (Reservation, bool, error)
	// LowestFree returns the lowest free block of this length: it is within the ranges
	// and contains no reserved address. The ranges are ascending, do not overlap, and are
	// of one family. An implementation may prefer blocks that were not released recently.
	LowestFree(scope string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error)
}
