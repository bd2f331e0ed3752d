package deployer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"time"

	"github.com/google/uuid"

	"bootstrap/agent"
	"bootstrap/artifact"
	"bootstrap/cpi"
	"bootstrap/cpi/build"
	"bootstrap/deployer/journal"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/reach"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/templates"
	"bootstrap/tunnel"
)

// Options is what a run needs from outside. Everything the environment and
// the terminal give comes in here.
type Options struct {
	offline   bool             // validate: nothing is fetched and no files are named
	Manifest  string           // path
	Inputs    document.Options // operations and variables
	StateFile string           // path; empty: beside the manifest
	Home      string           // folder of caches and installations, ~/.bosh

	plan.Asked
	Planned       *PlanFile // deploy: do this plan or refuse
	Previous      bool      // deploy: put back what the last deploy that worked had applied
	Existing      bool      // deploy: refuse to make a new deployment
	KeepDisk      bool      // delete: keep the persistent disk as an orphan
	SkipIfMissing bool      // delete: succeed if there is no state file
	Disk          string    // disks: CID; forget: empty is the current one
	Force         bool      // disks forget: do not ask the CPI
	// AdoptFrom reads the manifest that the VM was made from, for a state that
	// another tool has written; empty: none.
	AdoptFrom string
	// Confirm asks a person; nil: the answer to every question is yes.
	Confirm func(context.Context, Question) (bool, error)

	// OldMBus and OldCA (PEM) are how the agent of the VM that runs is reached,
	// where that is neither remembered here nor what the manifest says.
	OldMBus, OldCA string

	// Via lists the jumpboxes on the way to the VM and to downloads, as
	// ssh://user@host:port URLs or lists of them with commas.
	Via []string

	PackageDir string   // folder where compiled packages of CPIs are cached; empty: below Home
	PassEnv    []string // names of variables that the CPI and packaging scripts get, too

	LockWait     time.Duration // how long to wait for another run with the same state
	AgentTimeout time.Duration // how long a new VM's agent may take
	CPITimeout   time.Duration // how long one CPI call may take
	TaskTimeout  time.Duration // how long one agent task may take; 0: for ever

	Ruby     string                 // path of the Ruby that renders; empty: look it up
	Embedded map[string]fs.FS       // releases and stemcells of `embedded:` URLs
	Getenv   func(string) string    // proxies, SSH_AUTH_SOCK, PATH
	Self     string                 // this program, for the embedded CPI
	Holder   file.Holder            // whom the lock names
	Redact   func(string) string    // takes secrets out of a text
	Secret   func(values ...string) // adds secrets to what the redactor hides
	Name     func(names ...string)  // adds public names, which stay readable
	Report   func(report.Event)
	Running  *cpi.Running // lists the CPI calls that are being made; may be nil
	Trace    func(Point)  // is called at every point where a run may be killed; may be nil

	// OpenLog opens a log file for appending, 0600, with secrets taken out
	// of what is written.
	OpenLog func(path string) (io.WriteCloser, error)
}

// run is one run of a command. Each field says which phase sets it.
type run struct {
	opts  Options
	root  *report.Stage
	stage *report.Stage // the open group, or root
	group string        // the name of the open group
	at    string        // the phase or step that runs
	ends  []func()      // what ends when the run does, the last one first

	statePath string // begin

	manifest     *manifest.Manifest           // read manifest
	journal      *journal.Journal             // lock state: of the CPI calls that change something
	state        *file.Store                  // lock state
	dir          string                       // lock state: ~/.bosh/<installation_id>
	installation uuid.UUID                    // lock state
	store        *artifact.Store              // begin
	route        reach.Route                  // begin
	releases     map[string]*artifact.Release // fetch artifacts, by name
	stemcell     *artifact.Stemcell           // fetch artifacts
	vm           string                       // find vm: CID of the one that is recorded
	stemcellGone string                       // check the cloud, create vm: CID of the record whose stemcell is to be uploaded again
	stemcellMade bool                         // upload stemcell: by this run
	running      *agent.Client                // look: of the VM that exists; nil if it has none
	facts        plan.Facts                   // look
	askedCPI     bool                         // look: the CPI was asked, too
	registry     *registryServer              // connected: nil if not asked for
	engine       *templates.Engine            // start ruby
	cpiBuild     *build.Installation          // connected
	cpiLog       io.WriteCloser               // connected
	cpiClient    *cpi.Client                  // connected
	known        kept.Deployment              // lock state: what this machine remembers
	about        kept.Deployment              // read manifest, find installation: as the manifest says, or what is remembered of it
	served       *manifest.Registry           // connected: as it is served
	cpiAPI       int                          // connected: the CPI's API version, 0 before
	want         plan.Wishes                  // plan
	plan         plan.Plan                    // plan
	delivery     *delivery                    // plan: how packages get onto the VM
	adopted      *manifest.Manifest           // adopt: what the VM was made from
	scratch      string                       // peek at state: folder of a plan's installation
	swapped      *agent.Client                // look: of the VM that is replaced; nil: none answers
	previous     kept.Applied                 // find what was applied
	migratedFrom string                       // migrate disk: CID
	rendered     rendered                     // render jobs
	revived      bool                         // revive: the VM was rebooted
	deletedAgent string                       // delete vm: the agent id of the VM that was deleted
	agent        *agent.Client                // plan, wait for agent: of the VM that is to run the jobs
	tunnel       *tunnel.Tunnel               // wait for agent
	address      string                       // initial apply: the instance's address
	packages     map[string]agent.SpecPackage // compile
}

