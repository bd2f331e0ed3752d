package roster

import (
	"cmp"
	"fmt"
	"slices"
)

// originsOf checks migrated_from of all groups, and returns the new group of each
// old one. It gives recorded instances without a zone the one that migrated_from says.
func originsOf(groups []Group, recorded []Recorded) (map[string]string, error) {
	migrating := map[string]string{}
	for _, g := range groups {
		for _, from := range g.From {
			refused := &Refused{Kind: InvalidMigration, Group: g.Name}
			other, twice := migrating[from.Name]
			switch {
			case from.Name != g.Name && slices.ContainsFunc(groups, func(g Group) bool { return g.Name == from.Name }):
				refused.Why = fmt.Sprintf("migrated_from names the group %q, which the manifest still has; remove one of the two", from.Name)
				return nil, refused
			case twice && other != g.Name:
				refused.Why = fmt.Sprintf("migrated_from names the group %q, as does that of the group %q; only one group can get its instances", from.Name, other)
				return nil, refused
			}
			migrating[from.Name] = g.Name
			for i := range recorded {
				r := &recorded[i]
				if r.Group != from.Name {
					continue
				}
				refused.Instance = r.ID
				switch {
				case r.Zone == "" && from.Zone == "" && len(g.Zones) > 0:
					refused.Why = fmt.Sprintf("instances of %q have no zone; say in migrated_from in which zone they are: {name: %s, az: %s}", from.Name, from.Name, g.Zones[0])
					return nil, refused
				case r.Zone != "" && from.Zone != "" && r.Zone != from.Zone:
					refused.Why = fmt.Sprintf("migrated_from says that instances of %q are in the zone %s, but %s/%d is in %s", from.Name, from.Zone, r.Group, r.Index, r.Zone)
					return nil, refused
				}
				r.Zone = cmp.Or(r.Zone, from.Zone)
			}
		}
	}
	return migrating, nil
}
