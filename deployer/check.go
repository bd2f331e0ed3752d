package deployer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

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
	if r.plan.Nothing() {
		return nil
	}
	problems := []error{r.checkRoom()}
	if r.plan.newVM() {
		problems = append(problems, r.checkPorts(ctx))
		if r.effectiveAPI() == 1 {
			problems = append(problems, r.checkTunnel())
		}
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// checkCloud finds what the CPI knows to be missing before the VM that runs is
// touched.
func (r *run) checkCloud(ctx context.Context) error {
	if r.registry != nil && r.plan.newVM() {
		if err := r.checkTunnel(); err != nil {
			return err
		}
	}
	st := r.state.Get()
	if r.asksForVM() {
		if err := r.lookForVM(ctx, st.CurrentVMCID); err != nil {
			return err
		}
	}
	if d := st.Disk(); d != nil && !r.facts.diskSeen {
		if err := r.lookForDisk(ctx, d); err != nil {
			return err
		}
		if r.facts.diskGone {
			return &DiskGoneError{CID: d.CID}
		}
	}
	return r.lookForStemcell(ctx)
}

// checksCloud tells whether the plan does what the CPI could refuse when the
// jobs are stopped.
func (r *run) checksCloud() bool { return r.plan.newVM() || r.plan.diskWork() }

// asksForVM tells whether the CPI is asked for the VM that runs: one that looks
// in the wrong place, or whose credentials are wrong, shows it now.
func (r *run) asksForVM() bool {
	return r.facts.agentTold && r.plan.on(aVM) != create
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

// checkPorts tries the address at which the agent of a VM on this machine will
// listen. The VM that makes way may have it until then.
func (r *run) checkPorts(ctx context.Context) error {
	if !r.embeddedCPI() {
		return nil
	}
	text, _ := lookUp(r.manifest.CPI.Properties, "agent.mbus")
	mbus, _ := text.(string)
	at, err := url.Parse(mbus)
	if err != nil || at.Port() == "" {
		return nil // the CPI says what is wrong with it
	}
	if ip := net.ParseIP(at.Hostname()); ip != nil && ip.IsUnspecified() {
		address, _ := r.manifest.Address() // the CPI gives the agent that of the VM
		at.Host = net.JoinHostPort(address, at.Port())
		if address == "" {
			return nil
		}
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", at.Host)
	if err == nil {
		return l.Close()
	}
	by := listenerAt(at.Port())
	if cid := r.state.Get().CurrentVMCID; cid != "" && r.facts.hasVM && (by == "" || strings.HasSuffix(by, cid+")")) {
		return nil
	}
	return portTaken(at.Host, "the agent of the new VM", "change the port in cloud_provider.mbus and cloud_provider.properties.agent.mbus", err)
}

// portTaken words that an address cannot be listened at, with who has it.
func portTaken(address, what, remedy string, err error) error {
	_, port, _ := net.SplitHostPort(address)
	holder := "end what listens there"
	switch by := listenerAt(port); {
	case strings.Contains(by, " plugin agent "):
		holder = by + ", the agent of a VM on this machine, has the port: if that is this deployment's VM, bring back its state file (bootstrap state restore), else delete that VM or end the process"
	case by != "":
		holder = by + " has the port: end it"
	}
	return fmt.Errorf("%s cannot listen at %s: %w; %s, or %s; nothing was changed", what, address, err, holder, remedy)
}

// Free space without which a deploy would end when the VM that runs is stopped.
const (
	roomForState = 256 << 10 // the state file, written whole several times
	roomForRun   = 16 << 20  // replies of the CPI, logs, what was applied
)

// checkRoom looks whether what is written after the point of no return has room.
func (r *run) checkRoom() error {
	var errs []error
	for _, f := range []struct {
		dir, what string
		need      uint64
	}{
		{filepath.Dir(r.statePath), "the state file", roomForState},
		{r.opts.Home, "the installation", roomForRun + r.roomForVM()},
	} {
		dir := existing(f.dir)
		free, _, err := fileSystem(dir)
		if err == nil && free < f.need {
			errs = append(errs, fmt.Errorf("the file system of %s has %s free and %s needs %s: make room (bootstrap cache prune --all frees what can be fetched again); nothing was changed", dir, mebibytes(free), f.what, mebibytes(f.need)))
		}
	}
	return errors.Join(errs...)
}

// roomForVM is what the packages of a VM on this machine will take, at least:
// they are there as uploaded, compiled and installed.
func (r *run) roomForVM() uint64 {
	if r.delivery == nil || !r.plan.newVM() || !r.embeddedCPI() {
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
