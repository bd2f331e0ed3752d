package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
	"bootstrap/local/cgroup"
)

// A VM that the stemcell's systemd boots has two first processes. That of this program
// serves the VM's network and logins, and starts systemd in namespaces of its own below the
// VM's: systemd is process 1 there, and the root of its cgroups is one of the VM's. If
// systemd does not start what it must, it is killed with all that it has started, and the VM
// runs Spec.Boot as if there were no systemd.

// haltSignal makes systemd stop all units and end (SIGRTMIN+3 of the C library).
const haltSignal = syscall.Signal(37)

// How long systemd may take to stop its units, and to end after the process that asks it.
const (
	systemdGrace = 4 * time.Second
	lastTime     = time.Second
)

// Paths inside of the VM.
const (
	cgroupPlace   = "/sys/fs/cgroup"
	systemdCgroup = cgroupPlace + "/systemd" // the root of the cgroups of systemd
	systemctl     = "/usr/bin/systemctl"
)

// openBooted opens the file for Booted, before the process enters the VM's root file system.
// Without systemd, the file stays if systemd failed earlier: the next start does not try it
// either.
func openBooted(spec Spec) (*os.File, error) {
	name := filepath.Join("..", InitFile)
	if spec.Systemd == nil {
		if failedBefore(name) {
			return nil, nil
		}
		if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
		return nil, nil
	}
	return os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
}

// failedBefore reports whether a file with Booted says why systemd does not run.
func failedBefore(name string) bool {
	f, err := os.Open(name)
	if err != nil {
		return false
	}
	defer f.Close()
	var booted Booted
	return json.NewDecoder(io.LimitReader(f, reportLimit)).Decode(&booted) == nil && booted.Reason != ""
}

// startSystemd starts the stemcell's systemd.
func (i *initProcess) startSystemd() error {
	says, writer, err := os.Pipe()
	if err != nil {
		return err
	}
	defer says.Close()
	defer writer.Close()
	// Only this view is shared with systemd: disks that are attached later appear there.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, ""); err != nil {
		return mountError("/", err)
	}
	_ = removeCgroups(systemdCgroup)                                                       // of a systemd that was killed
	if err := os.Mkdir(systemdCgroup, 0o755); err != nil && !errors.Is(err, os.ErrExist) { // #nosec G301 -- a cgroup, as all are
		return err
	}
	dir, err := os.Open(systemdCgroup)
	if err != nil {
		return err
	}
	defer dir.Close()
	process, err := os.StartProcess(GuestProgram, []string{GuestProgram, "plugin", "machine", "systemd", i.spec.Systemd.Program}, &os.ProcAttr{
		Dir:   "/",
		Env:   append(guestEnv(), "container=bootstrap"),
		Files: []*os.File{nil, i.log, i.log, i.log, nil, writer},
		Sys: &syscall.SysProcAttr{
			Setsid: true, Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS, UseCgroupFD: true, CgroupFD: int(dir.Fd()),
		},
	})
	if err != nil {
		return err
	}
	_ = writer.Close()
	i.agent, i.systemd, i.began = process.Pid, true, time.Now()
	_ = process.Release() // collect waits for its end, as for all processes
	// The pipe is closed when systemd runs.
	text, err := io.ReadAll(io.LimitReader(says, reportLimit))
	if err == nil && len(text) > 0 {
		err = errors.New(string(text))
	}
	if err == nil {
		i.guest.Store(int64(i.agent))
	}
	return err
}

// removeCgroups removes a cgroup without processes and all below it.
func removeCgroups(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if entry.IsDir() {
			_ = removeCgroups(filepath.Join(dir, entry.Name()))
		}
	}
	return unix.Rmdir(dir)
}

// runSystemd prepares the namespaces that startSystemd has made, and becomes systemd.
func runSystemd(program string) error {
	runtime.LockOSThread() // the thread that unshares becomes systemd
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return mountError("/", err)
	}
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return fmt.Errorf("cannot make a namespace of cgroups: %w", err)
	}
	if err := mount("proc", "/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return err
	}
	if err := showCgroup(); err != nil {
		return err
	}
	// bpm recognizes a VM with a cgroup of its own by this one, and logins are in it.
	if err := os.Mkdir(filepath.Join(cgroupPlace, cgroup.FirstDir), 0o755); err != nil { // #nosec G301 -- a cgroup, as all are
		return err
	}
	// systemd would cover a folder that is not a mount point.
	if err := mount("/run", "/run", "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return err
	}
	return syscall.Exec(program, []string{program, "--system", "--unit=multi-user.target"}, os.Environ()) // #nosec G204 -- the systemd of the stemcell
}

