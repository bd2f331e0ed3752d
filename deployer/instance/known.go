package instance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/google/uuid"

	"bootstrap/cpi/installation"
	"bootstrap/deployer/health"
	"bootstrap/deployer/kept"
	"bootstrap/internal/listener"
	"bootstrap/manifest"
	"bootstrap/state"
)

// UseManifest makes m the manifest of the deployment. If no addresses are chosen, the
// agent is reached at the one that the last deploy recorded.
func (in *Inputs) UseManifest(m *manifest.Manifest) {
	in.Manifest, in.About = m, aboutManifest(m.Reached(in.address))
	if in.EmbeddedCPI() {
		in.About.Local = in.localRoot()
	}
	if in.From.WatchTime != nil {
		in.About.WatchTime = *in.From.WatchTime
	}
}

// UseInstallation uses this machine's record of the deployment with the state.
func (t *Instance) UseInstallation(ctx context.Context, st state.State) error {
	t.Dir = filepath.Join(t.Env.Home, st.InstallationID)
	if err := t.Shared.fetch(ctx); err != nil {
		return err
	}
	t.recallKnown(ctx)
	t.vm = st.CurrentVMCID
	t.address, _ = netip.ParseAddr(st.Own.Address) // empty: unknown
	if t.read != nil {
		t.read.UseManifest(t.read.Manifest)
	}
	return nil
}

// FindInstallation reads this machine's record for a command that does not need the
// manifest. It reads the manifest if the record is not enough, or if the command line has
// operations or variables and the manifest has its cloud config, if it needs one.
func (t *Instance) FindInstallation(ctx context.Context) error {
	given := t.From.Inputs
	asked := !t.From.Usual && !t.From.isFormer() && (len(given.Ops)+len(given.Vars)+len(given.VarFiles)+len(given.VarsFiles)+len(given.VarsEnv)+len(given.VarSources) > 0 || given.VarsStore != "" && given.SaveStore == nil)
	if asked && t.Known.Name != "" && manifest.LacksCloudConfig(ctx, t.From.Manifest, given) {
		t.Out.Info("The operations and variables are not used: they belong to a manifest that cannot be read without --cloud-config")
		asked = false
	}
	if asked || t.Known.Name == "" {
		if t.From.Manifest == "" {
			return errors.New("this machine does not know the deployment: name its manifest, too")
		}
		in, err := t.readRecorded(ctx)
		if err != nil || !in.Apart || t.Known.Name == "" {
			return err
		}
	}
	k := t.Known
	if k.MBusURL() == nil {
		return errors.New("this machine's record of the deployment is damaged: installation.json contains no valid mbus URL; give the manifest's operations and variables as for deploy")
	}
	t.About = k
	t.Env.Secret(k.MBus)
	if len(k.Sealed) > 0 && len(k.Secrets) == 0 {
		t.Out.Warning("the values of the encrypted vars store are not hidden in the output of this command: no identity can decrypt them without a question")
	}
	if Exists(k.CPI) && !asked {
		t.CPI.Build = &installation.Installation{Path: k.CPI, JobsDir: k.Jobs, PackagesDir: k.Packages}
		t.Out.Info(fmt.Sprintf("Using the CPI and the settings of the last deploy of '%s' (the manifest is not read)", k.Name))
	}
	return nil
}

// InstanceID returns the id of the instance of a group. All templates and deploys use the
// same.
func (rec *Record) InstanceID(group string) string {
	if rec.From.Of != nil {
		return rec.From.Of.Instance.ID
	}
	return onlyID(rec.Installation, group)
}

// onlyID returns the id of the instance of a deployment that has only one.
func onlyID(installation uuid.UUID, group string) string {
	return uuid.NewSHA1(installation, []byte(group+"/0")).String()
}

// OnlyID returns the id of the only instance of a deployment, from the installation id in
// its state.
func OnlyID(installation, group string) (string, error) {
	id, err := uuid.Parse(installation)
	if err != nil {
		return "", fmt.Errorf("the state has no valid installation id: %w", err)
	}
	return onlyID(id, group), nil
}

// Folder returns this machine's folder of the deployment.
func (rec *Record) Folder() kept.Folder { return kept.At(rec.Dir) }

// HealthFrom says from where the health checks of the instance at the address run.
func (a *Agents) HealthFrom(address string) health.From {
	from := health.From{Address: address, Dial: a.rec.dialService(), Env: a.rec.Env.checkEnv()}
	if a.rec.About.Manifest != "" {
		from.Dir = filepath.Dir(a.rec.About.Manifest)
	}
	return from
}

