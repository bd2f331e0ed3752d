package instance

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"bootstrap/addresses"
	"bootstrap/manifest"
	"bootstrap/network"
	"bootstrap/state"
)

// Addresses are the addresses of the instance. On networks of a cloud config, a ledger
// that deployments share has them; on networks of the manifest, the state.
type Addresses struct {
	rec *Record

	seen map[string]map[string]any // Look.AtAgent sets it: networks of the VM, as the agent reports them
}

// Placement chooses and reserves the addresses that a manifest does not name.
type Placement struct {
	*Addresses
	in *Inputs
}

// For returns the Placement for a manifest.
func (a *Addresses) For(in *Inputs) *Placement { return &Placement{Addresses: a, in: in} }

// Choose chooses the addresses of the instance without reserving them, and puts them into
// the manifest. It does nothing if the manifest names all addresses. If an address is
// refused, the error is a *network.Refused.
func (a *Placement) Choose(ctx context.Context, replace, swap bool) (network.Outcome, error) {
	if a.in.Manifest.Placement == nil {
		return network.Outcome{}, nil
	}
	open := a.Ledger
	switch {
	case a.InState():
		open = func(context.Context) (*addresses.Ledger, error) { return a.recorded() }
	case a.rec.State == nil || a.rec.Scratch != "":
		open = func(ctx context.Context) (*addresses.Ledger, error) {
			if err := a.UnnamedLedger(); err != nil {
				return nil, err
			}
			return a.rec.Env.LedgerToRead(ctx, a.LedgerAddress())
		}
	}
	ledger, err := open(ctx)
	if err != nil {
		return network.Outcome{}, err
	}
	in := a.question(replace, swap)
	outcomes, err := ledger.Decide(ctx, in.networks, []network.Instance{in.Instance})
	if err != nil {
		return network.Outcome{}, a.refused(err)
	}
	if err := a.expectRecorded(outcomes[0]); err != nil {
		return network.Outcome{}, err
	}
	return outcomes[0], a.place(in.Zone, outcomes[0])
}

// place puts the chosen addresses into the manifest.
func (a *Placement) place(zone string, outcome network.Outcome) error {
	blocks := map[string]netip.Prefix{}
	for _, c := range outcome.Changes {
		if Has(c) {
			blocks[c.Reservation.Network] = c.Reservation.Block
		}
	}
	m, err := a.in.Manifest.Place(zone, blocks)
	if err == nil {
		a.in.UseManifest(m)
	}
	return err
}

// Reserve reserves the addresses that Choose has chosen, for a run. It returns the
// reserved ones, which differ if another deployment was faster.
func (a *Placement) Reserve(ctx context.Context, run string, replace, swap bool) (got network.Outcome, err error) {
	in := a.question(replace, swap)
	err = a.With(ctx, func(ledger *addresses.Ledger) error {
		outcomes, err := ledger.Reserve(ctx, run, in.networks, []network.Instance{in.Instance})
		if err == nil {
			got = outcomes[0]
		}
		return err
	})
	return got, err
}

// With calls do with the ledger that has the addresses. If the state has them, it is a
// ledger in memory, and changes are saved in the state. If do returns a refusal, With
// adds the name of the ledger.
func (a *Placement) With(ctx context.Context, do func(*addresses.Ledger) error) error {
	if a.InState() {
		return a.Change(ctx, do)
	}
	ledger, err := a.Ledger(ctx)
	if err != nil {
		return err
	}
	return a.refused(do(ledger))
}

func (a *Placement) refused(err error) error {
	if a.InState() {
		return err
	}
	return a.rec.Env.Refused(err, a.LedgerAddress())
}

// InState reports whether the state has the addresses, because the manifest has networks
// of its own and does not name the addresses.
func (a *Placement) InState() bool {
	return a.in.Manifest.Placement != nil && a.in.Manifest.Placement.Own
}

// Recorded reports whether the state has addresses that the instance holds or has
// released.
func (a *Addresses) Recorded() bool {
	return a.rec.State != nil && len(a.rec.State.Get().Own.Addresses) > 0
}

