package instance

import (
	"context"
	"slices"
	"strings"

	"bootstrap/artifact"
	"bootstrap/manifest"
)

// Machine is what a VM of the embedded CPI is made of.
type Machine struct {
	Kind    string // agent.MachineFolder, agent.MachineNamespace or agent.MachineContainer; empty: unknown
	Refused error  // why it is not, or cannot be, made of namespaces; nil: it is, or a folder was asked for
	Remedy  string // what a person can do about that; may be empty
}

// Limits are those that an embedded VM can exceed.
type Limits struct {
	Names  []string // of cloud_properties; empty: it is held to all
	Cause  error
	Remedy string // what a person can do about that; may be empty
}

// Host is this machine, on which the embedded CPI makes the VM.
type Host struct {
	in       *Inputs
	rec      *Record
	stemcell *artifact.Stemcell // nil: it is not fetched

	machine *Machine // nil: NewMachine was not called
}

// NewHost returns this machine for the VM of a manifest.
func NewHost(in *Inputs, rec *Record, stemcell *artifact.Stemcell) *Host {
	return &Host{in: in, rec: rec, stemcell: stemcell}
}

// EmbeddedCPI reports whether the embedded CPI creates the VM on this machine.
func (in *Inputs) EmbeddedCPI() bool {
	return slices.ContainsFunc(in.Manifest.CPI.Templates, func(job manifest.JobRef) bool { return job.Name == "local_cpi" })
}

// NewMachine returns what a new VM is made of; zero without the embedded CPI.
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

// hasImage reports whether the stemcell has the image of a root file system, as far
// as that is known before it is fetched.
func (in *Inputs) hasImage(stemcell *artifact.Stemcell) bool {
	if stemcell != nil {
		return !slices.Contains(stemcell.Formats, "local")
	}
	return !strings.HasPrefix(in.Manifest.ResourcePool.Stemcell.URL, "embedded:")
}

// DiskNotHeld returns why nothing stops a new persistent disk at its size; zero: it stops
// there, or the embedded CPI does not make it.
func (h *Host) DiskNotHeld(ctx context.Context) Limits {
	if m := h.NewMachine(ctx); m.Kind != "" && h.in.Env.DiskLimit != nil {
		return h.in.Env.DiskLimit(m.Kind)
	}
	return Limits{}
}

// NotHeld returns which limits of its cloud_properties a new VM is not held to;
// zero without the embedded CPI.
func (h *Host) NotHeld(ctx context.Context) Limits {
	if m := h.NewMachine(ctx); m.Kind != "" && h.in.Env.Limits != nil {
		return h.in.Env.Limits(m.Kind, h.in.Manifest.ResourcePool.CloudProperties)
	}
	return Limits{}
}
