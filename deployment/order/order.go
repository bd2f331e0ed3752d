// Package order decides in which order the instances of a deployment change: which groups
// at the same time, which zones one after another, which instances first as canaries, and
// how many at the same time. It is pure. The rules are those of BOSH's Director, except
// that instances that do not run change before those that run, that the instances of a zone
// are sorted by index, and that instances whose jobs do not start are no canaries.
package order

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"bootstrap/internal/number"
)

// Group is an instance group with the rules of its update block.
type Group struct {
	Name string
	// Canaries and MaxInFlight are a number of instances (2), or a percentage of those
	// that change (50%).
	Canaries, MaxInFlight string
	// MinHealthy is how many instances must run while others are stopped: a number, or a
	// percentage of those that exist, rounded up. Empty: any number.
	MinHealthy string
	Serial     bool // true: it changes alone; false: together with its neighbours that are not serial
	// ParallelZones is initial_deploy_az_update_strategy: parallel.
	ParallelZones bool
	Instances     []Instance
	Going         []string // ids of the instances to delete
}

// Instance is an instance that the deployment has after the deploy.
type Instance struct {
	ID        string
	Index     int
	Zone      string // empty: none
	Bootstrap bool
	Ignored   bool // true: nothing may change it
	Changes   bool
	New       bool
	// Idle is true if the change starts no jobs, because they are stopped or because only
	// what is recorded changes: it does not show whether the others may change.
	Idle bool
	// Down is true if the instance exists and does not run.
	Down bool
}

// Stage has the turns of groups that change at the same time. Stages follow one another.
type Stage []Turn

// Turn says how one group changes.
type Turn struct {
	Group  string   `json:"group"`
	Delete Deletion `json:"delete,omitzero"`
	Lots   []Lot    `json:"lots,omitempty"` // one after another
}

// Names returns the instances that change in the turn.
func (t *Turn) Names() []string {
	var list []string
	for _, lot := range t.Lots {
		list = append(append(list, lot.Canaries...), lot.Rest...)
	}
	return list
}

// Deletion says how the instances that a group loses are deleted.
type Deletion struct {
	IDs   []string `json:"instances"`
	Width int      `json:"max_in_flight"`  // how many are deleted at the same time
	Last  bool     `json:"last,omitempty"` // true: after the lots, because new instances replace them
}

// Lot is a set of instances of one group: first its canaries change, then the rest, at
// most Width at the same time. Either none of its instances is down, or all are.
type Lot struct {
	Zone     string   `json:"az,omitempty"` // empty: the group has none, or the lot has all of them
	Width    int      `json:"max_in_flight"`
	Canaries []string `json:"canaries,omitempty"` // ids
	Rest     []string `json:"instances,omitempty"`
	Down     bool     `json:"down,omitempty"` // true: they do not run
}

// Stages returns the order of a deploy. first is true if no deploy of the deployment has
// succeeded yet. An error names the group and the wrong value.
func Stages(groups []Group, first bool) ([]Stage, error) {
	var stages []Stage
	for i, g := range groups {
		turn, err := turnOf(g, first)
		if err != nil {
			return nil, err
		}
		if i > 0 && !g.Serial && !groups[i-1].Serial {
			last := len(stages) - 1
			stages[last] = append(stages[last], turn)
			continue
		}
		stages = append(stages, Stage{turn})
	}
	return stages, nil
}

// turnOf returns the turn of a group.
func turnOf(g Group, first bool) (Turn, error) {
	turn := Turn{Group: g.Name}
	if len(g.Going) > 0 {
		width, err := g.width(len(g.Going), false)
		if err != nil {
			return Turn{}, err
		}
		replaced := slices.ContainsFunc(g.Instances, func(in Instance) bool { return in.New })
		turn.Delete = Deletion{IDs: g.Going, Width: width, Last: replaced}
	}
	tried := 0                 // canaries that are down
	watched := map[bool]bool{} // of instances that are down, and of others: the canaries are in an earlier lot
	for _, instances := range lotsOf(g, first) {
		size := cmp.Or(busyOf(instances), len(instances))
		lot := Lot{Down: instances[0].Down}
		var err error
		if lot.Width, err = g.width(size, lot.Down); err != nil {
			return Turn{}, err
		}
		asked, err := count(g.Canaries)
		if err != nil {
			return Turn{}, fmt.Errorf("update.canaries of the instance group %q %w", g.Name, err)
		}
		canaries := asked.Of(size) - tried
		if watched[lot.Down] {
			canaries = 0
		}
		watched[lot.Down] = watched[lot.Down] || busyOf(instances) > 0
		if !first || !g.ParallelZones {
			lot.Zone = instances[0].Zone
		}
		for _, in := range instances {
			if len(lot.Canaries) < canaries && !in.Idle {
				lot.Canaries = append(lot.Canaries, in.ID)
				continue
			}
			lot.Rest = append(lot.Rest, in.ID)
		}
		if lot.Down {
			tried += len(lot.Canaries)
		}
		turn.Lots = append(turn.Lots, lot)
	}
	return turn, nil
}