// List returns the reservations of the instance in the state.
func (a *Addresses) List(ctx context.Context) ([]network.Reservation, error) {
	ledger, err := a.recorded()
	if err != nil {
		return nil, err
	}
	list, err := ledger.List(ctx, addresses.Filter{})
	for i := range list {
		list[i].Scope = "" // The scope is only of internal use.
	}
	return list, err
}

// maxReleased is how many released addresses the state keeps; the oldest are removed
// first.
const maxReleased = 50

// Change calls do with a ledger in memory that has the addresses of the state, and saves
// the changes in the state.
func (a *Addresses) Change(ctx context.Context, do func(*addresses.Ledger) error) error {
	ledger, err := a.recorded()
	if err != nil {
		return err
	}
	if err := do(ledger); err != nil {
		return err
	}
	held, err := ledger.List(ctx, addresses.Filter{})
	if err != nil {
		return err
	}
	released := ledger.Released()
	released = released[max(0, len(released)-maxReleased):]
	var list []state.Address
	for i, r := range slices.Concat(held, released) {
		list = append(list, state.Address{Network: r.Network, Address: r.Block.Addr().String(), VM: r.VM, Since: r.Since, Released: i >= len(held)})
	}
	return a.Set(list)
}

// Set records the addresses in the state.
func (a *Addresses) Set(list []state.Address) error {
	if slices.Equal(list, a.rec.State.Get().Own.Addresses) {
		return nil
	}
	return a.rec.State.Update(func(st *state.State) error { st.Own.Addresses = list; return nil })
}

// recorded returns a ledger in memory with the addresses of the state, without those on
// networks whose address the manifest names.
func (a *Addresses) recorded() (*addresses.Ledger, error) {
	if a.rec.State == nil {
		return addresses.Memory(nil, nil, time.Now)
	}
	var held, released []network.Reservation
	for _, record := range a.rec.State.Get().Own.Addresses {
		addr, err := netip.ParseAddr(record.Address)
		if err != nil || a.named(record.Network) {
			continue
		}
		r := network.Reservation{
			Block: netip.PrefixFrom(addr, addr.BitLen()), Owner: a.Owner(), Network: record.Network,
			Kind: network.Automatic, VM: record.VM, Since: record.Since,
		}
		if record.Released {
			released = append(released, r)
		} else {
			held = append(held, r)
		}
	}
	return addresses.Memory(held, released, time.Now)
}

// named reports whether static_ips names an address of the network, if the manifest was
// read.
func (a *Addresses) named(name string) bool {
	if a.rec.read == nil {
		return false
	}
	m := a.rec.read.Manifest
	if !slices.ContainsFunc(m.Group.Networks, func(ref manifest.GroupNetwork) bool { return ref.Name == name }) {
		return false
	}
	return m.Placement == nil || !slices.ContainsFunc(m.Placement.Group.Wishes, func(w network.Wish) bool { return w.Network == name })
}

// ofVM returns the VM's address on the network, according to the state.
func (a *Addresses) ofVM(name string) (netip.Addr, bool) {
	st := a.rec.State.Get()
	for _, record := range st.Own.Addresses {
		if !record.Released && record.VM == st.CurrentVMCID && record.Network == name {
			addr, err := netip.ParseAddr(record.Address)
			return addr, err == nil
		}
	}
	return netip.Addr{}, false
}

// renamed reports whether the VM has the address on a network with another name,
// according to the state.
func (a *Addresses) renamed(name string, addr netip.Addr) bool {
	st := a.rec.State.Get()
	return slices.ContainsFunc(st.Own.Addresses, func(record state.Address) bool {
		return !record.Released && record.VM == st.CurrentVMCID && record.Network != name && record.Address == addr.String()
	})
}

// reported returns the VM's address on the network, according to its agent: another tool
// or an older version may have written the state.
func (a *Addresses) reported(w network.Wish) (netip.Addr, bool) {
	text, ok := a.seen[w.Network]["ip"].(string)
	if !ok && slices.Contains(w.Default, "gateway") {
		text = AddressIn(a.seen)
	}
	addr, err := netip.ParseAddr(text)
	return addr.Unmap(), err == nil
}
