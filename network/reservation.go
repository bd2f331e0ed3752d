package network

import (
	"net/netip"
	"time"

	"go4.org/netipx"
)

// Owner is the instance that holds addresses. It may have no VM.
type Owner struct {
	Deployment string // the installation id of the deployment's state
	Name       string // name of the deployment, for messages
	Instance   string // for example bosh/0
}

// Same reports whether both are the same instance. The names of the deployments may
// differ.
func (o Owner) Same(other Owner) bool {
	return o.Deployment == other.Deployment && o.Instance == other.Instance
}

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
