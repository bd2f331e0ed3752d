package agent

import (
	"context"

	"bootstrap/agent"
)

// state is the value of get_state.
type state struct {
	spec
	AgentID   string       `json:"agent_id"`
	JobState  string       `json:"job_state"`
	Vitals    *vitals      `json:"vitals,omitempty"`
	Processes []jobProcess `json:"processes,omitempty"`
	VM        agent.VM     `json:"vm"`
}

// getState is the message get_state.
func (a *embeddedAgent) getState(ctx context.Context, c *call) (any, error) {
	var filter string
	if err := c.bind(0, &filter); err != nil {
		return nil, err
	}
	s, err := a.specs.read()
	if err != nil {
		return nil, failf("Getting current spec: %w", err)
	}
	settings := a.settings.get()
	value := state{spec: *s, AgentID: settings.AgentID, JobState: a.jobs.state(), Processes: a.jobs.processes()}
	value.VM.Name = settings.VM.Name
	if a.boot.Machine != agent.MachineFolder {
		value.VM.Machine = a.boot.Machine
	}
	if filter == "full" {
		value.Vitals = vitalsOf(a.vm, a.disks)
		value.VM.Notes = notesOf(a.vm)
		if note := a.jobs.note(); note != "" {
			value.VM.Notes = append(value.VM.Notes, note)
		}
		for _, f := range a.disks.fullnesses(ctx) {
			f.addTo(value.Vitals)
			if note := f.note(); note != "" {
				value.VM.Notes = append(value.VM.Notes, note)
			}
		}
	}
	if value.Networks == nil {
		value.Networks = map[string]map[string]any{}
	}
	if value.ResourcePool == nil {
		value.ResourcePool = map[string]any{}
	}
	if value.Packages == nil {
		value.Packages = map[string]specPackage{}
	}
	return value, nil
}
