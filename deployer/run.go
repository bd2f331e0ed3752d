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
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
	"bootstrap/templates"
	"bootstrap/tunnel"
)

// Options is what a run needs from outside. Everything the environment and
// the terminal give comes in here.
type Options struct {
	Manifest  string           // path
	Inputs    document.Options // operations and variables
	StateFile string           // path; empty: beside the manifest
	Home      string           // folder of caches and installations, ~/.bosh

	Asked
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
	Holder   file.Holder           // whom the lock names
	Redact   func(string) string    // takes secrets out of a text
	Secret   func(values ...string) // tells the redactor of more secrets
	Name     func(names ...string)  // tells it of public names, which stay readable
	Report   func(Event)
	Running  *cpi.Running // is told which CPI calls are being made; may be nil
	Trace    func(Point)  // is told of every point where a run may be cut; may be nil

	// OpenLog opens a log file for appending, 0600, with secrets taken out
	// of what is written.
	OpenLog func(path string) (io.WriteCloser, error)
}

// Deploy makes the VM what the manifest says.
func Deploy(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Write
	if opts.Planned != nil {
		opts.Asked = opts.Planned.Asked
	}
	if opts.Previous {
		return execute(ctx, opts, previousRows())
	}
	return execute(ctx, opts, deployRows())
}

// Delete takes down everything the state file records.
func Delete(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	return execute(ctx, opts, deleteRows())
}

// Stop stops the jobs, which stay so until Start.
func Stop(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	return execute(ctx, opts, stopRows())
}

// Start starts the jobs of the VM that is there.
func Start(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	return execute(ctx, opts, startRows())
}

// Restart stops the jobs and starts them again.
func Restart(ctx context.Context, opts Options) error {
	opts.Inputs.Generate = document.Refuse
	return execute(ctx, opts, restartRows())
}

// run is what the rows of one list share. Each field says which row sets it.
type run struct {
	opts  Options
	root  *stage
	stage *stage // the open group, or root

	statePath string // execute

	manifest     *manifest.Manifest           // read manifest
	state        *file.Store                  // lock state
	dir          string                       // lock state: ~/.bosh/<installation_id>
	installation uuid.UUID                    // lock state
	store        *artifact.Store              // execute
	route        route                        // execute
	releases     map[string]*artifact.Release // fetch artifacts, by name
	stemcell     *artifact.Stemcell           // fetch artifacts
	vm           string                       // find vm: CID of the one that is recorded
	stemcellGone string                       // check the cloud, create vm: CID of the record whose stemcell is to be uploaded again
	stemcellMade bool                         // upload stemcell: by this run
	running      *agent.Client                // look at the agent: of the VM that exists; nil if it has none
	facts        facts                        // look
	registry     *registryServer              // bind registry; nil if not asked for
	engine       *templates.Engine            // start ruby
	cpiBuild     *build.Installation          // build cpi
	cpiLog       io.WriteCloser               // build cpi
	cpi          *cpi.Client                  // connect cpi
	known        installed                    // lock state: what this machine keeps
	cpiAPI       int                          // connect cpi: the CPI's API version, 0 before
	want         wanted                       // plan
	salt         string                       // plan
	plan         Plan                         // plan
	delivery     *delivery                    // plan: how packages get onto the VM
	adopted      *manifest.Manifest           // adopt: what the VM was made from
	scratch      string                       // peek at state: folder of a plan's installation
	deleting     bool                         // the list is a delete's
	swapped      *agent.Client                // look at the agent: of the VM that makes way; nil: none answers
	previous     applied                      // find what was applied
	migratedFrom string                       // disks: CID
	rendered     rendered                     // render jobs
	revived      bool                         // revive: the VM was rebooted
	deletedAgent string                       // delete old vm: the agent id of the VM that was deleted
	agent        *agent.Client                // plan, wait for agent: of the VM that is to run the jobs
	tunnel       *tunnel.Tunnel               // open tunnel
	address      string                       // initial apply: the instance's address
	packages     map[string]agent.SpecPackage // compile
}

// row is one step of a list.
type row struct {
	name  string
	group string          // the group of stages it belongs to, if any
	when  func(*run) bool // nil: always
	do    func(*run, context.Context) error
	end   func(*run) // in every case, once do was called, in reverse order
	down  bool       // the service is down while it runs, where the plan stops jobs
	// calls are the CPI's and the agent's methods that it calls, and maybe those
	// that depend on what these can: "cpi create_vm", "agent stop".
	calls, maybe func(*run) []string
}

// errDone ends a list well before its last row.
var errDone = errors.New("nothing more to do")

// InterruptedError says that the run was asked to stop and did, between two
// rows or while it waited.
type InterruptedError struct {
	Row  string // where
	Left string // the message that the VM's agent still works on; empty: none
}

func (e *InterruptedError) Error() string {
	text := fmt.Sprintf("interrupted at %q; everything that was made is recorded, run the same command again to go on", e.Row)
	if e.Left != "" {
		text += fmt.Sprintf("; the VM's agent still works on %s, which it cannot cancel: the next run waits until that ends, and with --fix it does not", e.Left)
	}
	return text
}

func execute(ctx context.Context, opts Options, rows []row) (err error) {
	rep := &reporter{report: opts.Report}
	root := &stage{rep: rep}
	r := &run{
		opts:  opts,
		root:  root,
		stage: root,
	}
	defer r.closeRoute()
	if err := r.openStore(ctx); err != nil {
		return err
	}
	if err := r.sayPaths(); err != nil {
		return err
	}
	var ends []func(*run)
	defer func() {
		for _, end := range slices.Backward(ends) {
			end(r)
		}
	}()
	group, at := "", ""
	for _, w := range rows {
		if w.when != nil && !w.when(r) {
			continue
		}
		if w.group != group {
			r.leave(group, nil)
			group = w.group
			if group != "" {
				r.stage = r.root.begin(group, true)
			}
		}
		at = w.name
		if ctx.Err() != nil {
			err = &InterruptedError{Row: at}
		} else {
			if w.end != nil {
				ends = append(ends, w.end)
			}
			err = w.do(r, ctx)
		}
		if err != nil {
			break
		}
	}
	if errors.Is(err, errDone) {
		err = nil
	}
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		cut := &InterruptedError{Row: at}
		if left, ok := errors.AsType[*agent.TaskLeftError](err); ok && !left.Ended {
			cut.Left = left.Method
		}
		err = cut
	}
	r.leave(group, err)
	return err
}

// openStore opens the cache, whose downloads go the same way as all else.
func (r *run) openStore(ctx context.Context) error {
	if err := r.openRoute(ctx); err != nil {
		return err
	}
	cfg := artifact.Config{Dir: r.opts.Home, Embedded: r.opts.Embedded, Getenv: r.opts.Getenv}
	if r.route.jumps != nil {
		cfg.Dial = r.route.dial // to SOCKS proxies it goes by itself
	}
	r.store = artifact.Open(cfg)
	return nil
}

// sayPaths tells which files this run is about.
func (r *run) sayPaths() error {
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
		r.root.info(fmt.Sprintf("Deployment manifest: '%s'", manifest))
	}
	r.root.info(fmt.Sprintf("Deployment state: '%s'", path))
	r.statePath = path
	return nil
}

func (r *run) leave(group string, err error) {
	if group != "" {
		_ = r.stage.end(err)
	}
	r.stage = r.root
}

// do runs fn as a stage of the open group.
func (r *run) do(name string, fn func(*stage) error) error { return r.stage.do(name, fn) }