// inside runs a function that starts a process, on a thread in the namespaces of systemd if
// it runs.
func (i *initProcess) inside(ctx context.Context, start func() error) error {
	pid := int(i.guest.Load())
	if pid == 0 {
		return start()
	}
	return onThread(ctx, func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return err
		}
		var all []*os.File
		for _, name := range []string{"cgroup", "pid", "mnt"} {
			f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", name))
			if err != nil {
				return err
			}
			defer f.Close()
			all = append(all, f)
		}
		for _, f := range all {
			if err := unix.Setns(int(f.Fd()), 0); err != nil {
				return fmt.Errorf("cannot enter %s: %w", f.Name(), err)
			}
		}
		return start()
	})
}

// place moves a process that inside has started into the cgroups that systemd sees.
func (i *initProcess) place(pid int) {
	if i.guest.Load() == 0 {
		return
	}
	// Without it, the process only cannot use cgroups.
	_ = os.WriteFile(filepath.Join(cgroupPlace, cgroup.FirstDir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0) // #nosec G306 -- it exists
}

// awaitSystemd waits until the units that must be active are, and records the state of
// systemd. If they are not in time, Spec.Boot runs in its place.
func (i *initProcess) awaitSystemd(ctx context.Context) error {
	if !i.systemd {
		return nil
	}
	var late <-chan time.Time
	var booted Booted
	answer, err := i.ask(ctx)
	if err != nil {
		late, booted.Reason = time.After(lastTime), err.Error()
	}
	for {
		if status, ended := i.collect(); ended {
			i.agent = 0
			return i.withoutSystemd("it ended with " + describe(status))
		}
		select {
		case <-ctx.Done():
			return nil // the VM ends
		case <-i.children:
		case booted = <-answer:
			if booted.Systemd != "" {
				return i.record(booted)
			}
			// If systemd ends, the process that asks it ends first.
			late, answer = time.After(lastTime), nil
		case <-late:
			return i.withoutSystemd(booted.Reason)
		}
	}
}

// ask starts a process that asks systemd about its units. Only a process that systemd can
// see may do so.
func (i *initProcess) ask(ctx context.Context) (<-chan Booted, error) {
	units, err := json.Marshal(i.spec.Systemd.Units)
	if err != nil {
		return nil, err
	}
	says, writer, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer writer.Close()
	err = i.inside(ctx, func() error {
		process, err := os.StartProcess(GuestProgram, []string{GuestProgram, "plugin", "machine", "ask", string(units)}, &os.ProcAttr{
			Dir: "/", Env: guestEnv(), Files: []*os.File{nil, i.log, i.log, i.log, nil, writer},
		})
		if err != nil {
			return err
		}
		i.place(process.Pid)
		return process.Release()
	})
	if err != nil {
		_ = says.Close()
		return nil, err
	}
	answer := make(chan Booted, 1)
	guard.Go(ctx, func() {
		defer says.Close()
		var booted Booted
		if err := json.NewDecoder(io.LimitReader(says, reportLimit)).Decode(&booted); err != nil {
			booted.Reason = "the process that asks about its units has ended"
		}
		answer <- booted
	})
	return answer, nil
}

// describe returns how a process ended.
func describe(status syscall.WaitStatus) string {
	if status.Signaled() {
		return "the signal " + status.Signal().String()
	}
	return "status " + strconv.Itoa(status.ExitStatus())
}

// withoutSystemd ends systemd and starts the command that boots the VM without it.
func (i *initProcess) withoutSystemd(reason string) error {
	i.guest.Store(0)
	if i.systemd && i.agent != 0 {
		_ = syscall.Kill(i.agent, syscall.SIGKILL) // with all processes of its namespace
		for _, ended := i.collect(); !ended; _, ended = i.collect() {
			pause()
		}
	}
	i.systemd = false
	fmt.Fprintf(i.log, "the stemcell's systemd does not run: %s\n", reason)
	return errors.Join(mount(ReplacedSystemctl, systemctl, "", unix.MS_BIND, ""), i.record(Booted{Reason: reason}), i.startAgent())
}
