package network

import (
	"net/netip"
	"strconv"
	"strings"
)

// Instance is an instance with its addresses and its wishes.
type Instance struct {
	Owner  Owner
	Zone   string // zone of the instance; empty: none
	VM     string // CID of its VM; empty: it has no VM
	Wishes []Wish
	Held   []Reservation // reservations in any order; they are respected even if the ledger does not contain them
	// Orphans are CIDs of existing VMs that the instance no longer uses; they keep
	// their addresses.
	Orphans []string
	// Swap is true if the new VM is created before the old one is deleted, and Replace
	// if the VM is replaced for another reason than its addresses.
	Swap, Replace bool
	// Chosen are the automatic addresses that were chosen for the instance together with those
	// of others, by network: it gets these, and not the lowest free ones, if they are free.
	Chosen map[string]netip.Addr
	// LastKnown are the last addresses of the VM on dynamic networks, by network.
	LastKnown map[string]netip.Addr
}

// Action is what happens to an address.
type Action string

// The actions.
const (
	Bind    Action = "bind"    // the instance uses it and keeps it
	Reserve Action = "reserve" // the instance gets it
	Hold    Action = "hold"    // it is released once the VM that uses it is gone
	Release Action = "release" // no VM uses it: it is released with the record of the new VM
	Orphan  Action = "orphan"  // a VM that the instance no longer uses holds it until it is deleted
	Ask     Action = "ask"     // the IaaS chooses the address; Block is only a suggestion
)

// Change is what happens to one address of an instance.
type Change struct {
	Action Action
	// Reservation is the record in the ledger after the change; for Hold and Release, the
	// record until the release. In a new record, Since and Run are empty.
	Reservation Reservation
	// Before is the present record in the ledger, for Bind, if it differs.
	Before *Reservation
	Reason Reason
}

// ReasonKind is the kind of a reason.
type ReasonKind string

// The kinds of reasons; the comments explain From and To of a Reason.
const (
	New         ReasonKind = "new"          // the instance has no address on the network
	Same        ReasonKind = "same"         // nothing changes
	Renamed     ReasonKind = "renamed"      // From and To are names of networks
	Rescoped    ReasonKind = "rescoped"     // From and To are scopes
	Retyped     ReasonKind = "retyped"      // From and To are kinds of reservations
	StaticAsked ReasonKind = "static asked" // static_ips asks for To instead of From
	NotListed   ReasonKind = "not listed"   // From is not in a list static, or not in the list of the vip network
	Listed      ReasonKind = "listed"       // From is in a list static, and the group has no static_ips
	Outside     ReasonKind = "outside"      // From is in none of the subnets To
	Restricted  ReasonKind = "restricted"   // no instance may have From; To is the reason: reserved, the gateway, …
	OtherZone   ReasonKind = "other zone"   // From is not in the zone To
	OtherBlock  ReasonKind = "other block"  // From is not a block of the length To
	OtherType   ReasonKind = "other type"   // the network of From now has the type To
	NetworkGone ReasonKind = "network gone" // the network To is not in the manifest
	NotWanted   ReasonKind = "not wanted"   // the instance does not use the network To
	Replaced    ReasonKind = "replaced"     // the instance uses another address that it holds, To
	Swapped     ReasonKind = "swapped"      // the old VM keeps From until the new VM, with To, serves
	OfOrphan    ReasonKind = "of orphan"    // the VM To holds From
	InUse       ReasonKind = "in use"       // the VM has the address, and the ledger does not contain that yet
	ByIaaS      ReasonKind = "by IaaS"      // the network is dynamic
)

// Reason is why an address changes, or stays.
type Reason struct {
	Kind     ReasonKind
	From, To string
}

// words has the words of the reasons, in which {from} and {to} are From and To.
var words = map[ReasonKind]string{
	New:         "the instance has none on this network yet",
	Same:        "nothing changes",
	Renamed:     "the network {from} is named {to}",
	Rescoped:    "the scope of the network changes from {from quoted} to {to quoted}",
	Retyped:     "it changes from {from} to {to}",
	StaticAsked: "static_ips asks for {to}",
	NotListed:   "{from} is not in the list of static addresses",
	Listed:      "{from} is for instances with static_ips",
	Outside:     "{from} is outside of {to}",
	Restricted:  "{from} is {to}",
	OtherZone:   "{from} is not in the zone {to}",
	OtherBlock:  "{from} is not a block of the length {to}",
	OtherType:   "the network is {to}",
	NetworkGone: "the network {to} is gone",
	NotWanted:   "the instance does not use the network {to}",
	Replaced:    "the instance uses {to}",
	Swapped:     "the old VM keeps {from} until the new one serves",
	OfOrphan:    "the VM {to}, which is no longer used, has {from}",
	InUse:       "the VM has it already",
	ByIaaS:      "the IaaS chooses the address",
}

// String returns the reason as a part of a sentence.
func (r Reason) String() string {
	text, ok := words[r.Kind]
	if !ok {
		return string(r.Kind)
	}
	return strings.NewReplacer("{from}", r.From, "{to}", r.To,
		"{from quoted}", strconv.Quote(r.From), "{to quoted}", strconv.Quote(r.To)).Replace(text)
}

// Outcome is what happens to the addresses of one instance.
type Outcome struct {
	Owner Owner
	// Was is the name that the ledger still has for the instance, because its group was
	// renamed; empty: the ledger has its name, or no address of it.
	Was string
	// Changes has one entry for each wish, in the order of the wishes, and then one entry
	// for each address that the instance gives up, sorted by address.
	Changes []Change
	// Moves is true if the instance has a VM whose addresses change, so that the
	// VM must be replaced.
	Moves bool
	// NoSwap is a network whose static or vip address prevents a swap: although Swap asks
	// for it, the VM is deleted before the new one is created. Empty: no address prevents
	// it.
	NoSwap string
}
