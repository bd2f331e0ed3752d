package roster

import (
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"bootstrap/network"
)

// directorCases are what the classes of BOSH's Director (96f913526a) decide for
// random deployments that change step by step. An address is a number: 10.0.0.0
// plus that many.
//
//go:embed testdata/director.json
var directorCases []byte

type directorCase struct {
	Config struct {
		Zones    []string
		Networks []struct {
			Name    string
			Subnets []struct {
				Zones  []string
				Static []int
			}
		}
		Groups []struct {
			Name      string
			Instances int
			Zones     []string
			Networks  []struct {
				Name   string
				Static []int
			}
			From []struct{ Name, Zone string } `json:"migrated_from"`
		}
	}
	Recorded []struct {
		ID, Group, Zone          string
		Index                    int
		Bootstrap, Ignored, Disk bool
		Addresses                map[string]int
	}
	Result struct {
		Error  string
		Wanted []struct {
			Group, Zone, Was string
			Index            int
			Bootstrap        bool
			Static           map[string]int
		}
		Gone []string
	}
}

func address(n int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, byte(n >> 16), byte(n >> 8), byte(n)})
}

// values returns the arguments of Make for the case.
func (c *directorCase) values() ([]Group, []Recorded, []network.Network) {
	var networks []network.Network
	for _, n := range c.Config.Networks {
		parsed := network.Network{Name: n.Name, Type: network.Manual}
		for _, s := range n.Subnets {
			block := netip.PrefixFrom(address(s.Static[0]), 28).Masked()
			parsed.Subnets = append(parsed.Subnets, network.Subnet{Range: block, Zones: s.Zones, Prefix: 32})
		}
		networks = append(networks, parsed)
	}
	var groups []Group
	for _, g := range c.Config.Groups {
		group := Group{Group: network.Group{Name: g.Name, Instances: g.Instances, Zones: g.Zones}}
		for _, n := range g.Networks {
			w := network.Wish{Network: n.Name}
			for _, s := range n.Static {
				w.Static = append(w.Static, address(s))
			}
			group.Wishes = append(group.Wishes, w)
		}
		for _, from := range g.From {
			group.From = append(group.From, Origin(from))
		}
		groups = append(groups, group)
	}
	var recorded []Recorded
	for _, r := range c.Recorded {
		was := Recorded{ID: r.ID, Group: r.Group, Index: r.Index, Zone: r.Zone, Bootstrap: r.Bootstrap, Ignored: r.Ignored, Disk: r.Disk}
		for name, addr := range r.Addresses {
			was.Held = append(was.Held, network.Reservation{Network: name, Block: netip.PrefixFrom(address(addr), 32)})
		}
		recorded = append(recorded, was)
	}
	return groups, recorded, networks
}

func TestDirector(t *testing.T) {
	var cases []directorCase
	if err := json.Unmarshal(directorCases, &cases); err != nil {
		t.Fatal(err)
	}
	balanced := 0
	for i, c := range cases {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			groups, recorded, networks := c.values()
			got, err := Make(groups, recorded, networks)
			var mine *Refused
			var placing *network.Refused
			switch {
			case errors.As(err, &mine) && mine.Kind == c.Result.Error, errors.As(err, &placing) && placing.Kind == c.Result.Error:
				return
			case c.Result.Error == "JobStaticIpsFromInvalidAvailabilityZone" && err != nil:
				return // network.ParseGroup reports these errors before Make is called.
			case err != nil || c.Result.Error != "":
				t.Fatalf("%v, want %q", err, c.Result.Error)
			}
			var want, have, gone []string
			for _, w := range c.Result.Wanted {
				static := map[string]netip.Addr{}
				for name, addr := range w.Static {
					static[name] = address(addr)
				}
				want = append(want, fmt.Sprintf("%s/%d in %q was %q bootstrap %v static %v", w.Group, w.Index, w.Zone, w.Was, w.Bootstrap, static))
			}
			for _, in := range got.Instances {
				if in.Static == nil {
					in.Static = map[string]netip.Addr{}
				}
				have = append(have, fmt.Sprintf("%s/%d in %q was %q bootstrap %v static %v", in.Group, in.Index, in.Zone, in.ID, in.Bootstrap, in.Static))
			}
			for _, g := range got.Going {
				gone = append(gone, g.ID)
			}
			slices.Sort(gone)
			if !slices.Equal(want, have) || !slices.Equal(gone, c.Result.Gone) {
				if slices.ContainsFunc(got.Going, func(g Going) bool { return g.Disk && g.Why == Fewer }) && c.uneven() > unevenness(got.Instances) {
					balanced++
					return
				}
				text, _ := json.Marshal(c)
				t.Fatalf("have %q, gone %q\nwant %q, gone %q\n%s", have, gone, want, c.Result.Gone, text)
			}
		})
	}
	if balanced > len(cases)/50 {
		t.Errorf("%d of %d cases differ by the balance of instances with disks", balanced, len(cases))
	}
}

