package deployer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"

	"bootstrap/cpi/build"
	"bootstrap/deployer/kept"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/manifest"
)

// aboutManifest is what the manifest says of what commands need that do not read
// it.
func aboutManifest(m *manifest.Manifest) kept.Deployment {
	return kept.Deployment{
		Manifest: m.Path, Name: m.Name, Group: m.Group.Name,
		MBus: m.CPI.MBus, CA: m.CPI.CA,
		WatchTime: m.Update.WatchTime, Protect: m.Protect, UseDNS: m.UseDNS, Tags: m.Tags,
		Registry: m.CPI.Registry,
	}
}

// remember keeps, for commands that do not read the manifest, what this deploy
// knows.
func (r *run) remember() error {
	k := aboutManifest(r.manifest)
	k.API, k.StemcellAPI, k.Secrets = r.known.API, r.stemcell.APIVersion, r.rememberedSecrets()
	k.CPI, k.Packages, k.Jobs = r.known.CPI, r.known.Packages, r.known.Jobs
	if r.cpiBuild != nil {
		k.CPI, k.Packages, k.Jobs = r.cpiBuild.Path, r.cpiBuild.PackagesDir, r.cpiBuild.JobsDir
		if r.served != nil {
			k.Registry = r.served
		} else if r.known.Registry != nil {
			k.Registry = r.known.Registry
		}
	}
	if r.cpiAPI > 0 {
		k.API = r.cpiAPI
	}
	if err := r.folder().SetDeployment(k); err != nil {
		return fmt.Errorf("cannot keep what this machine knows of the deployment: %w", err)
	}
	r.known = k
	return nil
}

// maxSecrets bounds the secrets that are remembered.
const maxSecrets = 1000

// rememberedSecrets are those of the manifest and, after them, of the deploys
// before.
func (r *run) rememberedSecrets() []string {
	all := slices.Clone(r.manifest.Secrets)
	for _, s := range r.known.Secrets {
		if len(all) < maxSecrets && !slices.Contains(all, s) {
			all = append(all, s)
		}
	}
	return all
}

// recallKnown reads what this machine remembers; the zero value where that is
// nothing, or nothing that can be read.
func (r *run) recallKnown() {
	known, ok := r.folder().Deployment()
	if !ok {
		return
	}
	r.known = known
	r.opts.Secret(known.Secrets...)
	r.publish(known.Name, known.Group)
}

// findInstallation takes from this machine what a command needs that is not
// about the manifest's content; where there is too little, or the command line
// says how the manifest is to be read, it reads the manifest.
func (r *run) findInstallation(ctx context.Context) error {
	given := r.opts.Inputs
	asked := len(given.Ops)+len(given.Vars)+len(given.VarFiles)+len(given.VarsFiles)+len(given.VarsEnv) > 0 || given.VarsStore != ""
	if asked || r.known.Name == "" {
		if r.opts.Manifest == "" {
			return errors.New("this machine does not know the deployment: name its manifest, too")
		}
		return r.readManifest(ctx)
	}
	k := r.known
	if k.MBusURL() == nil {
		return errors.New("what is kept of the deployment on this machine is damaged: installation.json has no mbus that is a URL; give the manifest's operations and variables as for deploy")
	}
	r.about = k
	r.opts.Secret(k.MBus)
	if exists(k.CPI) {
		r.cpiBuild = &build.Installation{Path: k.CPI, JobsDir: k.Jobs, PackagesDir: k.Packages}
		r.root.Info(fmt.Sprintf("Using what is installed on this machine for deployment '%s'", k.Name))
	}
	return nil
}

// readForCPI reads the manifest where the CPI must be built and only what is
// kept on this machine was read until now.
func (r *run) readForCPI(ctx context.Context) error {
	if r.manifest != nil {
		return nil
	}
	if r.opts.Manifest == "" {
		return errors.New("the CPI is not installed on this machine any more: name the manifest, from which it is made")
	}
	return r.readManifest(ctx)
}

// uninstall removes the installation and, with it, the last that the state
// file is needed for. Orphans that are kept need both, and leftovers are recorded
// nowhere else.
func (r *run) uninstall(ctx context.Context) error {
	// If the state file is kept, forget that `stop` was requested.
	if err := r.recordStarted(ctx); err != nil {
		return err
	}
	if n := len(r.state.Get().Own.Orphans); n > 0 {
		r.root.Info(fmt.Sprintf("%s kept: the state file and the installed CPI stay, for `bootstrap disks MANIFEST`", plan.Count(n, "disk")))
		return nil
	}
	if n := len(r.state.Get().Own.Leftovers); n > 0 {
		r.root.Warning(fmt.Sprintf("%s of earlier runs may have left something in the cloud: the state file stays, for `bootstrap state leftovers MANIFEST`", plan.Count(n, "CPI call")))
		return nil
	}
	for _, c := range r.state.Get().Own.Snapshots {
		r.root.Info(fmt.Sprintf("Snapshot '%s' of disk '%s' stays in the cloud, and is recorded nowhere from now on", c.CID, c.Disk))
	}
	return r.do("Uninstalling local artifacts for CPI and deployment", func(*report.Stage) error {
		r.closeLog()
		if err := os.RemoveAll(r.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("cannot remove the installation: %w", err)
		}
		return r.state.Remove()
	})
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
