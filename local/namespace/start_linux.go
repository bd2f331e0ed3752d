package namespace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/process"
)

// The descriptors that the processes of the machine inherit.
const (
	logFD   = 3 // of the agent
	aliveFD = 4 // open as long as the VM runs
	saysFD  = 5 // where the process reports how it started
	waitFD  = 6 // where the process waits until everything is prepared
)

// started is the report of success; any other is the reason for a failure.
const started = "started"

// buildTime is how long it may take until the agent of a VM is started.
const buildTime = time.Minute

// reportLimit is the largest size of a report.
const reportLimit = 4 << 10

// Start makes the machine and starts its agent, whose output goes to log. ended
// is closed when no process of the VM is left. The processes that make up the
// machine have env; the agent and the jobs do not.
func Start(ctx context.Context, spec Spec, env []string, log *os.File) (ended <-chan error, err error) {
	if err := layOut(spec); err != nil {
		return nil, err
	}
	spec.Shares, spec.Person = sharesOf(), os.Getuid() != 0
	text, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	alive, held, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	if err := build(ctx, spec, string(text), env, log, held); err != nil {
		_ = alive.Close()
		return nil, err
	}
	return guard.Start(context.WithoutCancel(ctx), func() error {
		defer alive.Close()
		_, _ = alive.Read(make([]byte, 1)) // returns when the last holder has ended
		return nil
	}), nil
}

// layOut makes the files and folders of the VM that mounts need.
func layOut(spec Spec) error {
	for _, name := range []string{rootDir, layersDir, disksDir} {
		name = filepath.Join(spec.Dir, name)
		if err := os.MkdirAll(name, 0o700); err != nil {
			return err
		}
		if err := GiveFile(name); err != nil {
			return err
		}
	}
	given := []string{spec.Dir, spec.Disks}
	if spec.Image == "" {
		given = append(given, filepath.Join(spec.Dir, vcapDir))
	}
	for _, name := range given {
		if err := GiveFile(name); err != nil {
			return err
		}
	}
	for _, name := range append([]string{programFile}, spec.Files...) {
		name = filepath.Join(spec.Dir, name)
		f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := errors.Join(f.Close(), GiveFile(name)); err != nil {
			return err
		}
	}
	return nil
}

// build runs the first part and waits for its end. The parts keep the files in held
// open.
func build(ctx context.Context, spec Spec, arg string, env []string, log, held *os.File) error {
	defer held.Close()
	report, says, err := os.Pipe()
	if err != nil {
		return err
	}
	defer report.Close()
	defer says.Close()
	orders, order, err := os.Pipe()
	if err != nil {
		return err
	}
	defer orders.Close()
	defer order.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, buildTime, fmt.Errorf("it took longer than %s", buildTime))
	defer cancel()
	cmd := exec.CommandContext(ctx, spec.Program, "plugin", "machine", "build", arg) // #nosec G204 -- this program
	cmd.Dir, cmd.Env = spec.Dir, env
	cmd.ExtraFiles = []*os.File{log, held, says, orders}
	for _, d := range spec.Mounted {
		cmd.ExtraFiles = append(cmd.ExtraFiles, d.Mount)
	}
	process.OwnSession(cmd)
	isolate(cmd, syscall.CLONE_NEWUSER|syscall.CLONE_NEWNS)
	if spec.Users.Many() {
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = nil, nil // giveIDs makes them
	}
	if err := cmd.Start(); err != nil {
		return refused("user namespaces", err)
	}
	_ = says.Close()
	if err := prepare(ctx, spec, cmd.Process.Pid, order); err != nil {
		cancel() // which kills it
		return errors.Join(err, exited(cmd.Wait()))
	}
	err = reported(report)
	if failed := cmd.Wait(); ctx.Err() != nil {
		return context.Cause(ctx)
	} else if err == nil {
		err = failed
	}
	return err
}

// prepare sets up the ids and limits of the first part's process, which waits for that.
func prepare(ctx context.Context, spec Spec, pid int, order io.WriteCloser) (err error) {
	var held Held
	if spec.Users.Many() {
		if err := spec.Users.giveIDs(ctx, pid, order); err != nil {
			return err
		}
	}
	if spec.Hold != nil {
		if held, err = spec.Hold(ctx, pid); err != nil {
			return err
		}
	}
	return errors.Join(json.NewEncoder(order).Encode(held), order.Close())
}

