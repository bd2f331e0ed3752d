package deployment

import (
	"fmt"
	"slices"
	"strings"

	"bootstrap/deployment/roster"
	"bootstrap/manifest"
)

// lostError refuses a plan that would orphan the disk of an instance, because its group was
// given zones, or has none any more.
func lostError(all []roster.Going, g *manifest.Group) error {
	lost := all[0]
	name := fmt.Sprintf("%s/%d", lost.Group, lost.Index)
	if lost.Why == roster.ZonesGiven {
		return fmt.Errorf("the instance %s would be replaced, and its disk would be orphaned, because the instance has no zone, and the group %q now has the zones %s: to keep it, write in the group the zone in which its VM and disk are: migrated_from: [{name: %s, az: %s}]",
			name, g.Name, strings.Join(g.Zones, ", "), lost.Group, g.Zones[0])
	}
	var zones []string
	for _, other := range all {
		if other.Into == lost.Into && !slices.Contains(zones, other.Zone) {
			zones = append(zones, other.Zone)
		}
	}
	return fmt.Errorf("the instance %s would be replaced, and its disk would be orphaned, because it is in the zone %s, and the group %q has no azs any more: to keep it, write in the group: azs: [%s]; to give it up, delete it first: `bootstrap delete MANIFEST --instance %s --keep-disk`",
		name, lost.Zone, g.Name, strings.Join(slices.Sorted(slices.Values(zones)), ", "), name)
}
