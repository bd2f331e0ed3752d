package addressestest

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"go4.org/netipx"
	"pgregory.net/rapid"

	"bootstrap/addresses"
	"bootstrap/network"
)

// Properties lets a few deployments do random things on small networks and checks
// invariants after each deploy. memory is as for Run; most limits the number of plays.
// open opens the ledger of one play.
func Properties(t *testing.T, memory bool, most int, open func(play *rapid.T) *addresses.Ledger) {
	t.Parallel()
	plays, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if plays++; plays > most && !failed {
			return
		}
		defer func() { failed = failed || rt.Failed() }() // after a failure, rapid looks for a shorter play
		p := &play{T: rt, ctx: t.Context(), ledger: open(rt), memory: memory, vms: map[network.Owner]string{}, orphans: map[network.Owner][]string{}}
		p.networks = p.drawNetworks()
		rt.Repeat(map[string]func(*rapid.T){
			"deploy": func(rt *rapid.T) { p.T = rt; p.deploy() },
			"change the networks": func(rt *rapid.T) {
				p.T = rt
				p.networks = p.drawNetworks()
			},
			"lose a VM": func(rt *rapid.T) {
				p.T = rt
				p.vms[p.drawOwner(p.drawDeployment())] = ""
			},
			"delete an instance": func(rt *rapid.T) {
				p.T = rt
				p.delete(p.drawOwner(p.drawDeployment()))
			},
			"delete orphans": func(rt *rapid.T) {
				p.T = rt
				p.cleanUp(p.drawOwner(p.drawDeployment()))
			},
			"": func(rt *rapid.T) { p.T = rt; p.check() },
		})
	})
}

// play is the state of the random deployments.
type play struct {
	*rapid.T
	ctx      context.Context
	ledger   *addresses.Ledger
	memory   bool
	networks []network.Network
	vms      map[network.Owner]string
	orphans  map[network.Owner][]string
	made     int
}

// must ends the test if err is not nil.
func (p *play) must(err error) {
	if err != nil {
		p.Fatal(err)
	}
}

func (p *play) drawDeployment() string {
	return rapid.SampledFrom([]string{"x", "y", "z"}).Draw(p.T, "deployment")
}

func (p *play) drawOwner(deployment string) network.Owner {
	return owner(deployment, rapid.SampledFrom([]string{"g/0", "g/1", "g/2"}).Draw(p.T, "instance"))
}

// drawNetworks returns networks a, b and c with few addresses, some of which are in two
// networks.
func (p *play) drawNetworks() []network.Network {
	var networks []network.Network
	for _, name := range []string{"a", "b", "c"} {
		n := network.Network{Name: name, Type: network.Manual}
		if p.memory || rapid.IntRange(0, 4).Draw(p.T, "own scope") == 0 {
			n.Scope = name
		}
		zones := rapid.Bool().Draw(p.T, "zones")
		prefix := rapid.SampledFrom([]int{32, 32, 32, 31, 30}).Draw(p.T, "prefix")
		for i := range rapid.IntRange(1, 2).Draw(p.T, "subnets") {
			s := p.drawSubnet(i, prefix)
			if zones {
				s.Zones = [][]string{{"z1"}, {"z2", "z1"}}[i]
			}
			n.Subnets = append(n.Subnets, s)
		}
		networks = append(networks, n)
	}
	vip := network.Network{Name: "vip", Type: network.VIP}
	if p.memory {
		vip.Scope = vip.Name
	}
	for range rapid.IntRange(1, 2).Draw(p.T, "lists") {
		s := network.Subnet{Zones: rapid.SampledFrom([][]string{nil, {"z1"}, {"z2"}}).Draw(p.T, "zones of the list")}
		for range rapid.IntRange(1, 3).Draw(p.T, "length") {
			// Some addresses are in the ranges of the manual networks, too.
			addr := netip.AddrFrom4([4]byte{10, 0, 1, byte(rapid.IntRange(6, 20).Draw(p.T, "vip"))})
			s.Static = append(s.Static, netipx.IPRangeFrom(addr, addr))
		}
		vip.Subnets = append(vip.Subnets, s)
	}
	return append(networks, vip, network.Network{Name: "dynamic", Type: network.Dynamic, Subnets: []network.Subnet{{}}})
}

