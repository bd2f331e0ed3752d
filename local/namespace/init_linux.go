package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
	"bootstrap/local/network"
)

// How long the agent, and then the jobs, may take to end before they are killed, and the
// pauses before a crashed agent is started again.
const (
	agentGrace   = 2 * time.Second
	jobsGrace    = 2 * time.Second
	endPause     = 20 * time.Millisecond
	firstPause   = 250 * time.Millisecond
	longestPause = 15 * time.Second
)

// crashed is the exit code of a Go program that ended with a panic or a fatal error.
const crashed = 2

// restartsAfter reports whether an agent that ended with this status is started again. An
// agent that powered the VM off, or that cannot run, is not.
func restartsAfter(status syscall.WaitStatus) bool {
	return status.Signaled() || status.ExitStatus() == crashed || status.ExitStatus() == Interrupted
}

// runInit is the first process of a VM, in the namespaces that buildVM has made. It
// enters the root file system, runs the agent, and collects processes without a parent.
// It starts the agent again if the agent crashes or a process in the VM ends it. When ctx
// ends or the agent ends for good, it ends with all processes of the VM.
func runInit(ctx context.Context, spec Spec) error {
	i := &initProcess{spec: spec, log: os.NewFile(logFD, "log"), children: make(chan os.Signal, 1)}
	signal.Notify(i.children, syscall.SIGCHLD)
	defer signal.Stop(i.children)
	var serve func(context.Context)
	held, err := await()
	if err == nil {
		serve, err = connect(spec)
	}
	var logins *net.UnixListener
	if err == nil {
		logins, err = listenForLogins(spec)
	}
	if err == nil {
		i.booted, err = openBooted(spec)
	}
	if err == nil {
		err = enter(spec, held)
	}
	if err == nil {
		err = i.startFirst(held)
	}
	report(err)
	if err != nil {
		return err
	}
	guard.Go(ctx, func() { serve(ctx) })
	if err := i.awaitSystemd(ctx); err != nil {
		return err
	}
	guard.Go(ctx, func() { i.serveLogins(ctx, logins) })
	return i.run(ctx)
}

// startFirst starts the stemcell's systemd, if it is to boot the VM, or else the agent.
func (i *initProcess) startFirst(held Held) error {
	if i.spec.Systemd == nil {
		return i.startAgent()
	}
	if held.Cgroup == "" {
		return i.withoutSystemd("the VM has no cgroup of its own")
	}
	if err := i.startSystemd(); err != nil {
		return i.withoutSystemd(err.Error())
	}
	return nil
}

// connect makes the VM's own network, if it has one. Then serve hands out connections to
// it.
func connect(spec Spec) (serve func(context.Context), err error) {
	if spec.Network == nil {
		return func(context.Context) {}, nil
	}
	ends, err := network.Configure(spec.Network)
	if err != nil {
		return nil, err
	}
	// The path is relative, because the name of a socket must be short and the VM's
	// owner may have no access to the folders above.
	l, err := network.Listen("..")
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) { network.Serve(ctx, l, ends) }, nil
}