// refused returns the error of starting a process in namespaces. Some errors have other
// causes.
func refused(what string, err error) error {
	for _, other := range []syscall.Errno{syscall.E2BIG, syscall.ENOMEM, syscall.EAGAIN, syscall.ENOENT, syscall.EACCES, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, other) {
			return fmt.Errorf("cannot start a process of the VM: %w", err)
		}
	}
	return fmt.Errorf("this machine refuses %s: %w", what, err)
}

// exited returns the error of waiting for a process that was killed, unless it is only
// its exit status.
func exited(err error) error {
	var status *exec.ExitError
	if errors.As(err, &status) {
		return nil
	}
	return err
}

// await waits until prepare has set up the process.
func await() (Held, error) {
	var held Held
	from := os.NewFile(waitFD, "orders")
	defer from.Close()
	if err := json.NewDecoder(from).Decode(&held); err != nil {
		return held, errors.New("the process that starts the VM has ended")
	}
	return held, nil
}

// reported returns the error that a part of the machine reports.
func reported(report io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(report, reportLimit))
	switch {
	case err != nil:
		return err
	case len(text) == 0:
		return errors.New("a process of the VM ended at once")
	case string(text) != started:
		return errors.New(string(text))
	}
	return nil
}

// report reports how a part of the machine started.
func report(err error) {
	says := os.NewFile(saysFD, "report")
	text := started
	if err != nil {
		text = err.Error()
	}
	_, _ = io.WriteString(says, text)
	_ = says.Close()
}

// isolate gives a command its own namespaces, in which the VM's owner is root.
func isolate(cmd *exec.Cmd, flags uintptr) {
	attr := cmd.SysProcAttr
	if attr == nil {
		attr = &syscall.SysProcAttr{}
		cmd.SysProcAttr = attr
	}
	attr.Cloneflags = flags
	uid, gid := Owner()
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: uid, Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: gid, Size: 1}}
	if os.Getuid() != 0 {
		return
	}
	// Folders of other users are above the VM's folder. The VM itself does not see
	// them.
	others := syscall.SysProcIDMap{ContainerID: 1, HostID: 0, Size: systemIDs}
	attr.UidMappings, attr.GidMappings = append(attr.UidMappings, others), append(attr.GidMappings, others)
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: 0, Gid: 0} // the ids in the new namespace: the VM's owner
}

// isolateAgain gives a command namespaces inside of those of this process, in which
// only the VM's owner and its users exist.
func isolateAgain(cmd *exec.Cmd, flags uintptr, users Users) {
	only := func(others Range) []syscall.SysProcIDMap {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: 0, Size: 1}}
		if others.Count > 0 { // with the same ids as in the namespaces of this process
			ids = append(ids, syscall.SysProcIDMap{ContainerID: 1, HostID: 1, Size: others.Count})
		}
		return ids
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: flags, UidMappings: only(users.UIDs), GidMappings: only(users.GIDs), GidMappingsEnableSetgroups: users.Many(),
	}
}

// systemIDs is the number of users and groups of a machine.
const systemIDs = 1 << 16

// nobodyElse is the user and group of the VMs that root makes: nobody else has it, and
// it has no rights outside of a VM's folder.
const nobodyElse = 1_999_999_999

// Owner returns the user and group that is root in the VM: this one, but never
// the machine's root.
func Owner() (uid, gid int) {
	if os.Getuid() == 0 {
		return nobodyElse, nobodyElse
	}
	return os.Getuid(), os.Getgid()
}

// GiveFile makes a file the VM's own.
func GiveFile(name string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := Owner()
	return os.Lchown(name, uid, gid)
}

// GiveTree makes a folder with everything in it the VM's own, if it is not yet.
func GiveTree(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil || os.Getuid() != 0 {
		return err
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok && stat.Uid == nobodyElse {
		return nil
	}
	err = filepath.WalkDir(dir, func(name string, _ fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		return GiveFile(name)
	})
	if err != nil {
		return err
	}
	return GiveFile(dir) // last, because its owner shows that everything was given
}