// drawSubnet returns a subnet with one of two ranges; the two do not overlap.
func (p *play) drawSubnet(i, prefix int) network.Subnet {
	base := netip.AddrFrom4([4]byte{10, 0, byte(i), 0})
	s := network.Subnet{Range: netip.PrefixFrom(base, rapid.SampledFrom([]int{30, 29, 28}).Draw(p.T, "size")), Prefix: prefix}
	all := addrs(s.Range)
	s.Gateway = rapid.SampledFrom(all[1:len(all)-1]).Draw(p.T, "gateway")
	for _, addr := range all[1 : len(all)-1] {
		switch rapid.IntRange(0, 7).Draw(p.T, "list") {
		case 0:
			s.Reserved = append(s.Reserved, netipx.IPRangeFrom(addr, addr))
		case 1:
			// Keep only whole blocks without a restricted address, as Parse does.
			block := netip.PrefixFrom(addr, prefix).Masked()
			if !slices.ContainsFunc(addrs(block), func(a netip.Addr) bool { return restricted(s, a) }) {
				s.Static = append(s.Static, netipx.RangeOfPrefix(block))
			}
		}
	}
	return s
}

// addrs returns the addresses of a small block.
func addrs(block netip.Prefix) []netip.Addr {
	var all []netip.Addr
	for addr := block.Addr(); block.Contains(addr); addr = addr.Next() {
		all = append(all, addr)
	}
	return all
}

// contains reports whether one of the ranges has the address.
func contains(list []netipx.IPRange, addr netip.Addr) bool {
	return slices.ContainsFunc(list, func(r netipx.IPRange) bool { return r.Contains(addr) })
}

// restricted reports whether no instance may have the address.
func restricted(s network.Subnet, addr netip.Addr) bool {
	return addr == s.Gateway || addr == s.Range.Addr() || addr == netipx.PrefixLastIP(s.Range) || contains(s.Reserved, addr)
}

// allowed reports whether an instance of the zone may have the block in the
// subnet, as a static or an automatic address.
func allowed(s network.Subnet, zone string, block netip.Prefix, static bool) bool {
	ofZone := zone == "" || len(s.Zones) == 0 || slices.Contains(s.Zones, zone)
	if !s.Range.IsValid() { // a list of a vip network
		return ofZone && block.IsSingleIP() && contains(s.Static, block.Addr())
	}
	return ofZone && block.Bits() == s.Prefix && s.Range.Contains(block.Addr()) && !slices.ContainsFunc(addrs(block), func(addr netip.Addr) bool {
		return restricted(s, addr) || contains(s.Static, addr) != static
	})
}

// lowest returns the block that an instance must get, found by trying all.
func lowest(n network.Network, zone string, held []network.Reservation) (netip.Prefix, bool) {
	for _, s := range n.Subnets {
		if n.Type == network.VIP {
			for _, r := range s.Static {
				block := netip.PrefixFrom(r.From(), 32)
				if allowed(s, zone, block, false) && !overlaps(n.Scope, block, held) {
					return block, true
				}
			}
			continue
		}
		for _, addr := range addrs(s.Range) {
			block := netip.PrefixFrom(addr, s.Prefix)
			if block.Masked().Addr() == addr && allowed(s, zone, block, false) && !overlaps(n.Scope, block, held) {
				return block, true
			}
		}
	}
	return netip.Prefix{}, false
}

// overlaps reports whether a reservation has an address of the block.
func overlaps(scope string, block netip.Prefix, held []network.Reservation) bool {
	return slices.ContainsFunc(held, func(r network.Reservation) bool { return r.Scope == scope && r.Block.Overlaps(block) })
}

