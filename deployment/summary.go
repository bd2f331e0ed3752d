package deployment

import (
	"cmp"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/deployment/order"
)

// Shared is a change that is made once for several instances.
type Shared struct {
	plan.Line
	Instances []string `json:"instances"` // those that need it
}

// Service says how much of a group serves while a plan runs.
type Service struct {
	Group     string `json:"group"`
	Instances int    `json:"instances"` // after the deploy
	Changing  int    `json:"changing"`  // those that are created, changed or deleted
	Running   int    `json:"running"`   // those that run now
	// NotRunning is how many exist and do not run now.
	NotRunning int `json:"not_running,omitempty"`
	// MostDown is how many of those that exist do not serve at the same time, at most.
	MostDown int `json:"most_down"`
	// Down is true if that is all of them: then the group is down. Downtime is how many
	// seconds that is expected to take, as in earlier runs; 0: it is not known.
	Down     bool    `json:"down,omitempty"`
	Downtime float64 `json:"downtime_seconds,omitempty"`
}

// Set has instances of a group that change in the same way.
type Set struct {
	Group string
	Whole bool // it has all instances of the group, and more than one
	Rows  []Row
}

// Sets returns the rows of the plan, those that are the same for several instances of a
// group as one.
func (p *Plan) Sets() []Set {
	var sets []Set
	of := map[string]int{}     // the index of the set with a key
	number := map[string]int{} // of instances, by group
	for _, row := range p.Rows {
		group, _, _ := strings.Cut(row.Name, "/")
		number[group]++
		key := group + "\n" + row.key()
		i, known := of[key]
		if !known {
			i = len(sets)
			of[key] = i
			sets = append(sets, Set{Group: group})
		}
		sets[i].Rows = append(sets[i].Rows, row)
	}
	for i := range sets {
		n := len(sets[i].Rows)
		sets[i].Whole = n > 1 && n == number[sets[i].Group]
	}
	return sets
}

// key returns the changes of an instance as text, without the instance's own names:
// instances with the same key are one set.
func (row *Row) key() string {
	parts := []string{string(row.Action), row.Why, string(row.Disk), strings.Join(row.Down, ",")}
	for _, c := range row.Changes {
		parts = append(parts, string(c.Action), c.What, strings.Join(c.Why, ";"))
		if !isOwn(c.What) {
			parts = append(parts, c.Name)
		}
	}
	return strings.Join(parts, "\n")
}

// isOwn reports whether the name of a thing is that of one instance.
func isOwn(what string) bool { return what == plan.VM || what == plan.Disk || what == plan.Address }

// Lines returns the changes of the instances of the set, without names that are those of
// one instance if it has several.
func (s *Set) Lines() []plan.Line {
	lines := slices.Clone(s.Rows[0].Changes)
	for i := range lines {
		if len(s.Rows) > 1 && isOwn(lines[i].What) {
			lines[i].Name = ""
		}
	}
	return lines
}

// share moves the upload of a stemcell, which every instance without one plans, to one
// change for all.
func (p *Plan) share(kept map[string]bool) {
	for i := range p.Rows {
		row := &p.Rows[i]
		row.Changes = slices.DeleteFunc(row.Changes, func(c plan.Line) bool {
			if c.What != plan.Stemcell || c.Action != plan.Create {
				return false
			}
			if kept[c.Name] {
				return true // another instance has uploaded it
			}
			at := slices.IndexFunc(p.Shared, func(s Shared) bool { return s.Name == c.Name })
			if at < 0 {
				at = len(p.Shared)
				p.Shared = append(p.Shared, Shared{Line: c})
			}
			p.Shared[at].Instances = append(p.Shared[at].Instances, row.Name)
			return true
		})
	}
}

// serve fills in how much of each group serves while the plan runs.
func (p *Plan) serve() {
	rows := map[string]*Row{}
	for i := range p.Rows {
		row := &p.Rows[i]
		rows[row.Name] = row
		group, _, _ := strings.Cut(row.Name, "/")
		at := slices.IndexFunc(p.Groups, func(s Service) bool { return s.Group == group })
		if at < 0 {
			at = len(p.Groups)
			p.Groups = append(p.Groups, Service{Group: group})
		}
		s := &p.Groups[at]
		if row.Action != Delete {
			s.Instances++
		}
		switch {
		case row.NotRunning != "":
			s.NotRunning++
		case row.Action != Create:
			s.Running++
		}
		if row.changes() {
			s.Changing++
		}
	}
	for _, stage := range p.Stages {
		for _, turn := range stage {
			at := slices.IndexFunc(p.Groups, func(s Service) bool { return s.Group == turn.Group })
			p.Groups[at].through(turn, rows)
		}
	}
	for i := range p.Groups {
		if s := &p.Groups[i]; s.Instances == 0 { // the group goes
			s.MostDown, s.Down = s.Running, s.Running > 0
		}
	}
}

// through fills in how many instances of the group are down during its turn.
func (s *Service) through(turn order.Turn, rows map[string]*Row) {
	gone := 0 // instances that were deleted, which no longer serve
	if !turn.Delete.Last {
		gone = len(turn.Delete.IDs)
	}
	serving, down := s.Running-gone, s.NotRunning
	s.MostDown, s.Down = gone+down, down > 0 && serving <= 0
	for _, lot := range turn.Lots {
		for _, names := range [][]string{lot.Canaries, lot.Rest} {
			var stopped []*Row
			for _, name := range names {
				if row := rows[name]; row.NotRunning == "" && len(row.Down) > 0 && row.Action == Change {
					stopped = append(stopped, row)
				}
			}
			n := min(lot.Width, len(stopped))
			s.MostDown = max(s.MostDown, gone+down+n)
			if n > 0 && n >= serving {
				s.Down = true
				longest := slices.MaxFunc(stopped, func(a, b *Row) int { return cmp.Compare(a.Downtime, b.Downtime) })
				s.Downtime = max(s.Downtime, longest.Downtime)
			}
			for _, name := range names {
				if row := rows[name]; row.NotRunning != "" && !row.stopped {
					serving, down = serving+1, down-1
				}
			}
		}
	}
}
