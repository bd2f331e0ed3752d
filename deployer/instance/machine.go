package instance

import (
	"context"
	"slices"
	"strings"

	"bootstrap/manifest"
)

// Machine is what a VM of the embedded CPI is made of.
type Machine struct {
	Kind    string // agent.MachineFolder, agent.MachineNamespace or agent.MachineContainer; empty: unknown
	Refused error  // why it is not, or cannot be, made of namespaces; nil: it is, or a folder was asked for
	Remedy  string // what a person can do about that; may be empty
}

// Limits is what nothing holds an embedded VM to.
type Limits struct {
	Names  []string // of cloud_properties; empty: it is held to all
	Cause  error
	Remedy string // what a person can do about that; may be empty
}

// EmbeddedCPI reports whether the embedded CPI creates the VM on this machine.
func (t *Instance) EmbeddedCPI() bool {
	return slices.ContainsFunc(t.Manifest.CPI.Templates, func(t manifest.JobRef) bool { return t.Name == "local_cpi" })
}

// NewMachine returns what a new VM is made of; zero without the embedded CPI.
func (t *Instance) NewMachine(ctx context.Context) Machine {
	if !t.EmbeddedCPI() || t.Env.Machine == nil {
		return Machine{}
	}
	if t.machine == nil {
		asked, _ := t.Manifest.ResourcePool.CloudProperties["machine"].(string)
		m := t.Env.Machine(ctx, asked, t.hasImage())
		t.machine = &m
	}
	return *t.machine
}

// hasImage reports whether the stemcell has the image of a root file system, as far
// as it is known before it is downloaded.
func (t *Instance) hasImage() bool {
	if t.Artifacts.Stemcell != nil {
		return !slices.Contains(t.Artifacts.Stemcell.Formats, "local")
	}
	return !strings.HasPrefix(t.Manifest.ResourcePool.Stemcell.URL, "embedded:")
}

// DiskNotHeld returns why nothing stops a new persistent disk at its size; zero: it stops
// there, or the embedded CPI does not make it.
func DiskNotHeld(ctx context.Context, t *Instance) Limits {
	if m := t.NewMachine(ctx); m.Kind != "" && t.Env.DiskLimit != nil {
		return t.Env.DiskLimit(m.Kind)
	}
	return Limits{}
}

// NotHeld returns which limits of its cloud_properties a new VM is not held to;
// zero without the embedded CPI.
func NotHeld(ctx context.Context, t *Instance) Limits {
	if m := t.NewMachine(ctx); m.Kind != "" && t.Env.Limits != nil {
		return t.Env.Limits(m.Kind, t.Manifest.ResourcePool.CloudProperties)
	}
	return Limits{}
}