// all returns all reservations.
func (p *play) all() []network.Reservation {
	all, err := p.ledger.List(p.ctx, addresses.Filter{})
	p.must(err)
	return all
}

// check checks the invariants of every ledger.
func (p *play) check() {
	all := p.all()
	for i, r := range all {
		if overlaps(r.Scope, r.Block, all[i+1:]) {
			p.Fatalf("an address of %s is reserved twice: %+v", r.Block, all)
		}
	}
}

func (p *play) delete(o network.Owner) {
	for _, r := range p.all() {
		if r.Owner.Same(o) {
			_, err := p.ledger.Release(p.ctx, r)
			p.must(err)
		}
	}
	delete(p.vms, o)
	delete(p.orphans, o)
}

func (p *play) cleanUp(o network.Owner) {
	for _, vm := range p.orphans[o] {
		_, err := p.ledger.ReleaseVM(p.ctx, o.Deployment, vm)
		p.must(err)
	}
	delete(p.orphans, o)
}

// drawInstance returns an instance with random wishes.
func (p *play) drawInstance(o network.Owner) network.Instance {
	in := network.Instance{Owner: o, VM: p.vms[o], Orphans: p.orphans[o], Zone: rapid.SampledFrom([]string{"", "z1", "z2"}).Draw(p.T, "zone")}
	in.Swap = rapid.Bool().Draw(p.T, "swap")
	in.Replace = in.Swap || rapid.IntRange(0, 3).Draw(p.T, "replace") == 0
	for _, n := range p.networks {
		if rapid.IntRange(0, 2).Draw(p.T, "wish") == 0 {
			continue
		}
		w := network.Wish{Network: n.Name}
		var listed []netip.Addr
		for _, s := range n.Subnets {
			for _, r := range s.Static {
				if n.Type != network.Manual {
					break
				}
				if p, ok := r.Prefix(); ok && allowed(s, in.Zone, p, true) {
					listed = append(listed, p.Addr())
				}
			}
		}
		if len(listed) > 0 && rapid.Bool().Draw(p.T, "static") {
			w.Static = []netip.Addr{rapid.SampledFrom(listed).Draw(p.T, "address")}
		}
		in.Wishes = append(in.Wishes, w)
	}
	return in
}

// deploy deploys one or two instances of a deployment.
func (p *play) deploy() {
	deployment := p.drawDeployment()
	instances := []network.Instance{p.drawInstance(p.drawOwner(deployment))}
	if second := p.drawOwner(deployment); !second.Same(instances[0].Owner) && rapid.Bool().Draw(p.T, "two") {
		instances = append(instances, p.drawInstance(second))
	}
	before := p.all()
	outcomes, err := p.ledger.Reserve(p.ctx, "run", p.networks, instances)
	if err != nil {
		p.refused(before, instances, err)
		return
	}
	p.decided(before, instances, outcomes)
	for i, in := range instances {
		if in.VM != "" && !outcomes[i].Moves && !in.Replace {
			continue
		}
		swap := in.Swap && outcomes[i].NoSwap == "" && in.VM != ""
		if rapid.IntRange(0, 3).Draw(p.T, "create_vm fails") == 0 {
			if !swap {
				p.vms[in.Owner] = ""
			}
			return
		}
		if swap {
			p.orphans[in.Owner] = append(slices.Clone(p.orphans[in.Owner]), in.VM)
		}
		p.record(in, outcomes[i])
	}
	p.again(instances)
}