// The groups of stages, as their users know them from create-env.
const (
	validating = "validating"
	installing = "installing CPI"
	deploying  = "deploying"
	deleting   = "deleting deployment"
)

// phase is what a run does before its steps.
type phase struct {
	name  string
	group string // the group of stages it belongs to, if any
	do    func(*run, context.Context) error
}

// errDone ends a run well before its last phase.
var errDone = errors.New("nothing more to do")

// execute begins a run, goes through the phases, and ends what they began.
func execute(ctx context.Context, opts Options, phases []phase) (err error) {
	root := report.New(opts.Report)
	r := &run{opts: opts, root: root, stage: root}
	defer func() { r.route.Close() }()
	if err := r.openStore(ctx); err != nil {
		return err
	}
	defer func() { _ = r.store.Close() }() // the cache may be pruned again
	if err := r.sayPaths(); err != nil {
		return err
	}
	defer func() {
		for _, end := range slices.Backward(r.ends) {
			end()
		}
	}()
	for _, p := range phases {
		if err = r.step(ctx, p.group, p.name, func(ctx context.Context) error { return p.do(r, ctx) }); err != nil {
			break
		}
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		stopped := &report.InterruptedError{Row: r.at}
		if left, ok := errors.AsType[*agent.TaskLeftError](err); ok && !left.Ended {
			stopped.Left = left.Method
		}
		err = stopped
	}
	r.enter("", err)
	return err
}

// step does one thing within a group of stages, unless the run is to stop.
func (r *run) step(ctx context.Context, group, name string, do func(context.Context) error) error {
	r.enter(group, nil)
	r.at = name
	if ctx.Err() != nil {
		return &report.InterruptedError{Row: name}
	}
	return do(ctx)
}

// enter ends the open group, with err, and begins another one where it is named.
func (r *run) enter(group string, err error) {
	if group == r.group && err == nil {
		return
	}
	if r.group != "" {
		_ = r.stage.End(err)
	}
	r.group, r.stage = group, r.root
	if group != "" {
		r.stage = r.root.Begin(group, true)
	}
}

// inGroup does something in a group of its own and comes back to the open one.
func (r *run) inGroup(group string, do func() error) error {
	open := r.stage
	r.stage = r.root.Begin(group, true)
	err := do()
	_ = r.stage.End(err)
	r.stage = open
	return err
}

// atEnd has something done when the run ends, however it does.
func (r *run) atEnd(end func()) { r.ends = append(r.ends, end) }

// openRoute finds the way to the VM and to downloads.
func (r *run) openRoute(ctx context.Context) (err error) {
	r.route, err = reach.OpenRoute(ctx, reach.RouteOptions{
		Via: r.opts.Via, Home: r.opts.Home, Getenv: r.opts.Getenv, Secret: r.opts.Secret, Report: r.root,
	})
	return err
}

// openStore opens the cache, whose downloads go the same way as all else.
func (r *run) openStore(ctx context.Context) error {
	if err := r.openRoute(ctx); err != nil {
		return err
	}
	r.store = artifact.Open(artifact.Config{Dir: r.opts.Home, Embedded: r.opts.Embedded, Getenv: r.opts.Getenv, Dial: r.route.Dial, Offline: r.opts.offline})
	return nil
}

// sayPaths says which files this run is about.
func (r *run) sayPaths() error {
	if r.opts.offline {
		return nil
	}
	if r.opts.Manifest == "-" {
		return errors.New("cannot tell where the state is kept of a manifest on the standard input: write it to a file")
	}
	path, err := file.Path(r.opts.Manifest, r.opts.StateFile)
	if err != nil {
		return err
	}
	manifest, err := filepath.Abs(r.opts.Manifest)
	if err != nil {
		return fmt.Errorf("cannot find the folder of the manifest: %w", err)
	}
	if r.opts.Manifest != "" {
		r.root.Info(fmt.Sprintf("Deployment manifest: '%s'", manifest))
	}
	r.root.Info(fmt.Sprintf("Deployment state: '%s'", path))
	r.statePath = path
	return nil
}

// do runs fn as a stage of the open group.
func (r *run) do(name string, fn func(*report.Stage) error) error { return r.stage.Do(name, fn) }