// busyOf counts the instances whose jobs start.
func busyOf(instances []Instance) int {
	n := 0
	for _, in := range instances {
		if !in.Idle {
			n++
		}
	}
	return n
}

// lotsOf returns the instances of the group that change: those that are down, then the
// others; both by zone, or in one list, if zones change at the same time.
func lotsOf(g Group, first bool) [][]Instance {
	var lots [][]Instance
	sorted := Sorted(g.Instances)
	for _, down := range []bool{true, false} {
		for _, in := range sorted {
			if !in.Changes || in.Ignored || in.Down != down {
				continue
			}
			last := len(lots) - 1
			if last >= 0 && lots[last][0].Down == down && (first && g.ParallelZones || lots[last][0].Zone == in.Zone) {
				lots[last] = append(lots[last], in)
				continue
			}
			lots = append(lots, []Instance{in})
		}
	}
	return lots
}

// Sorted returns instances in the order in which they change if all run, which is also their
// order in links. First comes the one that bootstraps its group, then the others of its zone,
// then instances without a zone, then the other zones. Inside a zone they are sorted by
// index.
func Sorted(instances []Instance) []Instance {
	zone, found := "", false
	for _, in := range instances {
		if in.Bootstrap {
			zone, found = in.Zone, true
			break
		}
	}
	rank := func(in Instance) int {
		switch {
		case in.Bootstrap:
			return 0
		case found && in.Zone == zone:
			return 1
		}
		return 2
	}
	sorted := slices.Clone(instances)
	slices.SortStableFunc(sorted, func(a, b Instance) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Zone, b.Zone), cmp.Compare(a.Index, b.Index))
	})
	return sorted
}

// Healthy returns how many of size instances must run by update.min_healthy. A
// percentage leaves at least one that may be stopped.
func Healthy(text string, size int) (int, error) {
	s, err := share(text)
	if err == nil && s.Percent {
		return max(min((min(s.N, 100)*size+99)/100, size-1), 0), nil
	}
	return s.N, err
}

// width returns how many of size instances may change at the same time. If down is true,
// they do not run, so that min_healthy does not limit them.
func (g *Group) width(size int, down bool) (int, error) {
	asked, err := count(g.MaxInFlight)
	n := asked.Of(size)
	if err != nil {
		return 0, fmt.Errorf("update.max_in_flight of the instance group %q %w", g.Name, err)
	}
	if g.MinHealthy == "" {
		return max(n, 1), nil
	}
	size = 0
	for _, in := range g.Instances {
		if !in.New || in.Down {
			size++
		}
	}
	least, err := Healthy(g.MinHealthy, size)
	if err != nil {
		return 0, fmt.Errorf("update.min_healthy of the instance group %q %w", g.Name, err)
	}
	stops := func(in Instance) bool { return in.Changes && !in.New && !in.Idle && !in.Down }
	if down || !slices.ContainsFunc(g.Instances, stops) {
		return max(n, 1), nil // No instance is stopped.
	}
	spare := size - least
	if spare < 1 {
		return 0, fmt.Errorf("update.min_healthy of the instance group %q is %s, so none of its %d instances may be stopped", g.Name, g.MinHealthy, size)
	}
	return max(min(n, spare), 1), nil
}

// count is share for canaries and max_in_flight. As for the Director, a negative number is
// none; the reader of the manifest refuses it, but older records have it.
func count(text string) (number.Share, error) {
	if _, err := (number.Bound{Least: math.MinInt32, Most: -1}).Text(text); err == nil {
		return number.Share{}, nil
	}
	return share(text)
}

// share reads a number of instances, or a percentage of them.
func share(text string) (number.Share, error) {
	s, ok := number.ParseShare(text)
	if !ok {
		return s, fmt.Errorf("must be a number of instances or a percentage such as 50%%, but is %q", text)
	}
	return s, nil
}