// record records a new VM as the VM of its instances.
func (p *play) record(in network.Instance, o network.Outcome) {
	p.made++
	vm := fmt.Sprintf("vm-%d", p.made)
	p.vms[in.Owner] = vm
	var has []network.Reservation
	for _, c := range o.Changes[:len(in.Wishes)] {
		if c.Action != network.Ask {
			has = append(has, c.Reservation)
		}
	}
	_, err := p.ledger.Record(p.ctx, in.Owner, vm, has, p.orphans[in.Owner]...)
	p.must(err)
	for _, r := range p.all() {
		if !r.Owner.Same(in.Owner) || slices.Contains(p.orphans[in.Owner], r.VM) {
			continue
		}
		if r.VM != vm || !slices.ContainsFunc(has, func(h network.Reservation) bool { return h.Block == r.Block && h.Network == r.Network }) {
			p.Fatalf("%s with %s holds %+v besides %+v", in.Owner, vm, r, has)
		}
	}
}

// decided compares the addresses that instances got with a search through all
// addresses.
func (p *play) decided(before []network.Reservation, instances []network.Instance, outcomes []network.Outcome) {
	held := slices.Clone(before)
	for _, o := range outcomes {
		for _, c := range o.Changes {
			if c.Before != nil { // the network may have another scope by then
				held = append(held, c.Reservation)
			}
		}
	}
	for _, static := range []bool{true, false} {
		for i, in := range instances {
			for j, w := range in.Wishes {
				c := outcomes[i].Changes[j]
				n, _ := network.Find(p.networks, w.Network)
				if (len(w.Static) > 0) != static || n.Type == network.Dynamic && c.Action == network.Ask {
					continue
				}
				if !slices.ContainsFunc(n.Subnets, func(s network.Subnet) bool { return allowed(s, in.Zone, c.Reservation.Block, static) }) {
					p.Fatalf("%s got %s on %s, which it may not have", in.Owner, c.Reservation.Block, n.Name)
				}
				if c.Action != network.Reserve {
					continue
				}
				want, found := lowest(*n, in.Zone, held)
				if !static && !p.memory && (!found || want != c.Reservation.Block) {
					p.Fatalf("%s got %s on %s instead of %s", in.Owner, c.Reservation.Block, n.Name, want)
				}
				if overlaps(n.Scope, c.Reservation.Block, held) {
					p.Fatalf("%s got %s on %s, which is taken: %+v", in.Owner, c.Reservation.Block, n.Name, held)
				}
				held = append(held, c.Reservation)
			}
		}
	}
}

// refused checks that the reason of a refusal is true, and that the refusal changed
// nothing.
func (p *play) refused(before []network.Reservation, instances []network.Instance, err error) {
	var refused *network.Refused
	if !errors.As(err, &refused) {
		p.Fatal(err)
	}
	if after := p.all(); !slices.Equal(after, before) {
		p.Fatalf("%v changed the ledger from %+v to %+v", err, before, after)
	}
	n, _ := network.Find(p.networks, refused.Network)
	switch refused.Kind {
	case network.AlreadyInUse:
		if !slices.ContainsFunc(refused.Holders, func(r network.Reservation) bool { return r.Block.Overlaps(refused.Block) }) {
			p.Fatalf("%v names no holder", err)
		}
	case network.NotEnoughCapacity:
		block, found := lowest(*n, refused.Zone, before)
		if found && refused.Free == 0 && len(instances) == 1 && len(instances[0].Wishes) == 1 {
			p.Fatalf("%v, but %s is free", err, block)
		}
	default:
		p.Fatal(err)
	}
}

// again checks that a repeated deploy would change nothing.
func (p *play) again(instances []network.Instance) {
	for i := range instances {
		in := &instances[i]
		in.VM, in.Orphans, in.Replace = p.vms[in.Owner], p.orphans[in.Owner], false
	}
	outcomes, err := p.ledger.Decide(p.ctx, p.networks, instances)
	p.must(err)
	for i, o := range outcomes {
		if o.Moves {
			p.Fatalf("%s moves at once: %+v", o.Owner, o)
		}
		for j, c := range o.Changes {
			if c.Action == network.Orphan || c.Action == network.Ask {
				continue
			}
			if j >= len(instances[i].Wishes) || c.Action != network.Bind || c.Before != nil {
				p.Fatalf("%s changes at once: %+v", o.Owner, c)
			}
		}
	}
}
