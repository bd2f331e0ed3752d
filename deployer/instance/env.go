package instance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"bootstrap/addresses"
	"bootstrap/artifact"
	"bootstrap/cpi"
	"bootstrap/deployer/reach"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/internal/proxy"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
	"bootstrap/state"
	"bootstrap/state/team"
	"bootstrap/templates"
)

// Config has the environment, the terminal and the flags that all deploys of a process
// share.
type Config struct {
	Home string // folder of caches and installations, ~/.bosh
	// Via lists the jumpboxes on the way to the VM and to downloads, as
	// ssh://user@host:port URLs or lists of them with commas.
	Via []string

	PackageDir string // folder of the cache of compiled CPI packages; empty: below Home
	// PackagesGroup is the name of a group of deployments that use packages compiled on
	// each other's VMs; empty: the deployment uses only its own.
	PackagesGroup string
	PassEnv       []string // names of variables that are also passed to the CPI and packaging scripts
	Database      string   // path or postgres:// URL of the address ledger; empty: addresses.db below Home
	Offline       bool     // fetch nothing, and read only local files of the manifest

	LockWait time.Duration // how long to wait for another run with the same state
	KeepCopy bool          // do not update the copy of a store
	// Lost is called with what a store has lost, for a command that puts that back; nil:
	// the command fails.
	Lost         func(*team.DocumentsLostError)
	StateKey     team.Given    // the state key of a store, as the person gave it
	AgentTimeout time.Duration // how long a new VM's agent may take
	CPITimeout   time.Duration // how long one CPI call may take
	TaskTimeout  time.Duration // how long one agent task may take; 0: no limit

	Ruby     string              // path of the Ruby that renders; empty: the embedded one
	Embedded map[string]fs.FS    // releases and stemcells for `embedded:` URLs
	Getenv   func(string) string // for proxies, SSH_AUTH_SOCK, PATH
	Self     string              // path of this program, for the embedded CPI
	// Machine returns the kind of a new VM of the embedded CPI. asked is the kind in its
	// cloud_properties, image is true if its stemcell has an image. It may be nil.
	Machine func(ctx context.Context, asked string, image bool) Machine
	// Network returns the network of a new VM of the embedded CPI with these networks,
	// published ports and kind. It may be nil.
	Network func(networks map[string]map[string]any, ports any, machine string) Network
	// Inside returns a dialer for a VM of the embedded CPI with a network of its own;
	// nil: the VM has none. Inside may be nil.
	Inside func(root, cid string) proxy.Dial
	// Limits returns which limits in cloud_properties are not enforced for a VM of this
	// kind of the embedded CPI. It may be nil.
	Limits func(kind string, properties map[string]any) Limits
	// DiskLimit returns why the size of a new persistent disk is not enforced for a VM of
	// this kind of the embedded CPI. It may be nil.
	DiskLimit func(kind string) Limits
	Holder    state.Holder           // the holder that the lock file names
	Redact    func(string) string    // removes secrets from a text
	Secret    func(values ...string) // adds values that the redactor hides
	Name      func(names ...string)  // adds public names, which are not hidden; may be nil
	Report    func(report.Event)
	Continued *report.Stage      // the output of this run is part of it; nil: the run has its own
	Common    *Common            // what runs about several instances share; nil: each run has its own
	Running   *cpi.Running       // lists the running CPI calls; may be nil
	Trace     func(Point)        // is called at each point at which a test may kill the run; may be nil
	Timeline  *timeline.Recorder // records when the CPI and the agents are called; may be nil

	// OpenLog opens a log file for appending, 0600. Secrets are removed from the written
	// text.
	OpenLog func(path string) (io.WriteCloser, error)
}

// Env has what a run uses of its surroundings: Ruby, the route, the cache, ledgers and sources
// of values. The caller must call Close.
type Env struct {
	Config
	Root  *report.Stage   // parent of all stages
	Route reach.Route     // set by OpenRoute: to VMs and downloads
	Store *artifact.Store // set by Open

	engine  *templates.Engine            // nil until Engine is called
	routed  bool                         // OpenRoute has succeeded
	once    bool                         // each local release is read once
	sources map[string]*source.Sources   // opened by Inputs, by their list
	ledgers map[string]*addresses.Ledger // opened by Ledger, by address
}

