package deployer

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"

	"bootstrap/cpi"
	"bootstrap/cpi/build"
	"bootstrap/deployer/report"
	"bootstrap/state"
	"bootstrap/templates"
)

// startRuby prepares the Ruby that renders templates. Without a VM it starts at
// once, during the downloads; else only when something must be rendered.
func (r *run) startRuby(ctx context.Context) error {
	if err := r.prepareRuby(ctx); err != nil {
		return err
	}
	if r.state.Get().CurrentVMCID == "" {
		r.engine.Warm()
	}
	return nil
}

// prepareRuby has a Ruby start with the first template.
func (r *run) prepareRuby(ctx context.Context) error {
	r.engine = r.newEngine(ctx)
	r.atEnd(r.stopRuby)
	return nil
}

func (r *run) newEngine(ctx context.Context) *templates.Engine {
	return templates.Start(ctx, templates.Config{
		Ruby:  r.opts.Ruby,
		Self:  r.opts.Self,
		Cache: filepath.Join(r.opts.Home, "cache", "ruby"),
		Env:   r.rubyEnv(),
	})
}

func (r *run) stopRuby() {
	if r.engine != nil {
		_ = r.engine.Close() // a child that has ended is closed, too
	}
}

// buildCPI compiles the CPI and installs it into the deployment's folder.
func (r *run) buildCPI(ctx context.Context) error {
	if !r.state.Found() && r.scratch == "" {
		// From here on the folder has content, so the id must be in the state.
		if err := r.state.Update(func(*state.State) error { return nil }); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.buildDir(), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the deployment: %w", err)
	}
	r.engine.Warm() // no harm where it is
	r.checkPassEnv()
	var err error
	r.cpiBuild, err = build.Install(ctx, build.Config{
		Dir:        r.buildDir(),
		Cache:      cmp.Or(r.opts.PackageDir, filepath.Join(r.opts.Home, "cache", "compiled")),
		Deployment: r.about.Name,
		Jobs:       r.cpiJobs(),
		Properties: r.cpiProperties(),
		Engine:     r.engine,
		Env:        r.packagingEnv(),
		Stage: func(name string) func(string, error) {
			s := r.stage.Begin(name, false)
			return func(skipped string, err error) {
				if skipped != "" {
					err = report.Skip(skipped)
				}
				_ = s.End(r.redactFailures(err))
			}
		},
	})
	return err
}

// cpiJobs returns the jobs that cloud_provider names.
func (r *run) cpiJobs() []build.Job {
	var jobs []build.Job
	for _, t := range r.manifest.CPI.Templates {
		rel := r.releases[t.Release]
		jobs = append(jobs, build.Job{Job: rel.Job(t.Name), Release: rel})
	}
	return jobs
}

// buildDir returns the folder to install the CPI in: for a plan a temporary
// one, because a plan leaves nothing behind.
func (r *run) buildDir() string { return cmp.Or(r.scratch, r.dir) }

// cpiProperties returns the manifest's properties of the CPI, with the address
// of the registry.
func (r *run) cpiProperties() map[string]any {
	props := maps.Clone(r.manifest.CPI.Properties)
	if props == nil {
		props = map[string]any{}
	}
	if g := r.registry; g != nil {
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

// cpi returns the client of the CPI. The first call starts the registry,
// installs the CPI if it is not installed, and calls info.
func (r *run) cpi(ctx context.Context) (*cpi.Client, error) {
	if r.cpiClient != nil {
		return r.cpiClient, nil
	}
	if err := r.bindRegistry(ctx); err != nil {
		return nil, err
	}
	if r.cpiBuild == nil {
		if err := r.inGroup(installing, func() error { return r.buildCPI(ctx) }); err != nil {
			return nil, err
		}
	}
	client, err := r.newCPI()
	if err != nil {
		return nil, err
	}
	info, err := client.Info(ctx)
	if err != nil {
		return nil, err
	}
	r.cpiClient, r.cpiAPI = client, info.APIVersion
	if r.registry != nil && min(info.APIVersion, r.stemcellAPI()) >= 2 {
		// From version 2 on the CPI sends the agent its settings itself, so
		// nobody reads the registry.
		r.stopRegistry()
	}
	if r.scratch != "" || r.stemcell == nil {
		return client, nil
	}
	// Commands without the manifest find the CPI by this file.
	return client, r.remember()
}

// connect makes the CPI ready to be called.
func (r *run) connect(ctx context.Context) error {
	_, err := r.cpi(ctx)
	return err
}

// prepareCPI fetches what a missing CPI is installed from, before a person is
// asked and before anything is changed.
func (r *run) prepareCPI(ctx context.Context) error {
	if r.cpiBuild != nil {
		return nil
	}
	return r.inGroup(validating, func() error {
		if err := r.startRuby(ctx); err != nil {
			return err
		}
		if err := r.readForCPI(ctx); err != nil {
			return err
		}
		return r.fetchCPIReleases(ctx)
	})
}

func (r *run) newCPI() (*cpi.Client, error) {
	path := filepath.Join(r.buildDir(), "cpi.log")
	log, err := r.opts.OpenLog(path)
	if err != nil {
		return nil, err
	}
	if r.scratch != "" {
		path = "" // removeScratch removes it
	}
	r.cpiLog = log
	r.atEnd(r.closeLog)
	return cpi.New(cpi.Config{
		Path:        r.cpiBuild.Path,
		Env:         r.cpiEnv(),
		DirectorID:  r.state.Get().DirectorID,
		StemcellAPI: r.stemcellAPI(),
		Log:         log,
		LogFile:     path,
		Redact:      r.opts.Redact,
		Timeout:     r.opts.CPITimeout,
		Trace:       r.opts.traceCPI(),
		Running:     r.opts.Running,
	}), nil
}

// stemcellAPI returns the API version of the manifest's stemcell, or else the
// recorded one.
func (r *run) stemcellAPI() int {
	sc := r.currentStemcell()
	switch {
	case r.stemcell != nil:
		return r.stemcell.APIVersion
	case sc != nil && sc.APIVersion > 0:
		return sc.APIVersion
	case r.known.StemcellAPI > 0:
		return r.known.StemcellAPI
	}
	return 1
}

// closeLog closes the CPI's log. The rendered CPI stays, with mode 0600, until
// a delete, so that the lifecycle commands work without the manifest.
func (r *run) closeLog() {
	if r.cpiLog != nil {
		_ = r.cpiLog.Close()
		r.cpiLog = nil
	}
}
