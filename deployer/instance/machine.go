package instance

import (
	"context"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest"
)

// Machine is the kind of a VM of the embedded CPI.
type Machine struct {
	Kind    string // agent.MachineFolder, agent.MachineNamespace or agent.MachineContainer; empty: unknown
	Refused error  // why it does not use namespaces; nil: it does, or a folder was requested
	Remedy  string // what a person can do about it; may be empty
}

// Limits are limits that are not enforced for an embedded VM.
type Limits struct {
	Names  []string // names in cloud_properties; empty: all limits are enforced
	Cause  error
	Remedy string // what a person can do about it; may be empty
}

// Host is this machine, for VMs of the embedded CPI.
type Host struct {
	in       *Inputs
	rec      *Record
	stemcell *artifact.Stemcell // nil: not fetched yet

	machine *Machine // nil: NewMachine was not called
}

// NewHost returns a Host for the VM of a manifest.
func NewHost(in *Inputs, rec *Record, stemcell *artifact.Stemcell) *Host {
	return &Host{in: in, rec: rec, stemcell: stemcell}
}

// EmbeddedCPI reports whether the embedded CPI creates the VM on this machine.
func (in *Inputs) EmbeddedCPI() bool {
	return slices.ContainsFunc(in.Manifest.CPI.Templates, func(job manifest.JobRef) bool { return job.Name == "local_cpi" })
}

// NewMachine returns the kind of a new VM; zero without the embedded CPI.
func (h *Host) NewMachine(ctx context.Context) Machine {
	if !h.in.EmbeddedCPI() || h.in.Env.Machine == nil {
		return Machine{}
	}
	if h.machine == nil {
		asked, _ := h.in.Manifest.ResourcePool.CloudProperties["machine"].(string)
		m := h.in.Env.Machine(ctx, asked, h.in.hasImage(h.stemcell))
		h.machine = &m
	}
	return *h.machine
}

// hasImage reports whether the stemcell has an image of a root file system. Before the
// stemcell is fetched, that may be unknown: false.
func (in *Inputs) hasImage(stemcell *artifact.Stemcell) bool {
	if stemcell != nil {
		return !slices.Contains(stemcell.Formats, "local")
	}
	return !strings.HasPrefix(in.Manifest.ResourcePool.Stemcell.URL, "embedded:")
}

// DiskNotHeld returns why the size of a new persistent disk is not enforced; zero: it is
// enforced, or the embedded CPI is not used.
func (h *Host) DiskNotHeld(ctx context.Context) Limits {
	if m := h.NewMachine(ctx); m.Kind != "" && h.in.Env.DiskLimit != nil {
		return h.in.Env.DiskLimit(m.Kind)
	}
	return Limits{}
}

// NotHeld returns which limits in cloud_properties are not enforced for a new VM; zero
// without the embedded CPI.
func (h *Host) NotHeld(ctx context.Context) Limits {
	if m := h.NewMachine(ctx); m.Kind != "" && h.in.Env.Limits != nil {
		return h.in.Env.Limits(m.Kind, h.in.Manifest.ResourcePool.CloudProperties)
	}
	return Limits{}
}