// NewEnv returns an Env. It opens nothing.
func NewEnv(c Config) *Env { return &Env{Config: c, Root: cmp.Or(c.Continued, report.New(c.Report))} }

// For returns the configuration of a run with the options: one about the only instance of a
// deployment shares nothing.
func (c Config) For(o Options) Config {
	if o.Of == nil {
		c.Common = nil
	}
	return c
}

// Common is what the runs of a command about several instances share: they have one login at
// each jumpbox, and each local release is read once. It is opened when a run needs it.
type Common struct {
	mu  sync.Mutex
	env *Env
}

// NewCommon returns what runs with the configuration share. The caller must call Close.
func NewCommon(c Config) *Common {
	c.Common = nil
	e := NewEnv(c)
	e.once = true
	return &Common{env: e}
}

// Close closes what was opened.
func (s *Common) Close() { s.env.Close() }

// route opens the route, unless it is open.
func (s *Common) route(ctx context.Context) (reach.Route, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.env.OpenRoute(ctx)
	return s.env.Route, err
}

// store opens the route and the cache, unless they are open.
func (s *Common) store(ctx context.Context) (*artifact.Store, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.env.Store == nil {
		if err := s.env.Open(ctx); err != nil {
			return nil, err
		}
	}
	return s.env.Store, nil
}

// OpenRoute opens the route to the VM and to downloads, unless it is open.
func (e *Env) OpenRoute(ctx context.Context) (err error) {
	if e.routed {
		return nil
	}
	if e.Common != nil {
		e.Route, err = e.Common.route(ctx)
		e.routed = err == nil
		return err
	}
	e.Route, err = reach.OpenRoute(ctx, reach.RouteOptions{
		Via: e.Via, Home: e.Home, Getenv: e.Getenv, Secret: e.Secret, Report: e.Root,
	})
	e.routed = err == nil
	return err
}

// Inputs returns inputs whose sources of values can be asked. Each variable is asked for
// once, even if the inputs are evaluated several times.
func (e *Env) Inputs(in document.Options) document.Options {
	in.StemcellOS = stemcellOS
	if len(in.VarSources) > 0 {
		in.Ask = func(ctx context.Context, names []string) (document.Answers, error) {
			sources, err := e.openSources(ctx, in)
			if err != nil {
				return document.Answers{}, err
			}
			return sources.Ask(ctx, names)
		}
	}
	return in
}

// stemcellOS returns the operating system that the archive of a stemcell names; empty: it
// cannot be read, which is reported when it is used.
func stemcellOS(ctx context.Context, path string) string {
	id, err := artifact.Identify(ctx, path)
	if err != nil {
		return ""
	}
	return id.OS
}

// openSources returns the sources of inputs; connections to them use the route.
func (e *Env) openSources(ctx context.Context, in document.Options) (*source.Sources, error) {
	if slices.ContainsFunc(in.VarSources, source.Remote) {
		if err := e.OpenRoute(ctx); err != nil {
			return nil, err
		}
	}
	list := strings.Join(in.VarSources, "\x00")
	if e.sources[list] == nil {
		e.hide(in.PassEnv)
		made, err := source.New(in.VarSources, source.Config{
			Environ: in.Environ, PassEnv: in.PassEnv, Getenv: e.Getenv, Dial: e.Route.Dial, Secret: e.Secret,
		})
		if err != nil {
			return nil, err
		}
		if e.sources == nil {
			e.sources = map[string]*source.Sources{}
		}
		e.sources[list] = made
	}
	return e.sources[list], nil
}

// Open opens the route and the cache. Downloads use the route.
func (e *Env) Open(ctx context.Context) (err error) {
	if err := e.OpenRoute(ctx); err != nil {
		return err
	}
	if e.Common != nil {
		e.Store, err = e.Common.store(ctx)
		return err
	}
	e.Store = artifact.Open(artifact.Config{Dir: e.Home, Embedded: e.Embedded, Getenv: e.Getenv, Dial: e.Route.Dial, Offline: e.Offline, Once: e.once})
	return nil
}