// unevenness returns the sum of the squares of the numbers of instances in each zone of
// each group: the lower, the better the balance.
func unevenness(instances []Instance) int {
	counts := map[[2]string]int{}
	for _, in := range instances {
		counts[[2]string{in.Group, in.Zone}]++
	}
	sum := 0
	for _, n := range counts {
		sum += n * n
	}
	return sum
}

// uneven returns the unevenness of the Director's decision.
func (c *directorCase) uneven() int {
	var instances []Instance
	for _, w := range c.Result.Wanted {
		instances = append(instances, Instance{Group: w.Group, Zone: w.Zone})
	}
	return unevenness(instances)
}

func TestDisksStayBalanced(t *testing.T) {
	var recorded []Recorded
	for i, zone := range []string{"z1", "z1", "z2", "z1", "z2", "z2"} {
		recorded = append(recorded, Recorded{ID: fmt.Sprint(i), Group: "db", Index: i, Zone: zone, Bootstrap: i == 0, Disk: true})
	}
	for wanted, stay := range map[int][]string{6: {"0", "1", "2", "3", "4", "5"}, 5: {"0", "1", "2", "3", "4"}, 4: {"0", "1", "2", "4"}, 3: {"0", "1", "2"}, 2: {"0", "2"}, 1: {"0"}, 0: nil} {
		g := Group{Group: network.Group{Name: "db", Instances: wanted, Zones: []string{"z1", "z2"}}}
		got, err := Make([]Group{g}, recorded, nil)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, in := range got.Instances {
			ids = append(ids, in.ID)
		}
		if !slices.Equal(ids, stay) || len(got.Going) != 6-wanted {
			t.Errorf("of six instances these %d stay: %q, want %q", wanted, ids, stay)
		}
	}
}

func TestWhyInstancesGo(t *testing.T) {
	was := func(zone string) []Recorded { return []Recorded{{ID: "a", Group: "web", Zone: zone}} }
	group := func(n int, zones ...string) []Group {
		return []Group{{Group: network.Group{Name: "web", Instances: n, Zones: zones}}}
	}
	for why, c := range map[Why]struct {
		groups   []Group
		recorded []Recorded
	}{
		GroupGone:    {nil, was("z1")},
		Fewer:        {group(0, "z1"), was("z1")},
		ZoneGone:     {group(1, "z2"), was("z1")},
		ZonesGiven:   {group(1, "z1"), was("")},
		ZonesRemoved: {group(1), was("z1")},
	} {
		got, err := Make(c.groups, c.recorded, nil)
		if err != nil || len(got.Going) != 1 || got.Going[0].Why != why {
			t.Errorf("%s: %+v, %v", why, got, err)
		}
	}
}

// BenchmarkMake places many new instances in three zones.
func BenchmarkMake(b *testing.B) {
	group := Group{Group: network.Group{Name: "web", Instances: 100_000, Zones: []string{"z1", "z2", "z3"}}}
	for b.Loop() {
		made, err := Make([]Group{group}, nil, nil)
		if err != nil || len(made.Instances) != group.Instances || made.Instances[99_999].Index != 99_999 {
			b.Fatal(len(made.Instances), err)
		}
	}
}

// Instances of which nothing exists go first, whatever their index and zone, if all of
// them are too many.
func TestEmptyGoFirst(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		instances    int
		empty, going string // indexes
		ignored      string
	}{
		{3, "", "3", ""}, {3, "0", "0", ""}, {3, "1", "1", ""}, {2, "0", "03", ""}, {2, "03", "03", ""}, {4, "0", "", ""},
		{3, "01", "3", ""}, {3, "0123", "3", ""}, {2, "0", "23", "0"}, {1, "123", "123", ""}, {0, "1", "0123", ""},
	} {
		g := Group{Group: network.Group{Name: "web", Instances: c.instances, Zones: []string{"z1", "z2"}}}
		for _, disk := range []bool{false, true} {
			var recorded []Recorded
			for i := range 4 {
				name := fmt.Sprint(i)
				recorded = append(recorded, Recorded{
					ID: name, Group: "web", Index: i, Zone: g.Zones[i%2], Bootstrap: i == 0, Disk: disk,
					Empty: strings.Contains(c.empty, name), Ignored: strings.Contains(c.ignored, name),
				})
			}
			got, err := Make([]Group{g}, recorded, nil)
			if err != nil {
				t.Fatal(err)
			}
			going := ""
			for _, gone := range got.Going {
				going += gone.ID
			}
			if going != c.going || len(got.Instances) != c.instances {
				t.Errorf("%d instances, %q empty, %q ignored, disk %v: %q go, want %q; %+v", c.instances, c.empty, c.ignored, disk, going, c.going, got.Instances)
			}
		}
	}
}
