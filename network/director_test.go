package network

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go4.org/netipx"
)

// directorCases were computed by the classes of BOSH's Director at cloudfoundry/bosh
// 96f913526a (2026-08-22): the situations of its specs of 2025 and 2026 for reserved
// ranges, prefixes and interfaces, and random networks.
//
//go:embed testdata/director.json
var directorCases []byte

type directorCase struct {
	ID       string
	Networks []any
	Error    string // the Director's name of the error, or empty
	// Subnets have, for each subnet of a manual network, the restricted addresses, the
	// static addresses, the prefix and the netmask.
	Subnets  [][4]any
	Settings []struct {
		Network, Zone, Block string
		NIC                  *int
		Want                 map[string]any
	}
}

// stricter are mistakes that the Director accepts, on purpose or by a slip.
func stricter(c directorCase, p Problem) bool {
	switch c.ID {
	case "reserved-range-reversed": // the Director reserves nothing
		return p.Kind == InvalidIPRangeFormat
	case "static-block-with-reserved-inside": // the Director gives the reserved address to static_ips
		return p.Kind == StaticIPOutOfRange
	case "prefixes-that-differ": // the Director compares a subnet with the one before the last
		return p.Kind == PrefixSizesDiffer
	case "static-single-address-inside-a-block": // the Director leaves the address out
		return p.Kind == PrefixStaticIPNotAtBase
	}
	return false
}

// Networks are read as the Director reads them, and VMs get the same settings.
func TestDirectorCases(t *testing.T) {
	var cases []directorCase
	if err := json.Unmarshal(directorCases, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		t.Run(c.ID, func(t *testing.T) {
			networks, problems := Parse(c.Networks, rules())
			if c.Error != "" {
				if !slices.ContainsFunc(problems, func(p Problem) bool { return p.Kind == c.Error }) {
					t.Fatalf("got %q, want %s", paths(problems), c.Error)
				}
				return
			}
			for _, p := range problems {
				if !stricter(c, p) {
					t.Errorf("%+v", p)
				}
			}
			if len(problems) > 0 {
				return
			}
			compareSubnets(t, c, networks)
			for _, s := range c.Settings {
				n, _ := Find(networks, s.Network)
				w := Wish{Network: s.Network}
				if s.NIC != nil {
					w.NICGroup = strconv.Itoa(*s.NIC)
				}
				got, err := n.Settings(w, netip.MustParsePrefix(s.Block), s.Zone)
				if err != nil {
					t.Fatal(err)
				}
				text, _ := json.Marshal(got)
				got = nil
				_ = json.Unmarshal(text, &got)
				if !reflect.DeepEqual(got, s.Want) {
					t.Errorf("%s: got %v, want %v", s.Block, got, s.Want)
				}
			}
		})
	}
}

// compareSubnets compares the restricted and static addresses of the subnets.
func compareSubnets(t *testing.T, c directorCase, networks []Network) {
	t.Helper()
	i := 0
	for _, n := range networks {
		for _, s := range n.Subnets {
			if n.Type != Manual {
				continue
			}
			want := c.Subnets[i]
			i++
			var static netipx.IPSetBuilder
			for _, r := range setOf(s.Static).Ranges() {
				for block := blockAt(r.From(), s.bits()); r.Contains(block.Addr()); {
					static.Add(block.Addr()) // the Director lists the first address of a block
					next := netipx.PrefixLastIP(block).Next()
					if !next.IsValid() {
						break
					}
					block = blockAt(next, s.bits())
				}
			}
			list, _ := static.IPSet()
			if got, want := texts(s.restricted().Ranges()), lines(want[0]); got != want {
				t.Errorf("%s restricts %s, want %s", s.Range, got, want)
			}
			if got, want := texts(list.Ranges()), lines(want[1]); got != want {
				t.Errorf("%s has the static addresses %s, want %s", s.Range, got, want)
			}
		}
	}
}

func texts(ranges []netipx.IPRange) string {
	var all []string
	for _, r := range ranges {
		all = append(all, r.String())
	}
	return strings.Join(all, " ")
}

func lines(list any) string {
	var all []string
	for _, item := range list.([]any) {
		all = append(all, item.(string))
	}
	return strings.Join(all, " ")
}

// interfaceCases are placements by the same classes: random groups whose networks share
// interfaces. An address is a number: 10.0.0.0 plus that many.
//
//go:embed testdata/interfaces.json
var interfaceCases []byte

type interfaceCase struct {
	Zones     []string
	Instances int
	Networks  []struct {
		Name    string
		NIC     *int
		Wants   []int
		Subnets []struct {
			Zone    string
			K, From int
		}
	}
	Existing []struct {
		ID, Zone  string
		Addresses map[string]int
	}
	Error string
	Gets  []struct {
		Was, Zone string
		Addresses map[string]int
	}
}

// numbered returns the address with the number.
func numbered(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// values returns the arguments of Place for the case.
func (c *interfaceCase) values() ([]Network, Group, []Member) {
	var networks []Network
	group := Group{Name: "web", Instances: c.Instances, Zones: c.Zones}
	for _, n := range c.Networks {
		parsed := Network{Name: n.Name, Type: Manual}
		for _, s := range n.Subnets {
			subnet := Subnet{Range: netip.PrefixFrom(numbered(s.From), 28).Masked(), Prefix: 32, CloudProperties: map[string]any{"k": s.K}}
			if s.Zone != "" {
				subnet.Zones = []string{s.Zone}
			}
			parsed.Subnets = append(parsed.Subnets, subnet)
		}
		networks = append(networks, parsed)
		w := Wish{Network: n.Name}
		for _, addr := range n.Wants {
			w.Static = append(w.Static, numbered(addr))
		}
		if n.NIC != nil {
			w.NICGroup = strconv.Itoa(*n.NIC)
		}
		group.Wishes = append(group.Wishes, w)
	}
	var existing []Member
	for _, e := range c.Existing {
		m := Member{Instance: e.ID, Zone: e.Zone}
		for name, addr := range e.Addresses {
			m.Held = append(m.Held, Reservation{Network: name, Block: netip.PrefixFrom(numbered(addr), 32)})
		}
		existing = append(existing, m)
	}
	return networks, group, existing
}

// Instances whose networks share an interface get the addresses and zones that the
// Director gives them.
func TestDirectorInterfaces(t *testing.T) {
	var cases []interfaceCase
	if err := json.Unmarshal(interfaceCases, &cases); err != nil {
		t.Fatal(err)
	}
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			members, err := Place(c.values())
			var refused *Refused
			if c.Error != "" {
				if !errors.As(err, &refused) || refused.Kind != c.Error {
					t.Fatalf("got %+v, %v, want %s", members, err, c.Error)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got, want []string
			for _, m := range members {
				got = append(got, fmt.Sprint(m.Instance, " in ", m.Zone, m.Static))
			}
			for _, w := range c.Gets {
				static := map[string]netip.Addr{}
				for name, addr := range w.Addresses {
					static[name] = numbered(addr)
				}
				want = append(want, fmt.Sprint(w.Was, " in ", w.Zone, static))
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}