// Engine returns the Ruby that renders templates. It starts with the first template, or
// when Warm is called.
func (e *Env) Engine(ctx context.Context) (*templates.Engine, error) {
	if e.engine != nil {
		return e.engine, nil
	}
	if e.Ruby == "" {
		if err := templates.CheckSpace(); err != nil {
			return nil, err
		}
	}
	e.engine = e.NewEngine(ctx)
	return e.engine, nil
}

// Render renders jobs into a folder.
func (e *Env) Render(ctx context.Context, jobs []templates.Job, dir string) error {
	ruby, err := e.Engine(ctx)
	if err != nil {
		return err
	}
	return e.RedactFailures(ruby.Render(ctx, jobs, dir))
}

// WarmRuby starts Ruby during the downloads if there is no VM yet, because all templates
// will be rendered.
func (rec *Record) WarmRuby(ctx context.Context) error {
	if rec.State.Get().CurrentVMCID != "" {
		return nil
	}
	ruby, err := rec.Env.Engine(ctx)
	if err == nil {
		ruby.Warm()
	}
	return err
}

// RubyCache returns the folder of the embedded Ruby's machine code.
func RubyCache(home string) string { return filepath.Join(home, "cache", "ruby") }

// NewEngine returns a Ruby that is not shared. The caller must close it.
func (e *Env) NewEngine(ctx context.Context) *templates.Engine {
	return templates.Start(ctx, templates.Config{
		Ruby:   e.Ruby,
		Self:   e.Self,
		Cache:  RubyCache(e.Home),
		Shared: e.Getenv(templates.SharedVariable),
		Env:    e.rubyEnv(),
		Compiling: func(full bool) {
			if full {
				e.Root.Info(fmt.Sprintf("%s has no room for the embedded Ruby, which needs 50 MB there: it is compiled for this run alone, which takes some seconds", RubyCache(e.Home)))
				return
			}
			e.Root.Info("Compiling the embedded Ruby, once for this machine: this takes some seconds")
		},
	})
}

// Close ends Ruby, closes the cache, which may be pruned again, and closes the
// connections of the route.
func (e *Env) Close() {
	if e.engine != nil {
		_ = e.engine.Close() // It also closes a child that has ended.
	}
	for _, ledger := range e.ledgers {
		_ = ledger.Close() // Everything is committed already.
	}
	if e.Common != nil {
		return // it closes the cache and the route
	}
	if e.Store != nil {
		_ = e.Store.Close()
	}
	e.Route.Close()
}

// The environments of child processes. They have only the variables that are listed here
// or named with --pass-env.

// packagingEnv returns the proxy settings for packaging scripts of the CPI. Package
// artifact/packaging adds the other variables.
func (e *Env) packagingEnv() []string {
	return append(e.inherited(proxies()...), e.inherited(e.PassEnv...)...)
}

// rubyEnv returns the complete environment of the Ruby that renders templates.
func (e *Env) rubyEnv() []string { return e.inherited("PATH", "HOME") }

// checkEnv returns variables for programs of health checks. Package health adds the other
// variables.
func (e *Env) checkEnv() []string {
	return append(e.inherited("PATH", "HOME", "USER", "LANG", "TMPDIR", "SystemRoot"), e.inherited(e.PassEnv...)...)
}

// hide tells the redactor the values of variables whose names suggest secrets.
func (e *Env) hide(names []string) {
	secret := regexp.MustCompile(`(?i)secret|passw|token|key|credential|auth`)
	for _, n := range names {
		if secret.MatchString(n) {
			e.Secret(e.Getenv(n))
		}
	}
}

// inherited returns the variables that are set, as NAME=value.
func (e *Env) inherited(names ...string) []string {
	var env []string
	for _, n := range names {
		if v := e.Getenv(n); v != "" {
			env = append(env, n+"="+v)
		}
	}
	return env
}

func proxies() []string {
	var names []string
	for _, n := range proxy.Names() {
		names = append(names, n, strings.ToLower(n))
	}
	return names
}

// publish adds names that messages may show, even if a secret is the same word.
func (c Config) publish(names ...string) {
	if c.Name != nil {
		c.Name(names...)
	}
}

// RedactFailures removes secrets from the messages of failed templates.
func (c Config) RedactFailures(err error) error {
	var failures *templates.Failures
	if errors.As(err, &failures) {
		failures.Redact(c.Redact)
	}
	return err
}
