// Package instance is the deployment of a run: its manifest, read and checked, its
// releases and stemcell, its state, what this machine knows of it, its CPI, how
// its agents are reached, and what a look at VM and disk finds.
package instance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Options selects the deployment, and how its manifest is read.
type Options struct {
	Manifest  string           // path
	Inputs    document.Options // operations and variables
	Usual     bool             // Inputs are only those that the environment has for every run
	StateFile string           // path; empty: beside the manifest
	// Team is the store of which StateFile is this machine's copy; nil: there is none.
	Team *team.Copy
	// AdoptFrom is the path of the manifest from which another tool created the
	// VM, for a state that this tool has written; empty: none.
	AdoptFrom string
	// OldMBus and OldCA (PEM) are how the agent of the running VM is reached, if
	// this machine has not recorded that and the manifest has changed.
	OldMBus, OldCA string
	// WatchTime replaces the manifest's update_watch_time; nil: it does not.
	WatchTime *manifest.WatchTime
	// Accept may refuse the manifest that was read; nil: none is refused.
	Accept func(*manifest.Manifest) error
	// Replacing may refuse to generate new values for variables that the VM uses
	// already; nil: it is not asked.
	Replacing func(ctx context.Context, names []string) error
}

// Instance is one deployment. New returns one of which only the options are known;
// its methods read the rest, and each field says which one does.
type Instance struct {
	Env  *Env
	From Options
	Out  *report.Output

	StatePath    string             // SayPaths
	Manifest     *manifest.Manifest // Read; nil: it was not read
	Adopted      *manifest.Manifest // ReadAdopted: the manifest from which another tool created the VM
	Replaced     []string           // Read: variables that the VM uses and that get new values
	State        *file.Store        // Lock, Peek
	Dir          string             // Lock, Peek: ~/.bosh/<installation_id>
	Installation uuid.UUID          // Lock, Peek
	Known        kept.Deployment    // Lock, Peek: what this machine has recorded
	secretsTo    []string           // Lock, Peek: who can read the recorded secrets
	// About is what commands need to know that do not read the manifest: from
	// the manifest (Read), or from what this machine has recorded of it
	// (FindInstallation).
	About kept.Deployment
	// Scratch is the folder in which a plan installs the CPI; empty: this run is
	// no plan, and may change what exists.
	Scratch string

	Addresses *Addresses
	Artifacts *Artifacts
	Agents    *Agents
	CPI       *CPI
	Shared    *Shared

	recorded netip.Addr                // UseInstallation: of the instance, by the state
	reported map[string]map[string]any // Look.AtAgent: networks of the VM, as its agent has them
	seenVM   string                    // UseInstallation: the VM of the state
	machine  *Machine                  // NewMachine; nil: it was not asked
	ends     []func()                  // functions that run at the end, the last one first
}

// New returns a deployment of which nothing is read yet. The caller must call
// Close.
func New(env *Env, from Options) *Instance {
	from.Inputs = env.Inputs(from.Inputs)
	t := &Instance{Env: env, From: from, Out: report.NewOutput(env.Root)}
	t.Addresses, t.Artifacts, t.Agents, t.CPI = &Addresses{t: t}, &Artifacts{t: t}, &Agents{t: t}, &CPI{t: t}
	t.Shared = &Shared{t: t}
	return t
}

// Close stops the registry and the tunnel, closes the logs, and unlocks the
// state.
func (t *Instance) Close() {
	for _, end := range slices.Backward(t.ends) {
		end()
	}
	t.ends = nil
}

// AtEnd registers a function that Close calls.
func (t *Instance) AtEnd(end func()) { t.ends = append(t.ends, end) }

// The groups of stages, with the names that users know from create-env.
const (
	Validating = "validating"
	installing = "installing CPI"
)

// SayPaths reports which files the run is about.
func (t *Instance) SayPaths() error {
	if t.Env.Offline {
		return nil
	}
	if t.From.Manifest == "-" {
		return errors.New("cannot find the state file of a manifest on standard input: write the manifest to a file")
	}
	path, err := file.Path(t.From.Manifest, t.From.StateFile)
	if err != nil {
		return err
	}
	manifest, err := filepath.Abs(t.From.Manifest)
	if err != nil {
		return fmt.Errorf("cannot find the folder of the manifest: %w", err)
	}
	if flags := t.From.Inputs.FlagsFile; flags != "" {
		if flags, err = filepath.Abs(flags); err != nil {
			return fmt.Errorf("cannot find the folder of the flags: %w", err)
		}
		t.Out.Info(fmt.Sprintf("Flags of: '%s'", flags))
	}
	if t.From.Manifest != "" {
		t.Out.Info(fmt.Sprintf("Deployment manifest: '%s'", manifest))
	}
	t.Out.Info(fmt.Sprintf("Deployment state: '%s'", t.From.StateName(path)))
	t.StatePath = path
	return nil
}
