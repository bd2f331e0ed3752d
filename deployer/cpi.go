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

// startRuby gets the Ruby ready that renders templates. Where there is no VM
// yet it starts at once, beside the downloads; else not before it is known
// that anything is to be rendered.
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
		_ = r.engine.Close() // a child that is gone already is as good
	}
}

// buildCPI compiles and installs the CPI into the installation's folder.
func (r *run) buildCPI(ctx context.Context) error {
	if !r.state.Found() && r.scratch == "" {
		// From here on there is something to be found again by its id.
		if err := r.state.Update(func(*state.State) error { return nil }); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.buildDir(), 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the installation: %w", err)
	}
	r.engine.Warm() // no harm where it is
	r.tellPassEnv()
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
				_ = s.End(r.withoutValues(err))
			}
		},
	})
	return err
}

// cpiJobs are the jobs that cloud_provider names.
func (r *run) cpiJobs() []build.Job {
	var jobs []build.Job
	for _, t := range r.manifest.CPI.Templates {
		rel := r.releases[t.Release]
		jobs = append(jobs, build.Job{Job: rel.Job(t.Name), Release: rel})
	}
	return jobs
}

// buildDir is where the CPI is installed: a plan leaves nothing behind.
func (r *run) buildDir() string { return cmp.Or(r.scratch, r.dir) }

// cpiProperties are the manifest's, with where the registry listens.
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

// cpi returns the client of the CPI. The first call serves the registry, installs
// the CPI where this machine has none, and asks it what it is.
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
		// Nobody will ask: from version 2 on the CPI tells the agent itself.
		r.stopRegistry()
	}
	if r.scratch != "" || r.stemcell == nil {
		return client, nil
	}
	// What needs the CPI later, without the manifest, finds it by this.
	return client, r.remember()
}

// connect gets the CPI ready to be called.
func (r *run) connect(ctx context.Context) error {
	_, err := r.cpi(ctx)
	return err
}

// prepareCPI gets ready what the CPI is installed from, where this machine has
// none: before a person is asked, and before anything is touched.
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
		path = "" // it is removed with what a plan has made
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

// stemcellAPI is the API version of the stemcell: of the manifest's, or as it is
// recorded.
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

// closeLog ends the CPI's log. What was rendered stays, 0600, until a delete:
// it lets the lifecycle commands work without the manifest.
func (r *run) closeLog() {
	if r.cpiLog != nil {
		_ = r.cpiLog.Close()
		r.cpiLog = nil
	}
}
