package instance

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"runtime"

	"bootstrap/cpi"
	"bootstrap/cpi/installation"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
	"bootstrap/state"
	"bootstrap/tunnel"
)

// CPI is the CPI of a deployment. It installs itself and connects when a method first
// needs a client; Instance.Close ends its processes and closes its logs.
type CPI struct {
	rec     *Record
	ledgers *Addresses
	// readManifest reads the manifest unless it was read: a missing CPI is installed from
	// it.
	readManifest func(context.Context) (*Inputs, error)
	artifacts    *Artifacts // set by Use and Prepare; nil: this run has fetched none

	// Build is the installed CPI; nil: unknown yet. Commands that do not read the
	// manifest find it with FindInstallation.
	Build *installation.Installation

	registry *registryServer    // nil: not needed, or stopped
	served   *manifest.Registry // settings of the registry, with the port in use
	tunnel   *tunnel.Tunnel
	client   *cpi.Client // nil: not connected
	log      io.WriteCloser
	api      int // the API version that the CPI reports; 0: not asked yet
}

// Connected reports whether a client exists already.
func (c *CPI) Connected() bool { return c.client != nil }

// Connect makes the CPI ready to be called.
func (c *CPI) Connect(ctx context.Context) error {
	_, err := c.Client(ctx)
	return err
}

// Client returns the client of the CPI. The first call starts the registry, installs the
// CPI if necessary, and calls info.
func (c *CPI) Client(ctx context.Context) (*cpi.Client, error) {
	if c.client != nil {
		return c.client, nil
	}
	if err := cpi.Supported(runtime.GOOS); err != nil {
		return nil, err
	}
	if err := c.bindRegistry(ctx); err != nil {
		return nil, err
	}
	if c.Build == nil {
		if err := c.Prepare(ctx); err != nil {
			return nil, err
		}
		if err := c.rec.Out.InGroup(installing, func() error { return c.install(ctx) }); err != nil {
			return nil, err
		}
	}
	client, err := c.newClient()
	if err != nil {
		return nil, err
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}
	c.client, c.api = client, info.APIVersion
	if c.registry != nil && min(info.APIVersion, c.stemcellAPI()) >= 2 {
		// From API version 2 on, the CPI passes the settings to the agent, so the
		// registry is not used.
		c.stopRegistry()
	}
	if c.rec.Scratch != "" || c.artifacts == nil || c.artifacts.Stemcell == nil {
		return client, nil
	}
	// Commands without the manifest find the CPI by this file.
	return client, c.Remember(ctx)
}

// Use sets the artifacts from which the CPI is installed.
func (c *CPI) Use(a *Artifacts) { c.artifacts = a }

// Prepare fetches the artifacts for a missing CPI, before a person is asked and before
// anything is changed.
func (c *CPI) Prepare(ctx context.Context) error {
	if c.Build != nil || c.artifacts != nil {
		return nil
	}
	return c.rec.Out.InGroup(Validating, func() error {
		if _, err := c.rec.Env.Engine(ctx); err != nil {
			return err
		}
		in, err := c.readManifest(ctx)
		if err != nil {
			return err
		}
		a, err := in.FetchForCPI(ctx)
		if err == nil {
			c.artifacts = a
		}
		return err
	})
}

