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

// checkMachine finds what would stop the deploy on this machine after the VM
// that runs was touched. What needs the CPI is checkCloud's.
func (r *run) checkMachine(ctx context.Context) error {
	return errors.Join(r.machineProblems(ctx)...)
}

// machineProblems are the reasons, each a sentence with what to do.
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

// checkCloud finds what the CPI knows to be missing before the VM that runs is
// touched.
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
		err = fmt.Errorf("%w; nothing was changed: correct cloud_provider.properties, or what the CPI tells of, and run `bootstrap deploy MANIFEST` again", err)
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

// asksForVM tells whether the CPI is asked for the VM that runs: one that looks
// in the wrong place, or whose credentials are wrong, shows it now.
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

// embeddedCPI tells whether the VM is made on this machine, by the job of the CPI
// that is in this program.
func (r *run) embeddedCPI() bool {
	return slices.ContainsFunc(r.manifest.CPI.Templates, func(t manifest.JobRef) bool { return t.Name == "local_cpi" })
}

// checkPorts tries the addresses at which the agent of a new VM on this machine
// will listen. vm is the CID of the VM that makes way, which may have them until
// then; empty: there is none.
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
			errs = append(errs, fmt.Errorf("%s cannot listen at %s: VM %s, which VM %s replaces, has that until the deploy of before is finished: run it again with cloud_provider.mbus as it was, and then this one; nothing was changed", p.what, p.address, r.state.Get().Own.Swap.CID, vm))
		default:
			errs = append(errs, portTaken(by, p.address, p.what, p.remedy, err))
		}
	}
	return errors.Join(errs...)
}

// agentPort is where the agent of a VM on this machine listens.
type agentPort struct {
	address, what, remedy string
}

// agentPorts lists where the agent of a VM on this machine will listen, as far as
// that can be told from the CPI's properties; the CPI says what is wrong with them.
func (r *run) agentPorts() []agentPort {
	property := func(name string) string {
		v, _ := plan.LookUp(r.manifest.CPI.Properties, name)
		if v == nil {
			return ""
		}
		return fmt.Sprint(v)
	}
	own, _ := r.manifest.Address()
	// The CPI gives the agent the address of its VM in place of all addresses.
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

// portTaken words that an address cannot be listened at, with who has it.
func portTaken(by listener.Process, address, what, remedy string, err error) error {
	holder := "end what listens there"
	switch {
	case by.VM != "":
		holder = by.String() + " has the port: if that is this deployment's VM, bring back its state file (bootstrap state backups MANIFEST), else delete that VM or end the process"
	case by.PID != 0:
		holder = by.String() + " has the port: end it"
	}
	return fmt.Errorf("%s cannot listen at %s: %w; %s, or %s; nothing was changed", what, address, err, holder, remedy)
}

// Free space without which a deploy would end when the VM that runs is stopped.
const (
	roomForState = 256 << 10 // the state file, written whole several times
	roomForRun   = 16 << 20  // replies of the CPI, logs, what was applied
	roomForTemp  = 1 << 20   // what the CPI's programs put down for a moment
)

// checkRoom looks whether what is written after the point of no return has room.
func (r *run) checkRoom() error {
	var errs []error
	for _, f := range []struct {
		dir, what string
		need      uint64
	}{
		{filepath.Dir(r.statePath), "the state file", roomForState},
		{r.opts.Home, "the installation", roomForRun},
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

// localRoot is the folder of the VMs on this machine.
func (r *run) localRoot() string {
	root, _ := plan.LookUp(r.manifest.CPI.Properties, "local_cpi.root")
	if dir, _ := root.(string); filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(r.opts.Home, "local")
}

// roomForVM is what the packages of a VM on this machine will take, at least:
// they are there as uploaded, compiled and installed.
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
		return 0 // reading it will tell
	}
	return uint64(info.Size())
}
