package network

import (
	"net/netip"
	"time"

	"go4.org/netipx"
)

// Owner is the instance that holds addresses, whether it has a VM or not.
type Owner struct {
	Deployment string // the installation id of the deployment's state
	Name       string // of the deployment, for people
	Instance   string // for example bosh/0
}

// Same reports whether both are the same instance; the names of deployments are
// not compared.
func (o Owner) Same(other Owner) bool {
	return o.Deployment == other.Deployment && o.Instance == other.Instance
}

// Kind is the kind of a reservation.
type Kind string

// The kinds of reservations.
const (
	Automatic Kind = "automatic" // chosen from what is free
	Static    Kind = "static"    // asked for by static_ips
	// Floating is an address of a vip network, of its list or of static_ips.
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

// Address returns the address, or the block if that has several.
func (r Reservation) Address() string { return showBlock(r.Block) }

// Taken answers which addresses are reserved. Both questions must be quick for
// any number of addresses and reservations.
type Taken interface {
	// Overlapping returns the reservation with the lowest address among those
	// that have an address from the first to the last one, both included.
	Overlapping(scope string, first, last netip.Addr) (Reservation, bool, error)
	// LowestFree returns the block of this length to take next: the lowest one
	// that lies in one of the ranges and has no address of a reservation. The
	// ranges are in ascending order, without overlaps, of one family. A
	// repository may prefer blocks that nobody has given back lately.
	LowestFree(scope string, in []netipx.IPRange, bits int) (netip.Prefix, bool, error)
}
