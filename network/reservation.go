package network

import (
	"net/netip"
	"time"

	"go4.org/netipx"
)

// Owner is the instance that holds addresses. It may have no VM.
type Owner struct {
	Deployment string // the installation id of the deployment's state
	Name       string // of the deployment, for people
	Instance   string // for example bosh/0
}

// Same reports whether both are the same instance. It ignores the names of deployments.
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
	Network string // its name when the reservation was made
	Kind    Kind
	VM      string // CID of the VM that uses the address; empty: none yet
	Since   time.Time
	Run     string // id of the run that made the reservation
}

// Address returns the address, or the block if it has several addresses.
func (r Reservation) Address() string { return showBlock(r.Block) }

// Taken knows the reserved addresses. Both methods must be fast for any number of
// addresses and reservations.
type Taken interface {
	// Overlapping returns the reservation with the lowest address that has an address
	// between the first and the last one, both included.
	Overlapping(scope string, first, last netip.Addr) (Reservation, bool, error)
	// LowestFree returns the next free block of this length: the lowest one within the
	// ranges without a reserved address. The ranges are ascending, do not overlap, and
	// are of one family. A repository may prefer blocks that were not released
	// recently.
	LowestFree(scope string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error)
}
