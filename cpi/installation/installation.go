// Package build installs a CPI on this machine: it compiles the packages of
// its jobs, renders their templates and lays both out for bin/cpi.
package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"bootstrap/artifact"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/removal"
	"bootstrap/templates"
)

// Config contains what to install, and where.
type Config struct {
	// Dir is the folder of the installation, ~/.bosh/<installation_id>; it gets
	// packages/, jobs/ and tmp/.
	Dir string
	// Cache is the folder of compiled packages, ~/.bosh/cache/compiled. All
	// installations share it; dir/packages has links into it.
	Cache string
	// Deployment is the name of the deployment, which templates may use.
	Deployment string
	// Jobs are the jobs that cloud_provider names; one of them has bin/cpi.
	Jobs []Job
	// Properties are the properties of cloud_provider.
	Properties map[string]any
	// Platform is this machine's system as "os/version", for example
	// "ubuntu-jammy/22.04"; empty: read from its os-release file.
	Platform string
	// Engine renders the templates.
	Engine *templates.Engine
	// Env contains variables for packaging scripts, for example proxies.
	Env []string
	// Stage is called when a step begins, and returns a function that is called when the
	// step ends; skipped is the reason if there was nothing to do. Packages are compiled
	// in parallel, so Stage may be called by several goroutines, before earlier steps
	// have ended. It may be nil.
	Stage func(name string) (end func(skipped string, err error))
}

// Job is a job to install, and its release.
type Job struct {
	*artifact.Job
	Release *artifact.Release
}

// Installation is an installed CPI, which can be called.
type Installation struct {
	Path                 string // path of bin/cpi
	JobsDir, PackagesDir string

	dir string
}

const alreadyCompiled = "Package already compiled"

// Check returns the error that Install would return for these jobs, without
// installing anything.
func Check(jobs []Job) error {
	if _, err := cpiJob(jobs); err != nil {
		return err
	}
	_, err := resolve(jobs, machine(""))
	return err
}

// Templates returns the jobs for the template engine.
func Templates(deployment string, jobs []Job, properties map[string]any) []templates.Job {
	var list []templates.Job
	for _, job := range jobs {
		list = append(list, templates.Job{Job: job.Job, Context: templates.Context{
			Bootstrap: true, Deployment: deployment, ReleaseVersion: job.Release.Version,
			ClusterProperties: properties, PropertiesPath: "cloud_provider.properties",
		}})
	}
	return list
}

// Install installs the CPI. Packages in the cache are not compiled again. After an error,
// no rendered job is left.
func Install(ctx context.Context, cfg Config) (*Installation, error) {
	cfg, err := cfg.resolve()
	if err != nil {
		return nil, err
	}
	cpi, err := cpiJob(cfg.Jobs)
	if err != nil {
		return nil, err
	}
	host := machine(cfg.Platform)
	packages, err := resolve(cfg.Jobs, host)
	if err != nil {
		return nil, err
	}
	inst := &Installation{
		Path:    filepath.Join(cfg.Dir, "jobs", cpi.Name, "bin", "cpi"),
		JobsDir: filepath.Join(cfg.Dir, "jobs"), PackagesDir: filepath.Join(cfg.Dir, "packages"),
		dir: cfg.Dir,
	}
	for _, dir := range []string{cfg.Dir, inst.PackagesDir, filepath.Join(cfg.Dir, "tmp"), cfg.Cache} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("cannot install the CPI: %w", err)
		}
	}
	unlock, err := lock(ctx, filepath.Join(cfg.Dir, "install.lock"))
	if err != nil {
		return nil, fmt.Errorf("cannot install the CPI: %w", err)
	}
	defer unlock()
	// An interrupted run may have left rendered jobs, which contain secrets.
	if err := inst.Cleanup(); err != nil {
		return nil, err
	}
	if err := compile(ctx, cfg, packages); err != nil {
		return nil, err
	}
	end := cfg.Stage("Installing packages")
	err = link(cfg.Cache, inst.PackagesDir, packages.installed)
	end("", err)
	if err != nil {
		return nil, err
	}
	if err := installJobs(ctx, cfg, inst); err != nil {
		return nil, errors.Join(err, inst.Cleanup())
	}
	return inst, nil
}

// resolve makes the folders absolute, because compiled files may contain their paths.
func (cfg Config) resolve() (Config, error) {
	for _, dir := range []*string{&cfg.Dir, &cfg.Cache} {
		if *dir == "" {
			return cfg, errors.New("cannot install the CPI: the folder of the installation or of the cache is not given")
		}
		abs, err := filepath.Abs(*dir)
		if err != nil {
			return cfg, fmt.Errorf("cannot install the CPI: %w", err)
		}
		*dir = abs
	}
	if cfg.Stage == nil {
		cfg.Stage = func(string) func(string, error) { return func(string, error) {} }
	}
	return cfg, nil
}

// cpiJob returns the one job that has bin/cpi.
func cpiJob(jobs []Job) (Job, error) {
	var found []Job
	var all, names []string
	for _, job := range jobs {
		name := fmt.Sprintf("'%s' (release '%s')", job.Name, job.Release.Name)
		all = append(all, name)
		for _, t := range job.Templates {
			if path.Clean(t.Destination) == "bin/cpi" {
				found, names = append(found, job), append(names, name)
				break
			}
		}
	}
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(jobs) == 0:
		return Job{}, errors.New("cannot install the CPI: cloud_provider names no job")
	case len(found) == 0:
		return Job{}, fmt.Errorf("cannot install the CPI: none of the jobs that cloud_provider names has a template for bin/cpi, so none is a CPI: %s",
			strings.Join(all, ", "))
	}
	return Job{}, fmt.Errorf("cannot install the CPI: only one of the jobs that cloud_provider names may have a template for bin/cpi, but several have: %s",
		strings.Join(names, ", "))
}

// installJobs renders all jobs and moves them to their folders.
func installJobs(ctx context.Context, cfg Config, inst *Installation) error {
	jobs := Templates(cfg.Deployment, cfg.Jobs, cfg.Properties)
	end := cfg.Stage("Rendering job templates")
	err := cfg.Engine.Render(ctx, jobs, inst.rendered())
	end("", err)
	if err != nil {
		return err
	}
	for _, job := range jobs {
		end := cfg.Stage(fmt.Sprintf("Installing job '%s'", job.Name))
		err := os.MkdirAll(inst.JobsDir, 0o700)
		if err == nil {
			err = os.Rename(filepath.Join(inst.rendered(), job.Name), filepath.Join(inst.JobsDir, job.Name))
		}
		end("", err)
		if err != nil {
			return fmt.Errorf("cannot install job '%s': %w", job.Name, err)
		}
	}
	return os.RemoveAll(inst.rendered())
}

func (i *Installation) rendered() string { return filepath.Join(i.dir, "tmp", "jobs") }

// Cleanup removes the rendered jobs, which contain secrets; the packages stay.
func (i *Installation) Cleanup() error {
	for _, dir := range []string{i.JobsDir, i.rendered()} {
		if err := removal.Tree(dir); err != nil {
			return fmt.Errorf("cannot remove rendered CPI jobs: %w", err)
		}
	}
	return nil
}

// lock waits until this process has locked the file exclusively.
func lock(ctx context.Context, file string) (unlock func(), err error) {
	l := lockfile.New(file)
	if _, err := l.TryLockContext(ctx, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", file, err)
	}
	return func() { _ = l.Unlock() }, nil
}
