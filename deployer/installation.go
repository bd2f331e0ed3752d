package deployer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/cpi/build"
	"bootstrap/deployer/plan"
	"bootstrap/deployer/report"
	"bootstrap/internal/atomicfile"
	"bootstrap/manifest"
)

// installed is what this machine keeps of a deployment, as installation.json,
// 0600, in the folder of the installation: what the commands need that are
// run without the manifest's variables, releases and downloads.
type installed struct {
	Manifest    string             `json:"manifest"` // absolute path
	Name        string             `json:"name"`
	Group       string             `json:"group"`
	MBus        string             `json:"mbus"`
	CA          string             `json:"ca"`
	WatchTime   manifest.WatchTime `json:"update_watch_time"`
	Protect     bool               `json:"protect,omitempty"`
	UseDNS      bool               `json:"use_dns,omitempty"`
	Tags        map[string]string  `json:"tags,omitempty"`
	CPI         string             `json:"cpi,omitempty"` // path of bin/cpi
	Packages    string             `json:"packages,omitempty"`
	Jobs        string             `json:"jobs,omitempty"`
	API         int                `json:"api_version,omitempty"` // of the CPI, as it told last
	StemcellAPI int                `json:"stemcell_api_version,omitempty"`
	Registry    *manifest.Registry `json:"registry,omitempty"` // with the port it had
	// Secrets are what a redactor must hide in what is told without the
	// manifest, the newest first: the VM's logs may hold older ones.
	Secrets []string `json:"secrets,omitempty"`
}

func (r *run) installationFile() string { return filepath.Join(r.dir, "installation.json") }

// know keeps what this machine must know of the deployment.
func (r *run) know(ctx context.Context) error {
	m := r.manifest
	k := installed{
		Manifest: m.Path, Name: m.Name, Group: m.Group.Name,
		MBus: m.CPI.MBus, CA: m.CPI.CA,
		WatchTime: m.Update.WatchTime, Protect: m.Protect, UseDNS: m.UseDNS, Tags: m.Tags,
		API: r.known.API, StemcellAPI: r.stemcell.APIVersion,
		Registry: m.CPI.Registry, Secrets: r.rememberedSecrets(),
		CPI: r.known.CPI, Packages: r.known.Packages, Jobs: r.known.Jobs,
	}
	if r.cpiBuild != nil {
		k.CPI, k.Packages, k.Jobs = r.cpiBuild.Path, r.cpiBuild.PackagesDir, r.cpiBuild.JobsDir
		if r.known.Registry != nil {
			k.Registry = r.known.Registry
		}
	}
	if r.cpiAPI > 0 {
		k.API = r.cpiAPI
	}
	data, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(r.dir, 0o700); err != nil {
		return fmt.Errorf("cannot make the folder of the installation: %w", err)
	}
	if err := atomicfile.Write(r.installationFile(), data); err != nil {
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

// recallKnown reads what know has kept; the zero value where there is nothing,
// or nothing that can be read.
func (r *run) recallKnown() {
	data, err := os.ReadFile(r.installationFile())
	var k installed
	if err != nil || json.Unmarshal(data, &k) != nil {
		return
	}
	r.known = k
	r.opts.Secret(k.Secrets...)
	r.publish(k.Name, k.Group)
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
	u, err := url.Parse(r.known.MBus)
	if err != nil {
		return errors.New("what is kept of the deployment on this machine is damaged: installation.json has no mbus that is a URL; give the manifest's operations and variables as for deploy")
	}
	k := r.known
	r.manifest = &manifest.Manifest{
		Path: k.Manifest, Name: k.Name, Protect: k.Protect, UseDNS: k.UseDNS, Tags: k.Tags,
		Group:  manifest.InstanceGroup{Name: k.Group},
		Update: manifest.Update{WatchTime: k.WatchTime},
		CPI:    manifest.Installation{MBus: k.MBus, MBusURL: u, CA: k.CA, Registry: k.Registry},
	}
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
	if len(r.manifest.CPI.Templates) > 0 {
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
		r.root.Info(fmt.Sprintf("%s kept: the state file and the installed CPI stay, for bootstrap disks", plan.Count(n, "disk")))
		return nil
	}
	if n := len(r.state.Get().Own.Leftovers); n > 0 {
		r.root.Warning(fmt.Sprintf("%s of earlier runs may have left something in the cloud: the state file stays, for bootstrap state leftovers", plan.Count(n, "CPI call")))
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