// SayAddress reports the address of the instance, and the URL of its service: from a
// health check or, if look is true, the open ports of an embedded VM. An empty address is
// not reported.
func (t *Instance) SayAddress(ctx context.Context, address string, look bool) {
	if address == "" {
		return
	}
	text := fmt.Sprintf("Instance '%s' is running at %s", t.About.Instance(), address)
	if u := t.serviceURL(address); u != "" {
		t.Out.Info(text + ": " + u)
		return
	}
	var ports []string
	if look && t.About.Local != "" {
		mbus, _ := url.Parse(t.About.MBus)
		for _, port := range listener.PortsOf(ctx, t.State.Get().CurrentVMCID) {
			if mbus == nil || mbus.Port() != strconv.Itoa(port) {
				ports = append(ports, strconv.Itoa(port))
			}
		}
	}
	switch n := len(ports); {
	case n == 1:
		text += ", port " + ports[0]
	case n > mostPorts:
		text += fmt.Sprintf(", ports %s and %d more", strings.Join(ports[:mostPorts], ", "), n-mostPorts)
	case n > 1:
		text += ", ports " + strings.Join(ports, ", ")
	}
	t.Out.Info(text)
}

// mostPorts is the largest number of open ports that a message lists.
const mostPorts = 6

// serviceURL returns the first URL of a health check, with the address; empty: no check
// has a URL.
func (req *Request) serviceURL(address string) string {
	for _, c := range req.About.Health {
		if c.HTTP == "" {
			continue
		}
		u, err := url.Parse(c.HTTP)
		if err != nil {
			return ""
		}
		if u.Hostname() == "" && u.Port() != "" {
			u.Host = net.JoinHostPort(address, u.Port())
		} else if u.Hostname() == "" {
			u.Host = address
		}
		return u.Redacted()
	}
	return ""
}

func (rec *Record) currentStemcell() *state.Stemcell {
	st := rec.State.Get()
	return st.Stemcell()
}

// Remember records the settings of this deploy for commands that do not read the
// manifest.
func (c *CPI) Remember(ctx context.Context) error {
	m := c.artifacts.Manifest
	k := aboutManifest(m)
	k.Local = c.rec.About.Local
	k.API, k.StemcellAPI = c.rec.Known.API, c.artifacts.Stemcell.APIVersion
	k.CPI, k.Packages, k.Jobs = c.rec.Known.CPI, c.rec.Known.Packages, c.rec.Known.Jobs
	if c.Build != nil {
		k.CPI, k.Packages, k.Jobs = c.Build.Path, c.Build.PackagesDir, c.Build.JobsDir
		if c.served != nil {
			k.Registry = c.served
		} else if c.rec.Known.Registry != nil {
			k.Registry = c.rec.Known.Registry
		}
	}
	if c.api > 0 {
		k.API = c.api
	}
	k.Database, k.OldDatabases = c.rec.Known.Database, c.rec.Known.OldDatabases
	if m.SharesNetworks() {
		k.Database, k.OldDatabases = c.ledgers.LedgerAddress(), c.ledgers.OldLedgers()
	}
	secrets, err := c.rec.rememberSecrets(ctx, m, &k)
	if err == nil {
		err = c.rec.Folder().SetDeployment(k)
	}
	if err != nil {
		return fmt.Errorf("cannot write this machine's record of the deployment: %w", err)
	}
	k.Secrets = secrets
	c.rec.Known = k
	return nil
}

// recallKnown reads this machine's record of the deployment. A missing or unreadable
// record counts as empty.
func (rec *Record) recallKnown(ctx context.Context) {
	known, ok := rec.Folder().Deployment()
	if !ok {
		return
	}
	rec.recallSecrets(ctx, &known)
	rec.Known = known
	rec.Env.Secret(known.Secrets...)
	rec.Env.publish(known.Name, known.Group)
}

// aboutManifest returns the settings of the manifest that other commands need.
func aboutManifest(m *manifest.Manifest) kept.Deployment {
	return kept.Deployment{
		Manifest: m.Path, Name: m.Name, Group: m.Group.Name, Index: m.Index(),
		MBus: m.CPI.MBus, CA: m.CPI.CA,
		WatchTime: m.Update.WatchTime, CrashLoops: m.Update.CrashLoops, Protect: m.Protect, UseDNS: m.UseDNS, Tags: m.Tags,
		Registry: m.CPI.Registry, Health: m.Group.Health,
	}
}

// Exists reports whether a file or folder exists.
func Exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// maxSecrets limits the number of recorded secrets.
const maxSecrets = 1000
