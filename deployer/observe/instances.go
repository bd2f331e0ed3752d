package observe

import (
	"errors"
	"fmt"
	"time"

	"bootstrap/deployment/record"
	"bootstrap/state/file"
)

// InstanceCondition is the condition of an instance, in one word.
type InstanceCondition string

// The conditions of instances.
const (
	Running     InstanceCondition = "running"     // all processes run and all health checks pass
	Stopped     InstanceCondition = "stopped"     // stopped with bootstrap stop
	Failing     InstanceCondition = "failing"     // a process or a health check fails
	Unreachable InstanceCondition = "unreachable" // the agent does not answer
	NoVM        InstanceCondition = "no VM"
	Detached    InstanceCondition = "detached" // stopped with bootstrap stop --hard
	Unknown     InstanceCondition = "unknown"  // the state cannot be read
)

// InstanceStates are the states of instances of a deployment.
type InstanceStates struct {
	Deployment string          `json:"deployment"`
	Well       bool            `json:"well"` // true: all are running
	Instances  []InstanceState `json:"instances"`
}

// InstanceState is the state of an instance of a deployment with several.
type InstanceState struct {
	Name      string            `json:"name"` // GROUP/INDEX
	ID        string            `json:"id"`
	Zone      string            `json:"az,omitempty"`
	Bootstrap bool              `json:"bootstrap,omitempty"`
	Ignored   bool              `json:"ignored,omitempty"`   // bootstrap ignore excludes it from changes
	Addresses map[string]string `json:"addresses,omitempty"` // by network
	State     InstanceCondition `json:"state"`
	Running   int               `json:"processes_running"`
	Processes int               `json:"processes"`
	Stemcell  string            `json:"stemcell,omitempty"` // NAME/VERSION
	Deployed  *time.Time        `json:"deployed"`           // null: never, or the time is not recorded
	Well      bool              `json:"well"`
	Problems  []string          `json:"problems"`
	// Status is the status of the instance alone, as status prints it; null: there is no
	// state, or it cannot be read.
	Status *Condition `json:"status"`
}

// StateOf returns the state of an instance from the results of Status.
// running describes another run that changes the deployment; empty: there is none.
func StateOf(in *record.Instance, c *Condition, err error, running string) InstanceState {
	s := InstanceState{Name: in.Name(), ID: in.ID, Zone: in.Zone, Bootstrap: in.Bootstrap, Ignored: in.Ignored, Addresses: map[string]string{}, Problems: []string{}, Status: c}
	for name, block := range in.Addresses {
		s.Addresses[name] = block.Addr().String()
	}
	switch in.Going {
	case "":
	case record.DeploymentDeleted, record.Chosen:
		s.Problems = append(s.Problems, "a delete of it did not finish; `bootstrap delete MANIFEST` continues it, and a deploy keeps the instance")
	default:
		s.Problems = append(s.Problems, fmt.Sprintf("it is not deleted yet (%s); the next deploy of all instances deletes it", in.Going))
	}
	if err != nil {
		s.Status = nil
		s.State = Unknown
		if _, missing := errors.AsType[*file.MissingError](err); missing {
			s.State, err = NoVM, errors.New("it has no VM yet; `bootstrap deploy MANIFEST` creates one")
			if running != "" {
				err = errors.New("it has no VM yet; " + running)
			}
		}
		s.Problems = append(s.Problems, err.Error())
		return s
	}
	s.Problems = append(s.Problems, c.Problems...)
	s.State, s.Deployed = conditionOf(c), c.LastDeploy
	s.Processes = len(c.Processes)
	for _, p := range c.Processes {
		if p.State == "running" {
			s.Running++
		}
	}
	for _, sc := range c.Stemcells {
		if sc.Current {
			s.Stemcell = sc.Name + "/" + sc.Version
		}
	}
	s.Well = len(s.Problems) == 0
	return s
}

// conditionOf returns the condition of an instance in one word.
func conditionOf(c *Condition) InstanceCondition {
	switch {
	case c.Detached:
		return Detached
	case c.VM == nil:
		return NoVM
	case c.Agent == nil || !c.Agent.Answers:
		return Unreachable
	case c.Stopped:
		return Stopped
	case c.JobState != "running", c.lacks:
		return Failing
	}
	for _, p := range c.Processes {
		if p.State != "running" {
			return Failing
		}
	}
	for _, h := range c.Health {
		if !h.Well {
			return Failing
		}
	}
	return Running
}
