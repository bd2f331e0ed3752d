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

// The descriptors that the parts of a VM inherit.
const (
	logFD   = 3 // log of the agent
	aliveFD = 4 // open as long as the VM is running
	saysFD  = 5 // for reporting the start of the process
	waitFD  = 6 // the process waits at it until everything is prepared
)

// started is the report of success; any other report is the reason for a failure.
const started = "started"

// buildTime is how long it may take until the agent of a VM is started.
const buildTime = time.Minute

// reportLimit is the largest size of a report.
const reportLimit = 4 << 10

// Start makes the VM and starts its agent, whose output goes to log. ended is closed when
// no process of the VM is left. The parts of the VM have env; the agent and the jobs do
// not.
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
		_, _ = alive.Read(make([]byte, 1)) // Read returns when the last process that has it open ends
		return nil
	}), nil
}

// layOut makes the files and folders of the VM that are needed as mount points.
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

// build runs the part "build" and waits for its end. The files in held stay open for the
// parts.
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
		cmd.SysProcAttr.UidMappings, cmd.SysProcAttr.GidMappings = nil, nil // giveIDs sets them
	}
	if err := cmd.Start(); err != nil {
		return refused("user namespaces", err)
	}
	_ = says.Close()
	if err := prepare(ctx, spec, cmd.Process.Pid, order); err != nil {
		cancel() // ctx kills it
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

// prepare sets the ids and limits of the first part's process, which waits for that.
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

// refused returns the error of starting a process in namespaces, with the likely cause.
func refused(what string, err error) error {
	for _, other := range []syscall.Errno{syscall.E2BIG, syscall.ENOMEM, syscall.EAGAIN, syscall.ENOENT, syscall.EACCES, syscall.EMFILE, syscall.ENFILE} {
		if errors.Is(err, other) {
			return fmt.Errorf("cannot start a process of the VM: %w", err)
		}
	}
	return fmt.Errorf("this machine refuses %s: %w", what, err)
}

// exited returns the error of waiting for a process if it was killed, and not if it only
// has an exit status.
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

// reported returns the error that a part of the VM reports.
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

// report reports how a part of the VM started.
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
	// Folders of other users may be above the VM's folder; the VM does not see them.
	others := syscall.SysProcIDMap{ContainerID: 1, HostID: 0, Size: systemIDs}
	attr.UidMappings, attr.GidMappings = append(attr.UidMappings, others), append(attr.GidMappings, others)
	attr.GidMappingsEnableSetgroups = true
	attr.Credential = &syscall.Credential{Uid: 0, Gid: 0} // id of the VM's owner in the new namespace
}

// isolateAgain gives a command nested namespaces, in which only the VM's owner and its
// users exist.
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

// nobodyElse is the user and group of VMs that root makes: nobody else has this id, and
// it has no rights outside of a VM's folder.
const nobodyElse = 1_999_999_999

// Owner returns the user and group that is root in the VM: this one, but never the
// machine's root.
func Owner() (uid, gid int) {
	if os.Getuid() == 0 {
		return nobodyElse, nobodyElse
	}
	return os.Getuid(), os.Getgid()
}

// GiveFile gives a file to the VM's root.
func GiveFile(name string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid := Owner()
	return os.Lchown(name, uid, gid)
}

// GiveTree gives a folder with everything in it to the VM's root, if that was not done
// yet.
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
	return GiveFile(dir) // last, because the owner of the folder shows that everything was given
}