// install compiles the CPI and installs it into the deployment's folder.
func (c *CPI) install(ctx context.Context) error {
	if !c.rec.State.Found() && c.rec.Scratch == "" {
		// The folder is not empty any more, so its id must be in the state.
		if err := c.rec.State.Update(func(*state.State) error { return nil }); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(c.dir(), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the deployment: %w", err)
	}
	ruby, err := c.rec.Env.Engine(ctx)
	if err != nil {
		return err
	}
	ruby.Warm()
	c.checkPassEnv()
	c.Build, err = installation.Install(ctx, installation.Config{
		Dir:        c.dir(),
		Cache:      cmp.Or(c.rec.Env.PackageDir, filepath.Join(c.rec.Env.Home, "cache", "compiled")),
		Deployment: c.rec.About.Name,
		Jobs:       c.Jobs(),
		Properties: c.Properties(),
		Engine:     ruby,
		Env:        c.rec.Env.packagingEnv(),
		Stage: func(name string) func(string, error) {
			s := c.rec.Out.Open.Begin(name, false)
			return func(skipped string, err error) {
				if skipped != "" {
					err = report.Skip(skipped)
				}
				_ = s.End(c.rec.Env.RedactFailures(err))
			}
		},
	})
	return err
}

func (c *CPI) newClient() (*cpi.Client, error) {
	path := c.LogFile()
	log, err := c.rec.Env.OpenLog(path)
	if err != nil {
		return nil, err
	}
	if c.rec.Scratch != "" {
		path = "" // removeScratch removes it
	}
	c.log = log
	c.rec.AtEnd(c.CloseLog)
	return cpi.New(cpi.Config{
		Path:        c.Build.Path,
		Env:         c.Env(),
		DirectorID:  c.rec.State.Get().DirectorID,
		StemcellAPI: c.stemcellAPI(),
		Log:         log,
		LogFile:     path,
		Redact:      c.rec.Env.Redact,
		Timeout:     c.rec.Env.CPITimeout,
		Trace:       c.rec.Env.traceCPI(),
		Running:     c.rec.Env.Running,
	}), nil
}

// LogFile returns the path of the CPI's log.
func (c *CPI) LogFile() string { return filepath.Join(c.dir(), "cpi.log") }

// CloseLog closes the CPI's log. The rendered CPI stays, with mode 0600, until a delete,
// so that commands work without the manifest.
func (c *CPI) CloseLog() {
	if c.log != nil {
		_ = c.log.Close()
		c.log = nil
	}
}

// Jobs returns the jobs that cloud_provider names.
func (c *CPI) Jobs() []installation.Job {
	var jobs []installation.Job
	for _, ref := range c.artifacts.Manifest.CPI.Templates {
		rel := c.artifacts.Releases[ref.Release]
		jobs = append(jobs, installation.Job{Job: rel.Job(ref.Name), Release: rel})
	}
	return jobs
}

// dir returns the folder in which the CPI is installed. A plan uses a temporary one.
func (c *CPI) dir() string { return cmp.Or(c.rec.Scratch, c.rec.Dir) }

// Properties returns the manifest's properties of the CPI, with the address
// of the registry.
func (c *CPI) Properties() map[string]any {
	props := maps.Clone(c.artifacts.Manifest.CPI.Properties)
	if props == nil {
		props = map[string]any{}
	}
	if g := c.registry; g != nil {
		props["registry"] = map[string]any{
			"host":     g.host,
			"port":     g.port,
			"username": g.username,
			"password": g.password,
			"endpoint": "http://" + net.JoinHostPort(g.host, fmt.Sprint(g.port)),
		}
	}
	return props
}

// stemcellAPI returns the API version of the stemcell in the manifest, or the recorded
// one.
func (c *CPI) stemcellAPI() int {
	sc := c.rec.currentStemcell()
	switch {
	case c.artifacts != nil && c.artifacts.Stemcell != nil:
		return c.artifacts.Stemcell.APIVersion
	case sc != nil && sc.APIVersion > 0:
		return sc.APIVersion
	case c.rec.Known.StemcellAPI > 0:
		return c.rec.Known.StemcellAPI
	}
	return 1
}

// Env returns the complete environment of the CPI. The variables of the protocol come
// last, so that they replace all others.
func (c *CPI) Env() []string {
	env := c.rec.Env.inherited("PATH", "HOME", "LANG", "TMPDIR", "USER")
	env = append(env, c.rec.Env.inherited(proxies()...)...)
	env = append(env, c.rec.Env.inherited(c.rec.Env.PassEnv...)...)
	return append(env,
		"BOOTSTRAP_EXECUTABLE="+c.rec.Env.Self, // the embedded CPI needs it
		"BOSH_PACKAGES_DIR="+c.Build.PackagesDir,
		"BOSH_JOBS_DIR="+c.Build.JobsDir,
	)
}

// checkPassEnv warns of names that are not set, and hides the secret values.
func (c *CPI) checkPassEnv() {
	for _, n := range c.rec.Env.PassEnv {
		if c.rec.Env.Getenv(n) == "" {
			c.rec.Out.Warning(fmt.Sprintf("--pass-env names %s, which is not set in the environment", n))
		}
	}
	c.rec.Env.hide(c.rec.Env.PassEnv)
}

// EffectiveAPI returns the lower of the API versions of CPI and stemcell; 0: the CPI's
// version is unknown.
func (c *CPI) EffectiveAPI() int {
	api := c.rec.Known.API
	if c.api > 0 {
		api = c.api
	}
	if api == 0 {
		return 0
	}
	return min(api, max(1, c.artifacts.Stemcell.APIVersion))
}
