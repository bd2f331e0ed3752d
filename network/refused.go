package network

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// Refused is the error for an address that an instance cannot have.
type Refused struct {
	Kind    string // the Director's name, for example NetworkReservationAlreadyInUse
	Owner   Owner  // the instance that asked
	Network string
	Scope   string
	Zone    string       // zone of the instance; empty: none
	Block   netip.Prefix // the requested block; the zero Prefix: any
	// Holders are the reservations that are the reason: for AlreadyInUse the one with the
	// address, for NotEnoughCapacity the first few.
	Holders []Reservation
	// Leaves is true if one of the holders gives up its address in the same run.
	Leaves bool
	// Orphan is true if the holder is a VM that its instance no longer uses.
	Orphan bool
	// Needed and Free are numbers of addresses, or of blocks, of
	// NotEnoughCapacity.
	Needed, Free int
	Ranges       string   // ranges of the subnets that were searched
	Why          string   // the role of a restricted address
	Known        []string // zones of the network
	// Ledger is the ledger as an argument of commands; empty: commands do not need the
	// argument.
	Ledger string
}

// Error returns what was refused, why, who holds it, and what to do.
func (e *Refused) Error() string {
	return fmt.Sprintf("%s: %s (%s)", e.request(), e.reason(), e.Kind)
}

// Name returns the name of the documentation page that explains the error; empty: there
// is no such page.
func (e *Refused) Name() string {
	return map[string]string{
		AlreadyInUse:      "address-in-use",
		NotEnoughCapacity: "address-none-free",
		IPOutsideSubnet:   "address-outside",
		IPReserved:        "address-reserved",
		WrongType:         "address-not-static",
		NoSubnetOfZone:    "network-zone",
		UnknownNetwork:    "network-unknown",
	}[e.Kind]
}

func (e *Refused) Hint() string {
	switch {
	case e.Kind == AlreadyInUse && len(e.Holders) == 1 && !e.Leaves && !e.Orphan:
		release := "bootstrap addresses release " + e.Holders[0].Block.Addr().String()
		if e.Ledger != "" {
			release += " --database " + e.Ledger
		}
		return fmt.Sprintf("if %s does not exist any more, \"%s\" releases its address; then run the same command again", e.Holders[0].Owner, release)
	case e.Kind == AlreadyInUse, e.Kind == NotEnoughCapacity:
		return `"bootstrap addresses check MANIFEST" shows how many are free and needed; then run the same command again`
	}
	return "correct the manifest or the cloud config, and run the same command again"
}

// request returns the request that was refused.
func (e *Refused) request() string {
	address := "an address"
	if e.Block.IsValid() {
		address = showBlock(e.Block)
	}
	text := fmt.Sprintf("cannot reserve %s on the network %q", address, e.Network)
	if e.Owner.Instance != "" {
		text += " for " + e.Owner.String()
	}
	return text
}

// reason returns the reason and the advice.
func (e *Refused) reason() string {
	switch e.Kind {
	case AlreadyInUse:
		return e.inUse()
	case NotEnoughCapacity:
		return e.capacity()
	case IPOutsideSubnet:
		return fmt.Sprintf("it is in no subnet of the network: %s; correct static_ips or the range", e.Ranges)
	case IPReserved:
		return fmt.Sprintf("it is %s; choose an address that is not reserved", e.Why)
	case WrongType:
		if e.Why != "" {
			return e.Why
		}
		return "it is not in the list static of its subnet; add it there, or choose one of that list"
	case NoSubnetOfZone:
		return fmt.Sprintf("it has no subnet in the zone %s%s", e.Zone, among(e.Known))
	case ReservationIPAbsent:
		return "no address is reserved"
	case AlreadyExists:
		return "the instance asks for the network twice; it has one address on each network, so list the network once"
	case UnknownNetwork:
		return "there is no such network" + among(e.Known)
	}
	return e.Why
}

// inUse returns who holds the address.
func (e *Refused) inUse() string {
	if len(e.Holders) == 0 {
		return "it is in use"
	}
	h := e.Holders[0]
	text := h.held(e.Block)
	if h.Block == e.Block {
		text = "it is " + text
	}
	switch {
	case e.Orphan:
		text += fmt.Sprintf(", for the VM %s, which is being replaced; the address is free once that VM is deleted: deploy again", h.VM)
	case e.Leaves:
		text += ", which gives it up in this run, but only after all addresses are reserved; use a free address in between, or deploy twice"
	default:
		text += "; choose another address, or first deploy the other deployment with another one (two that swap addresses need a third one in between)"
	}
	return text
}

// capacity returns how many addresses are needed and free, and some of their holders.
func (e *Refused) capacity() string {
	text := "no address is free"
	if e.Ranges != "" {
		text += " in " + e.Ranges
	}
	if e.Zone != "" {
		text += " for the zone " + e.Zone
	}
	text += fmt.Sprintf(": %d needed, %d free", e.Needed, e.Free)
	var holders []string
	for _, h := range e.Holders {
		holders = append(holders, h.held(netip.Prefix{}))
	}
	if len(holders) > 0 {
		text += "; " + strings.Join(holders, ", ")
	}
	switch {
	case e.Leaves:
		return text + ", which is given up in this run, but only after all addresses are reserved: deploy without the new instances first"
	case len(holders) > 0:
		return text + "; make the range larger, shorten reserved or static, or release what nobody needs (bootstrap addresses list shows all)"
	}
	return text + "; make the range larger, or shorten reserved or static"
}

// held returns the holder of the reservation; if the reservation is not the requested
// block, it also returns the block.
func (r Reservation) held(asked netip.Prefix) string {
	text := ""
	if r.Block != asked {
		text = r.Address() + " is "
	}
	text += "held by " + r.Owner.String()
	if r.Network != "" {
		text += fmt.Sprintf(" on the network %q", r.Network)
	}
	if !r.Since.IsZero() {
		text += " since " + r.Since.UTC().Format("2006-01-02 15:04 UTC")
	}
	return text
}

// String returns the instance and the deployment for people, for example
// bosh/0 of "cf".
func (o Owner) String() string {
	name := o.Name
	if name == "" {
		name = o.Deployment
	}
	if name == "" {
		return o.Instance
	}
	return fmt.Sprintf("%s of %q", o.Instance, name)
}

// distinct appends the reservation unless the list has its block.
func distinct(list []Reservation, r Reservation) []Reservation {
	if slices.ContainsFunc(list, func(other Reservation) bool { return other.Block == r.Block }) {
		return list
	}
	return append(list, r)
}
