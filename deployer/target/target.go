// Package target is one deployment that a run is about: its manifest as it was
// read and checked, its releases and stemcell, its state, what this machine knows
// of it, its CPI, how its agents are reached, and what a look at all that finds.
package target

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// Options says which deployment is meant, and how its manifest is read.
type Options struct {
	Manifest  string           // path
	Inputs    document.Options // operations and variables
	StateFile string           // path; empty: beside the manifest
	// AdoptFrom reads the manifest that the VM was made from, for a state that
	// another tool has written; empty: none.
	AdoptFrom string
	// OldMBus and OldCA (PEM) are how the agent of the VM that runs is reached,
	// where that is neither remembered here nor what the manifest says.
	OldMBus, OldCA string
}

// Target is one deployment. New returns one of which only the options are known;
// its methods read the rest, and each field says which one does.
type Target struct {
	Env  *Env
	From Options
	Out  *report.Output

	StatePath    string             // SayPaths
	Manifest     *manifest.Manifest // Read; nil: it was not read
	Adopted      *manifest.Manifest // ReadAdopted: what the VM was made from
	State        *file.Store        // Lock, Peek
	Dir          string             // Lock, Peek: ~/.bosh/<installation_id>
	Installation uuid.UUID          // Lock, Peek
	Known        kept.Deployment    // Lock, Peek: what this machine remembers
	// About is what commands need to know that do not read the manifest: as the
	// manifest says (Read), or as this machine remembers it (FindInstallation).
	About kept.Deployment
	// Scratch is the folder in which a plan installs the CPI; empty: this run is
	// no plan, and may change what exists.
	Scratch string

	Artifacts *Artifacts
	Agents    *Agents
	CPI       *CPI

	ends []func() // what ends when the run does, the last one first
}

// New returns a deployment of which nothing is read yet. Close ends what its
// methods begin.
func New(env *Env, from Options) *Target {
	t := &Target{Env: env, From: from, Out: report.NewOutput(env.Root)}
	t.Artifacts, t.Agents, t.CPI = &Artifacts{t: t}, &Agents{t: t}, &CPI{t: t}
	return t
}

// Close ends what the methods have begun: it stops the registry and the tunnel,
// closes logs, and unlocks the state.
func (t *Target) Close() {
	for _, end := range slices.Backward(t.ends) {
		end()
	}
	t.ends = nil
}

// AtEnd has something done by Close.
func (t *Target) AtEnd(end func()) { t.ends = append(t.ends, end) }

// The groups of stages, as their users know them from create-env.
const (
	Validating = "validating"
	installing = "installing CPI"
)

// SayPaths reports which files the run is about.
func (t *Target) SayPaths() error {
	if t.Env.Offline {
		return nil
	}
	if t.From.Manifest == "-" {
		return errors.New("cannot tell where the state is kept of a manifest on the standard input: write it to a file")
	}
	path, err := file.Path(t.From.Manifest, t.From.StateFile)
	if err != nil {
		return err
	}
	manifest, err := filepath.Abs(t.From.Manifest)
	if err != nil {
		return fmt.Errorf("cannot find the folder of the manifest: %w", err)
	}
	if t.From.Manifest != "" {
		t.Out.Info(fmt.Sprintf("Deployment manifest: '%s'", manifest))
	}
	t.Out.Info(fmt.Sprintf("Deployment state: '%s'", path))
	t.StatePath = path
	return nil
}
