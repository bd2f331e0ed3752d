package network

import (
	"math"
	"math/big"
	"net/netip"

	"go4.org/netipx"
)

// Usage is the number of addresses, or blocks, of a subnet, and the number of free ones.
// A number larger than math.MaxUint64 is given as math.MaxUint64.
type Usage struct {
	Network            string
	Range              netip.Prefix // the zero Prefix for a list of a vip network
	Zones              []string
	Total, Free        uint64 // addresses for instances without static_ips
	Static, StaticFree uint64 // addresses in the list static
}

// Usage returns the numbers of each subnet, given all reservations of the ledger. For a
// dynamic network there are no numbers.
func (n *Network) Usage(reservations []Reservation) []Usage {
	var b netipx.IPSetBuilder
	for _, r := range reservations {
		if r.Scope == n.Scope {
			b.AddPrefix(r.Block)
		}
	}
	reserved, _ := b.IPSet()
	var all []Usage
	for i := range n.Subnets {
		s := &n.Subnets[i]
		u := Usage{Network: n.Name, Range: s.Range, Zones: s.Zones}
		switch n.Type {
		case Dynamic:
			continue
		case VIP:
			u.Total, u.Free = count(s.Static, reserved, 0)
		default:
			u.Total, u.Free = count(s.automatic(), reserved, s.bits())
			u.Static, u.StaticFree = count(s.Static, reserved, s.bits())
		}
		all = append(all, u)
	}
	return all
}

// count returns the number of blocks in the ranges, and of those without a
// reserved address. Blocks of 0 bits are single addresses.
func count(ranges []netipx.IPRange, reserved *netipx.IPSet, bits int) (total, free uint64) {
	var b netipx.IPSetBuilder
	b.AddSet(setOf(ranges))
	set, _ := b.IPSet()
	b.RemoveSet(reserved)
	rest, _ := b.IPSet()
	return countBlocks(set.Ranges(), bits), countBlocks(rest.Ranges(), bits)
}

// countBlocks returns how many whole blocks are in the ranges.
func countBlocks(ranges []netipx.IPRange, bits int) uint64 {
	sum := new(big.Int)
	for _, r := range ranges {
		host := uint(r.From().BitLen() - bits)
		if bits == 0 {
			host = 0
		}
		size := new(big.Int).Lsh(big.NewInt(1), host)
		first := asNumber(r.From())
		first.Add(first, size).Sub(first, big.NewInt(1)).Rsh(first, host) // number of the first whole block
		next := asNumber(r.To())
		next.Add(next, big.NewInt(1)).Rsh(next, host) // number of the block after the last whole one
		if next.Cmp(first) > 0 {
			sum.Add(sum, next).Sub(sum, first)
		}
	}
	if !sum.IsUint64() {
		return math.MaxUint64
	}
	return sum.Uint64()
}

// asNumber returns the address as a number.
func asNumber(addr netip.Addr) *big.Int { return new(big.Int).SetBytes(addr.AsSlice()) }

// Need is the number of addresses of a network that instances need at the same time.
type Need struct {
	Network           string
	Automatic, Static int
	// Swap is how many addresses of Automatic are needed only for a moment, while the old
	// and the new VM both exist.
	Swap int
}

// Needs returns what the instances need of each network, in the order in which
// they name the networks.
func Needs(networks []Network, instances []Instance) []Need {
	var needs []Need
	of := map[string]int{}
	for _, in := range instances {
		swap := in.Swap
		for _, w := range in.Wishes {
			n, ok := Find(networks, w.Network)
			swap = swap && len(w.Static) == 0 && ok && n.Type != VIP
		}
		for _, w := range in.Wishes {
			n, ok := Find(networks, w.Network)
			if !ok || n.Type == Dynamic {
				continue
			}
			i, seen := of[w.Network]
			if !seen {
				i = len(needs)
				of[w.Network] = i
				needs = append(needs, Need{Network: w.Network})
			}
			switch {
			case len(w.Static) > 0:
				needs[i].Static++
			case swap:
				needs[i].Automatic += 2
				needs[i].Swap++
			default:
				needs[i].Automatic++
			}
		}
	}
	return needs
}
