// Package roster decides which instances a deployment has: from the number, zones and
// static addresses that its instance groups ask for, and from the existing instances. It is
// pure. The rules are those of BOSH's Director, with two exceptions. If some of the
// instances with persistent disks must be deleted, those stay that balance the zones best,
// and of these the ones with the lowest index. Instances without any resource are deleted
// first, so that a person can choose some with delete --instance.
package roster

import (
	"cmp"
	"net/netip"
	"slices"

	"bootstrap/network"
)

// Group is an instance group of a manifest.
type Group struct {
	network.Group
	From []Origin // from migrated_from
}

// Origin is an instance group of an earlier manifest whose instances become
// instances of this group.
type Origin struct {
	Name string
	Zone string // of its instances that have none; empty: none
}

// Recorded is an existing instance, with or without a VM.
type Recorded struct {
	ID        string
	Group     string
	Index     int
	Zone      string // empty: none
	Bootstrap bool
	Ignored   bool // true: nothing may change it
	Disk      bool // it has a persistent disk
	Empty     bool // it has no VM and no disk: bootstrap delete --instance has deleted it, or it was not created yet
	Held      []network.Reservation
}

// Instance is an instance that the deployment has after a deploy.
type Instance struct {
	ID        string // empty: the instance is new
	Group     string
	Index     int
	Zone      string
	Bootstrap bool
	Was       *Recorded             // nil: the instance is new
	Static    map[string]netip.Addr // its part of static_ips, by network
}

// Going is an instance that a deploy deletes.
type Going struct {
	Recorded
	Why  Why
	Into string // its group in the manifest; empty: that is gone
}

// Why is the reason for which an instance is deleted.
type Why string

// The reasons.
const (
	GroupGone    Why = "group gone"     // the manifest has no such group
	Fewer        Why = "fewer"          // the group has fewer instances, or fewer in this zone
	ZoneGone     Why = "zone gone"      // the group is no longer in this zone
	ZonesGiven   Why = "zones given"    // the group has zones, and the instance has none
	ZonesRemoved Why = "zones removed"  // the group has no zones, and the instance has one
	StaticGone   Why = "static ip gone" // no address of static_ips is left for the instance in its zone
)

// Roster has the instances of a deployment.
type Roster struct {
	// Instances are in the order of their groups, and in each group by index.
	Instances []Instance
	// Going is sorted by group and index.
	Going []Going
}

// Make returns the roster of groups. Each instance that stays keeps its index, zone and
// static address. New ones get the lowest free index of their group; the index of an
// instance that is deleted is not free. The error is a *Refused or a *network.Refused.
func Make(groups []Group, recorded []Recorded, networks []network.Network) (Roster, error) {
	var result Roster
	recorded = slices.Clone(recorded)
	migrating, err := originsOf(groups, recorded)
	if err != nil {
		return Roster{}, err
	}
	taken := map[string]map[int]bool{}
	for _, r := range recorded {
		take(taken, r.Group, r.Index)
	}
	stays := map[string]bool{}
	for _, g := range groups {
		p := &placement{group: g, networks: networks, existing: existing(g, recorded, migrating), counts: map[string]int{}, taken: map[*Recorded]bool{}}
		if err := p.place(); err != nil {
			return Roster{}, err
		}
		for _, in := range p.placed {
			stays[in.ID] = stays[in.ID] || in.Was != nil
		}
		p.number(taken)
		elect(p.placed)
		slices.SortFunc(p.placed, func(a, b Instance) int { return cmp.Compare(a.Index, b.Index) })
		result.Instances = append(result.Instances, p.placed...)
	}
	for _, r := range recorded {
		if stays[r.ID] {
			continue
		}
		i := slices.IndexFunc(groups, func(g Group) bool { return g.Name == cmp.Or(migrating[r.Group], r.Group) })
		if i < 0 && r.Ignored {
			return Roster{}, &Refused{Kind: IgnoredDeleted, Group: r.Group, Instance: r.ID,
				Why: "the instance is ignored, and the manifest has no such group; keep the group, or stop ignoring the instance"}
		}
		going := Going{Recorded: r, Why: GroupGone}
		if i >= 0 {
			going.Why, going.Into = reason(groups[i], r), groups[i].Name
		}
		result.Going = append(result.Going, going)
	}
	slices.SortStableFunc(result.Going, func(a, b Going) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Index, b.Index))
	})
	return result, nil
}

// reason returns why an instance is deleted although its group stays; empty: it may stay.
func reason(g Group, r Recorded) Why {
	switch {
	case len(g.Zones) > 0 && r.Zone == "":
		return ZonesGiven
	case len(g.Zones) == 0 && r.Zone != "":
		return ZonesRemoved
	case r.Zone != "" && !slices.Contains(g.Zones, r.Zone):
		return ZoneGone
	case g.static():
		return StaticGone
	}
	return Fewer
}

// static reports whether the group lists static addresses.
func (g *Group) static() bool {
	return slices.ContainsFunc(g.Wishes, func(w network.Wish) bool { return len(w.Static) > 0 })
}

// existing returns the instances of the group and of the groups that it was migrated
// from, by index.
func existing(g Group, recorded []Recorded, migrating map[string]string) []*Recorded {
	var own, migrated []*Recorded
	for i := range recorded {
		switch r := &recorded[i]; {
		case r.Group == g.Name:
			own = append(own, r)
		case migrating[r.Group] == g.Name:
			migrated = append(migrated, r)
		}
	}
	slices.SortStableFunc(migrated, func(a, b *Recorded) int {
		order := func(r *Recorded) int {
			return slices.IndexFunc(g.From, func(from Origin) bool { return from.Name == r.Group })
		}
		return cmp.Compare(order(a), order(b))
	})
	all := slices.Concat(own, migrated)
	slices.SortStableFunc(all, func(a, b *Recorded) int { return cmp.Compare(a.Index, b.Index) })
	return all
}

// number gives an index to instances that have none in this group: first to migrated
// ones, then to new ones.
func (p *placement) number(taken map[string]map[int]bool) {
	lowest := 0 // indexes below it are taken
	for _, migrating := range []bool{true, false} {
		for i := range p.placed {
			in := &p.placed[i]
			if migrating != (in.Was != nil) || in.Was != nil && in.Was.Group == p.group.Name {
				continue
			}
			for taken[p.group.Name][lowest] {
				lowest++
			}
			in.Index = lowest
			take(taken, p.group.Name, in.Index)
		}
	}
}

// take marks an index of a group as taken.
func take(taken map[string]map[int]bool, group string, index int) {
	if taken[group] == nil {
		taken[group] = map[int]bool{}
	}
	taken[group][index] = true
}

// elect chooses the instance that bootstraps its group: the only one that does so
// already, or the one with the lowest index.
func elect(instances []Instance) {
	count, lowest := 0, -1
	for i, in := range instances {
		if in.Bootstrap {
			count++
		}
		if lowest < 0 || in.Index < instances[lowest].Index {
			lowest = i
		}
	}
	if count == 1 {
		return
	}
	for i := range instances {
		instances[i].Bootstrap = i == lowest
	}
}
