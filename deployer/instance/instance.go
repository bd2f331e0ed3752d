// Package instance has the deployment of a run: its manifest, its releases and stemcell,
// its state, this machine's record of it, its CPI, access to its agents, and the facts
// about its VM and disk.
package instance

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"bootstrap/catalog"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Options select the deployment, and say how its manifest is read.
type Options struct {
	Manifest  string           // path
	Inputs    document.Options // operations and variables, among others
	Usual     bool             // Inputs has only the settings that every run of the environment has
	StateFile string           // path; empty: beside the manifest
	// Team is the store of the state; StateFile is this machine's copy. nil: the state is in
	// a folder.
	Team *team.Copy
	// Store is the address of Team, which may contain a password.
	Store string
	// Instance is GROUP/INDEX or GROUP/ID of a deployment that has several instances;
	// empty: the manifest describes one.
	Instance string
	// OfAll is true if the run is a part of a run of all instances, which has locked the
	// deployment, and has looked for what killed runs have left.
	OfAll bool
	// Of is set by SelectInstance; nil: the manifest describes one instance.
	Of *Member
	// Deployment is the manifest with several instances, if it was read already; nil: it
	// was not. Several runs may share it.
	Deployment *manifest.Deployment
	// Repeats are the inputs of an earlier deploy from which this one is made; nil: those of the
	// manifest and its files.
	Repeats *kept.Deploy
	// AdoptFrom is the path of the manifest from which another tool created the VM;
	// empty: not given.
	AdoptFrom string
	// OldMBus and OldCA (PEM) are the URL and the CA of the running agent, if this
	// machine has not recorded them and the manifest has changed.
	OldMBus, OldCA string
	// WatchTime replaces the manifest's update_watch_time; nil: not given.
	WatchTime *manifest.WatchTime
	// Accept may refuse the manifest after reading; nil: every manifest is accepted.
	Accept func(*manifest.Manifest) error
	// Replacing may refuse to generate new values for variables that the VM uses already;
	// nil: they are generated.
	Replacing func(ctx context.Context, names []string) error
}

// Request has the options of a run, and the parts that all others share.
type Request struct {
	Env  *Env
	From Options
	Out  *report.Output

	StatePath string // set by SayPaths; empty: the run needs no state
	// About has the settings for commands that do not read the manifest. Read takes them
	// from the manifest, FindInstallation from this machine's record.
	About kept.Deployment

	catalog *catalog.Finder // finds releases and stemcells without a URL
	address netip.Addr      // set by UseInstallation: address of the instance in the state
	read    *Inputs         // nil: this run has not read the manifest
	early   downloads
	ends    []func() // functions that run at the end, the last one first
}

// Inputs is the manifest of a deployment, read and checked.
type Inputs struct {
	*Request

	Manifest *manifest.Manifest // including the chosen addresses
	// Deployment has all instances of the manifest, if the run is about one of several.
	Deployment *manifest.Deployment
	// Apart is true if the manifest does not describe the instance any more: it has only the
	// CPI.
	Apart    bool
	Replaced []string // variables that the VM uses and that get new values
}

// Record is the state of a deployment and this machine's record of it. Lock and Peek fill
// it. UseInstallation fills all but State and Scratch.
type Record struct {
	*Request

	State        *file.Store // nil: it is not open
	Dir          string      // ~/.bosh/<installation_id>
	Installation uuid.UUID
	Known        kept.Deployment // this machine's record
	// Scratch is the folder in which a plan installs the CPI; empty: the run is not a
	// plan, and may change files.
	Scratch string

	vm        string   // CID of the VM in the state
	secretsTo []string // recipients of the recorded secrets
}

// Instance is one deployment, for all commands: the options of the run, the records, and
// access to the agents and the CPI. The manifest, and values made from it, are separate:
// Inputs, Artifacts, Placement, Host.
type Instance struct {
	*Request
	*Record

	Addresses *Addresses
	Agents    *Agents
	CPI       *CPI
	Shared    *Shared
}

// New returns an Instance. It reads nothing. The caller must call Close.
func New(env *Env, from Options) *Instance {
	from.Inputs = env.Inputs(from.Inputs)
	request := &Request{Env: env, From: from, Out: report.NewOutput(env.Root)}
	request.useCatalog()
	rec := &Record{Request: request}
	t := &Instance{Request: request, Record: rec, Shared: &Shared{rec: rec}, Addresses: &Addresses{rec: rec}}
	t.CPI = &CPI{rec: rec, ledgers: t.Addresses, readManifest: t.readOnce}
	t.Agents = &Agents{rec: rec, tunnelErr: t.CPI.tunnelErr}
	return t
}

// Close stops the registry and the tunnel, closes the logs, and unlocks the
// state.
func (req *Request) Close() {
	for _, end := range slices.Backward(req.ends) {
		end()
	}
	req.ends = nil
}

// AtEnd registers a function that Close calls.
func (req *Request) AtEnd(end func()) { req.ends = append(req.ends, end) }

// The groups of stages, with the names that users know from create-env.
const (
	Validating = "validating"
	installing = "installing CPI"
)

// SayPaths reports the paths of the manifest and the state.
func (req *Request) SayPaths() error {
	if req.Env.Offline {
		return nil
	}
	if req.From.Manifest == "-" {
		return errors.New("cannot find the state file of a manifest on standard input: write the manifest to a file")
	}
	path, err := file.Path(req.From.Manifest, req.From.StateFile)
	if err != nil {
		return err
	}
	manifest, err := filepath.Abs(req.From.Manifest)
	if err != nil {
		return fmt.Errorf("cannot find the folder of the manifest: %w", err)
	}
	if flags := req.From.Inputs.FlagsFile; flags != "" {
		if flags, err = filepath.Abs(flags); err != nil {
			return fmt.Errorf("cannot find the folder of the flags: %w", err)
		}
		req.Out.Info(fmt.Sprintf("Flags of: '%s'", flags))
	}
	if req.From.Manifest != "" {
		req.Out.Info(fmt.Sprintf("Deployment manifest: '%s'", manifest))
	}
	req.Out.Info(fmt.Sprintf("Deployment state: '%s'", req.From.StateName(path)))
	req.StatePath = path
	return nil
}
