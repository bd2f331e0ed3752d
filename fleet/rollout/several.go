package rollout

import (
	"os"
	"slices"
	"strings"

	"bootstrap/deployer/plan"
	"bootstrap/deployment/record"
	"bootstrap/fleet"
	"bootstrap/fleet/schedule"
)

// The kinds of lines about a member with several instances.
const (
	planOfInstances  = "instances"
	eventOfInstance  = "instance"
	stateOfInstances = "instance_states"
)

// instancesPlan is the part of the plan of several instances that a fleet reads.
type instancesPlan struct {
	Instances []struct {
		Name    string
		Action  string
		Changes []plan.Line
		Down    []string
	}
	Shared []plan.Line
	Groups []struct {
		Group    string
		Down     bool
		Downtime float64 `json:"downtime_seconds"`
	}
}

// view returns the plan as one of a member: each change once, and as its downtime the
// steps of instances during which no other instance of the group serves.
func (p *instancesPlan) view() *plan.View {
	v := &plan.View{Changes: slices.Clone(p.Shared)}
	add := func(c plan.Line) {
		same := func(o plan.Line) bool { return o.Action == c.Action && o.What == c.What }
		if !slices.ContainsFunc(v.Changes, same) {
			v.Changes = append(v.Changes, c)
		}
	}
	down := p.down()
	for _, in := range p.Instances {
		for _, c := range in.Changes {
			add(c)
		}
		if in.Action == "delete" {
			add(plan.Line{Action: plan.Remove, What: "instance", Name: in.Name})
		}
		group, _, _ := strings.Cut(in.Name, "/")
		if !down[group] || len(in.Down) <= len(v.Down) {
			continue
		}
		v.Down, v.Rows = in.Down, nil
		for _, step := range in.Down {
			v.Rows = append(v.Rows, plan.Row{Step: plan.Kind(step), Down: true})
		}
	}
	for _, g := range p.Groups {
		v.Downtime = max(v.Downtime, g.Downtime)
	}
	return v
}

// down returns the groups of which no instance serves at some time.
func (p *instancesPlan) down() map[string]bool {
	down := map[string]bool{}
	for _, g := range p.Groups {
		down[g.Group] = g.Down
	}
	return down
}

// instanceEvent is the part of an event of an instance that a fleet reads.
type instanceEvent struct {
	Instance string
	Status   string
	Step     string
	Down     bool
}

// instanceStates is the part of the states of several instances that a fleet reads.
type instanceStates struct {
	Well      bool
	Instances []struct {
		Name     string
		State    string
		Problems []string
	}
}

// state returns the condition of a member, and what is wrong with it.
func (s *instanceStates) state() (Condition, string) {
	counts := map[string]int{}
	problem := ""
	for _, in := range s.Instances {
		counts[in.State]++
		if problem == "" && in.State != string(Runs) {
			problem = in.Name + " is " + in.State
			if len(in.Problems) > 0 {
				problem = in.Name + ": " + in.Problems[0]
			}
		}
	}
	all := func(state Condition) bool { return counts[string(state)] == len(s.Instances) }
	switch {
	case s.Well:
		return Runs, ""
	case all(NoVM):
		return NoVM, ""
	case all(Stopped):
		return Stopped, ""
	case all(Unreachable):
		return Unreachable, problem
	}
	return NotWell, problem
}

// instancesOf returns the record of the instances of a member; nil: it has one instance, or
// is not deployed. A record that is lost or cannot be read is an error: its instances are
// not forgotten.
func instancesOf(m fleet.Member, home string) (*record.Record, error) {
	dir := m.RecordFolder(home)
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return nil, nil
	}
	all, err := record.Load(dir)
	if err != nil || !record.Exists(dir) {
		return nil, err
	}
	return all, nil
}

// planDeleteAll returns the member with the changes of a delete of its instances.
func planDeleteAll(m Member, all *record.Record) Member {
	disks := len(all.Former) > 0 || slices.ContainsFunc(all.Instances, func(in *record.Instance) bool { return in.Disk })
	m.Changes = []string{"delete vm", "delete stemcell"}
	if disks {
		m.Changes = append(m.Changes, "delete disk")
	}
	if !all.Needed() {
		m.Verdict, m.Reason, m.Changes = schedule.Unchanged, "it is not deployed", nil
	}
	return m
}
