package ui

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"bootstrap/deployer/observe"
)

// Addresses is a table of reservations.
type Addresses struct{ table *Table }

// NewAddresses begins a table of reservations.
func NewAddresses(out *Writer) *Addresses {
	return &Addresses{NewTable(out, "ADDRESS", "NETWORK", "DEPLOYMENT", "INSTANCE", "KIND", "VM", "SINCE").
		Yield("SINCE", 0).Yield("KIND", 0).Yield("NETWORK", 16).Yield("VM", 0).Yield("INSTANCE", 0).Yield("NETWORK", 12)}
}

// Add adds a reservation.
func (t *Addresses) Add(a observe.HeldAddress) {
	since, network := "-", a.Network
	if a.Since != nil {
		since = Moment(*a.Since)
	}
	if a.Scope != "" {
		network += " (" + a.Scope + ")"
	}
	t.table.Row(a.Address, orDash(network), a.Deployment, a.Instance, a.Type, orDash(a.VM), since)
}

// Print writes the table.
func (t *Addresses) Print() { t.table.Print() }

// LedgerCheck prints how many addresses are free and needed, and problems.
func LedgerCheck(out *Writer, check *observe.LedgerCheck) {
	if len(check.Subnets) > 0 {
		table := NewTable(out, "NETWORK", "RANGE", "ZONES", "FREE", "OF", "STATIC FREE", "OF").
			Yield("ZONES", 12).Yield("OF", 0).Yield("ZONES", 0)
		for _, s := range check.Subnets {
			table.Row(s.Network, orDash(s.Range), orDash(strings.Join(s.Zones, ", ")), many(s.Free), many(s.Total), many(s.StaticFree), many(s.Static))
		}
		table.Print()
		fmt.Fprintln(out)
	}
	if len(check.Needs) > 0 {
		table := NewTable(out, "NETWORK", "NEEDED", "STATIC", "FOR A SWAP", "HELD").
			Yield("FOR A SWAP", 0).Yield("STATIC", 0)
		for _, n := range check.Needs {
			table.Row(n.Network, strconv.Itoa(n.Needed), strconv.Itoa(n.Static), strconv.Itoa(n.Swap), strconv.Itoa(n.Held))
		}
		table.Print()
		fmt.Fprintln(out)
	}
	for _, what := range check.Findings {
		Say(out, "Wrong: "+what)
	}
	if len(check.Findings) == 0 {
		fmt.Fprintf(out, "Nothing is wrong with the ledger %s\n", check.Place)
	}
}

// many writes a number of addresses.
func many(n uint64) string {
	if n == math.MaxUint64 {
		return "over 10^19"
	}
	return strconv.FormatUint(n, 10)
}
