package deployer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
	"bootstrap/internal/listener"
	"bootstrap/manifest"
	"bootstrap/tunnel"
)

// checkMachine finds what on this machine would stop the deploy after the
// running VM was changed. checkCloud finds the same with the help of the CPI.
func (r *run) checkMachine(ctx context.Context) error {
	return errors.Join(r.machineProblems(ctx)...)
}

// machineProblems returns these problems, each a sentence with what to do.
func (r *run) machineProblems(ctx context.Context) []error {
	if !r.plan.Touches() {
		return nil
	}
	problems := []error{r.checkRoom()}
	if r.plan.NewVM() {
		vm := ""
		if r.facts.HasVM {
			vm = r.state.Get().CurrentVMCID
		}
		problems = append(problems, r.checkPorts(ctx, vm))
		if r.effectiveAPI() == 1 {
			problems = append(problems, r.checkTunnel())
		}
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// checkCloud finds what the CPI reports as missing, before the running VM is
// changed.
func (r *run) checkCloud(ctx context.Context) error {
	if err := r.connect(ctx); err != nil {
		return err
	}
	if r.registry != nil && r.plan.NewVM() {
		if err := r.checkTunnel(); err != nil {
			return err
		}
	}
	err := r.askCloud(ctx)
	var refused *cpi.Error
	if errors.As(err, &refused) {
		err = fmt.Errorf("%w; nothing was changed; correct cloud_provider.properties or the cause that the CPI names, then run `bootstrap deploy MANIFEST` again", err)
	}
	return err
}

func (r *run) askCloud(ctx context.Context) error {
	st := r.state.Get()
	if r.asksForVM() {
		if err := r.lookForVM(ctx, st.CurrentVMCID, false); err != nil {
			return err
		}
	}
	if d := st.Disk(); d != nil && !r.facts.DiskAsked {
		if err := r.lookForDisk(ctx, d); err != nil {
			return err
		}
		if r.facts.DiskGone {
			return &plan.DiskGoneError{CID: d.CID, Mounted: slices.Contains(r.facts.Mounted, d.CID)}
		}
	}
	return r.lookForStemcell(ctx)
}

// asksForVM reports whether the CPI is asked whether the running VM exists: a
// CPI with a wrong endpoint or wrong credentials then fails before anything is
// changed.
func (r *run) asksForVM() bool {
	return r.facts.Answers && r.plan.On(plan.VM) != plan.Create
}

// checkTunnel reads the tunnel's key, before the tunnel is needed.
func (r *run) checkTunnel() error {
	want := r.manifest.CPI.SSHTunnel
	if want == nil {
		return nil
	}
	if err := tunnel.CheckLogin(r.tunnelConfig(want)); err != nil {
		return fmt.Errorf("the SSH tunnel to the new VM could not log in: %w; nothing was changed", err)
	}
	return nil
}

func (r *run) tunnelConfig(want *manifest.SSHTunnel) tunnel.Config {
	return tunnel.Config{
		Host: want.Host, Port: want.Port, User: want.User, Password: want.Password, PrivateKey: want.PrivateKey,
		Passphrase:  r.opts.Getenv("BOOTSTRAP_SSH_PASSPHRASE"),
		AgentSocket: r.opts.Getenv("SSH_AUTH_SOCK"),
	}
}

// embeddedCPI reports whether the embedded CPI makes the VM on this machine.
func (r *run) embeddedCPI() bool {
	return slices.ContainsFunc(r.manifest.CPI.Templates, func(t manifest.JobRef) bool { return t.Name == "local_cpi" })
}

// checkPorts tries the addresses at which the agent of a new VM on this machine
// will listen. vm is the CID of the VM that the new one replaces, which may
// still use them; empty: there is none.
func (r *run) checkPorts(ctx context.Context, vm string) error {
	if !r.embeddedCPI() {
		return nil
	}
	var errs []error
	for _, p := range r.agentPorts() {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", p.address)
		if err == nil {
			_ = l.Close()
			continue
		}
		_, port, _ := net.SplitHostPort(p.address)
		by := listener.At(ctx, port)
		holder := ""
		if by.VM != "" {
			holder = filepath.Base(by.VM) // the folder of a VM is named by its CID
		}
		switch {
		case vm != "" && (by.PID == 0 || holder == vm):
		case r.state != nil && r.state.Get().Own.Swap != nil && holder == r.state.Get().Own.Swap.CID:
			errs = append(errs, fmt.Errorf("%s cannot listen at %s: VM %s uses that until VM %s has replaced it: finish the previous deploy with its cloud_provider.mbus, then run this one; nothing was changed", p.what, p.address, r.state.Get().Own.Swap.CID, vm))
		default:
			errs = append(errs, portTaken(by, p.address, p.what, p.remedy, err))
		}
	}
	return errors.Join(errs...)
}

// agentPort is an address at which the agent of a VM on this machine listens.
type agentPort struct {
	address, what, remedy string
}

// agentPorts lists the addresses at which the agent of a VM on this machine
// will listen, according to the CPI's properties. The CPI itself reports
// properties that are wrong.
func (r *run) agentPorts() []agentPort {
	property := func(name string) string {
		v, _ := plan.LookUp(r.manifest.CPI.Properties, name)
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	own, _ := r.manifest.Address()
	// The CPI replaces the wildcard address with the address of the VM.
	at := func(host, port string) string {
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = own
		}
		if host == "" || port == "" || port == "0" {
			return ""
		}
		return net.JoinHostPort(host, port)
	}
	ports := []agentPort{
		{what: "the agent of the new VM", remedy: "change the port in cloud_provider.mbus and cloud_provider.properties.agent.mbus"},
		{what: "the SSH server of the new VM", remedy: "change cloud_provider.properties.local_cpi.ssh.port and the port of the tunnel",
			address: at(property("local_cpi.ssh.address"), property("local_cpi.ssh.port"))},
	}
	if mbus, err := url.Parse(cmp.Or(property("local_cpi.agent.mbus"), property("agent.mbus"))); err == nil {
		ports[0].address = at(mbus.Hostname(), mbus.Port())
	}
	return slices.DeleteFunc(ports, func(p agentPort) bool { return p.address == "" })
}

// portTaken returns the error of an address that is in use, with the process
// that uses it.
func portTaken(by listener.Process, address, what, remedy string, err error) error {
	holder := "stop the program that listens there"
	switch {
	case by.VM != "":
		holder = by.String() + " uses the port: if that is the VM of this deployment, restore its state file (bootstrap state backups MANIFEST), else delete that VM or stop the process"
	case by.PID != 0:
		holder = by.String() + " uses the port: stop it"
	}
	return fmt.Errorf("%s cannot listen at %s: %w; %s, or %s; nothing was changed", what, address, err, holder, remedy)
}

// Free space without which a deploy would fail after it has stopped the running
// VM.
const (
	roomForState = 256 << 10 // the state file, written whole several times
	roomForRun   = 16 << 20  // replies of the CPI, logs, what was applied
	roomForTemp  = 1 << 20   // temporary files of the CPI's programs
)

// checkRoom checks that there is space for all that is written after the point
// of no return.
func (r *run) checkRoom() error {
	var errs []error
	for _, f := range []struct {
		dir, what string
		need      uint64
	}{
		{filepath.Dir(r.statePath), "the state file", roomForState},
		{r.opts.Home, "the folder of the deployment", roomForRun},
		{r.tempDir(), "temporary files", roomForTemp},
		{r.localRoot(), "the new VM", r.roomForVM()},
	} {
		dir := existing(f.dir)
		free, _, err := fileSystem(dir)
		if err == nil && free < f.need {
			errs = append(errs, fmt.Errorf("the file system of %s has %s free and %s needs %s: make room (bootstrap cache prune --all frees what can be fetched again); nothing was changed", dir, mebibytes(free), f.what, mebibytes(f.need)))
		}
	}
	return errors.Join(errs...)
}

// localRoot returns the folder of the VMs on this machine.
func (r *run) localRoot() string {
	root, _ := plan.LookUp(r.manifest.CPI.Properties, "local_cpi.root")
	if dir, _ := root.(string); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(r.opts.Home, "local")
}

// roomForVM returns how many bytes the packages of a VM on this machine take at
// least: they are stored as uploaded, compiled and installed.
func (r *run) roomForVM() uint64 {
	if r.delivery == nil || !r.plan.NewVM() || !r.embeddedCPI() {
		return 0
	}
	var sum uint64
	for _, up := range r.delivery.blobs {
		sum += 3 * sizeOf(up.path)
	}
	return sum
}

func mebibytes(n uint64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }

func sizeOf(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // reading it fails with a better error
	}
	return uint64(info.Size())
}