// enter makes the new root, which is the current folder, the only file system that this
// process can reach.
func enter(spec Spec, held Held) error {
	// A mount that was made outside of this namespace cannot become the root. A copy can,
	// in which all other mounts stay locked.
	if err := mount(".", ".", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Chdir("../" + rootDir); err != nil { // the copy is on top
		return err
	}
	if err := mount("proc", "proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("cannot enter the VM's root file system: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("cannot leave the machine's root file system: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	if held.Cgroup != "" {
		if err := showCgroup(); err != nil {
			return err
		}
	}
	if err := limitPIDs(held.PIDs); err != nil {
		return fmt.Errorf("cannot limit the number of processes: %w", err)
	}
	unix.Umask(0o022)
	if err := unix.Sethostname([]byte(spec.Hostname)); err != nil {
		return fmt.Errorf("cannot name the VM: %w", err)
	}
	return filterCalls()
}

// initProcess is the first process of a VM.
type initProcess struct {
	spec     Spec
	log      *os.File // process id of the agent
	agent    int
	began    time.Time // when the agent was started
	children chan os.Signal
	booted   *os.File     // for Booted; nil if Spec.Systemd is
	systemd  bool         // agent is the stemcell's systemd
	guest    atomic.Int64 // process id of systemd, for logins; 0: it does not run
}

func (i *initProcess) startAgent() error {
	argv := append([]string{GuestProgram}, i.spec.Args...)
	if len(i.spec.Boot) > 0 {
		argv = i.spec.Boot
	}
	agent, err := os.StartProcess(argv[0], argv, &os.ProcAttr{
		Dir:   "/",
		Env:   guestEnv(),
		Files: []*os.File{nil, i.log, i.log},
		Sys:   i.agentAttributes(),
	})
	if err != nil {
		return fmt.Errorf("cannot start the agent: %w", err)
	}
	i.agent, i.began = agent.Pid, time.Now()
	return agent.Release() // collect waits for its end, as for all processes
}

// agentAttributes returns the attributes of the agent's process. If vcap is a user, files
// of the agent belong to vcap's group, as the modes of folders and files expect.
func (i *initProcess) agentAttributes() *syscall.SysProcAttr {
	attr := &syscall.SysProcAttr{Setsid: true}
	if i.spec.Users.Many() && i.spec.Image == "" {
		attr.Credential = &syscall.Credential{Uid: RootID, Gid: VcapID}
	}
	return attr
}

// run collects processes until the agent ends for good or ctx ends.
func (i *initProcess) run(ctx context.Context) error {
	pauses := wait.Grow(firstPause, longestPause, 2) // a crashing agent writes to its log at every start
	for {
		status, ended := i.collect()
		switch {
		case ended && ctx.Err() == nil && (restartsAfter(status) || len(i.spec.Boot) > 0):
			fmt.Fprintf(i.log, "%s crashed or was killed, and is started again\n", i.firstProgram())
			if time.Since(i.began) > longestPause {
				pauses.Reset()
			}
			_ = wait.For(ctx, pauses.Next())
			if err := i.startAgain(ctx); err != nil {
				return err
			}
		case ended:
			i.end()
			return nil
		}
		select {
		case <-i.children:
		case <-ctx.Done():
			i.endAgent()
			i.end()
			return nil
		}
	}
}

// firstProgram returns the name of the first program, for the log.
func (i *initProcess) firstProgram() string {
	if i.systemd {
		return "the stemcell's systemd"
	}
	return "the agent"
}

// startAgain starts the first program after its end.
func (i *initProcess) startAgain(ctx context.Context) error {
	if !i.systemd {
		return i.startAgent()
	}
	if err := i.startSystemd(); err != nil {
		return i.withoutSystemd(err.Error())
	}
	return i.awaitSystemd(ctx)
}

// collect collects the processes that have ended, and reports whether the agent
// is one of them.
func (i *initProcess) collect() (agent syscall.WaitStatus, ended bool) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
			continue
		case err != nil || pid <= 0:
			return agent, ended
		case pid == i.agent:
			agent, ended = status, true
		}
	}
}

// endAgent asks the agent to end first, because it would start jobs again.
func (i *initProcess) endAgent() {
	signal, grace := syscall.SIGTERM, agentGrace
	if i.systemd {
		signal, grace = haltSignal, systemdGrace
	}
	_ = syscall.Kill(i.agent, signal)
	for until := time.Now().Add(grace); time.Now().Before(until); pause() {
		if _, ended := i.collect(); ended {
			return
		}
	}
	_ = syscall.Kill(i.agent, syscall.SIGKILL)
}

// end asks the jobs to end. The kernel kills the remaining ones when this process ends.
func (i *initProcess) end() {
	_ = syscall.Kill(-1, syscall.SIGTERM)
	for until := time.Now().Add(jobsGrace); time.Now().Before(until); pause() {
		i.collect()
		if errors.Is(syscall.Kill(-1, 0), syscall.ESRCH) {
			return
		}
	}
}

func pause() { _ = wait.For(context.Background(), endPause) }
