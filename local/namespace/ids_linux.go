package namespace

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
	"bootstrap/internal/process"
	"bootstrap/internal/removal"
)

// leastUsers is the least number of users that a VM needs; the highest id belongs to
// nobody.
const leastUsers = 65534

// treeTime limits one call of Tree.
const treeTime = time.Hour

// FindUsers returns the subordinate ids of this user; the error says why it can use none.
// The machine's root has none: its VMs belong to an unprivileged user.
func FindUsers() (Users, error) {
	var u Users
	if os.Getuid() == 0 {
		return u, errors.New("root has no subordinate ids")
	}
	for _, name := range []string{"newuidmap", "newgidmap"} {
		if _, err := mapper(name); err != nil {
			return u, fmt.Errorf("the program %s is not installed (Debian: the package uidmap)", name)
		}
	}
	if _, err := os.Stat("/usr/bin/setpriv"); err != nil {
		return u, errors.New("the program setpriv is not installed")
	}
	name := ""
	if who, err := user.LookupId(strconv.Itoa(os.Getuid())); err == nil {
		name = who.Username
	}
	for _, of := range []struct {
		file string
		ids  *Range
	}{{"/etc/subuid", &u.UIDs}, {"/etc/subgid", &u.GIDs}} {
		text, err := os.ReadFile(of.file)
		if err != nil {
			return Users{}, fmt.Errorf("cannot read the subordinate ids: %w", err)
		}
		if *of.ids = subordinate(string(text), name); of.ids.Count == 0 {
			return Users{}, fmt.Errorf("%s gives %s fewer than %d ids (sudo usermod --add-subuids 100000-165535 --add-subgids 100000-165535 %s)", of.file, name, leastUsers, name)
		}
	}
	return u, nil
}

// subordinate returns the first range of a user, by name or id, that is large enough.
func subordinate(text, name string) Range {
	for line := range strings.Lines(text) {
		fields := strings.Split(strings.TrimSpace(line), ":")
		if len(fields) != 3 || fields[0] == "" || fields[0] != name && fields[0] != strconv.Itoa(os.Getuid()) {
			continue
		}
		first, err := strconv.Atoi(fields[1])
		count, failed := strconv.Atoi(fields[2])
		if err == nil && failed == nil && count >= leastUsers {
			return Range{First: first, Count: min(count, systemIDs-1)}
		}
	}
	return Range{}
}

// mapper finds a program that gives a process subordinate ids.
func mapper(name string) (string, error) {
	if path, err := exec.LookPath("/usr/bin/" + name); err == nil {
		return path, nil
	}
	return exec.LookPath(name)
}

// giveIDs sets the ids of a process in a new user namespace, and lets it continue: this
// user becomes root, and the subordinate ids become the other users.
func (u Users) giveIDs(ctx context.Context, pid int, order io.Writer) error {
	for _, of := range []struct {
		program string
		own     int
		ids     Range
	}{{"newuidmap", os.Getuid(), u.UIDs}, {"newgidmap", os.Getgid(), u.GIDs}} {
		path, err := mapper(of.program)
		if err != nil {
			return err
		}
		args := []int{pid, 0, of.own, 1, 1, of.ids.First, of.ids.Count}
		texts := make([]string, len(args))
		for i, n := range args {
			texts[i] = strconv.Itoa(n)
		}
		cmd := exec.CommandContext(ctx, path, texts...) // #nosec G204 -- newuidmap or newgidmap of this machine
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s refuses the VM's users: %w: %s", of.program, err, strings.TrimSpace(string(output)))
		}
	}
	_, err := order.Write([]byte{1})
	return err
}

// becomeRoot waits until giveIDs was called for this process, and then executes this
// program again: only a process that starts as root has root's rights.
func becomeRoot() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var rights [2]unix.CapUserData
	if err := unix.Capget(&header, &rights[0]); err != nil || rights[0].Effective&(1<<unix.CAP_SYS_ADMIN) != 0 {
		return err
	}
	if n, err := syscall.Read(waitFD, make([]byte, 1)); err != nil || n == 0 {
		return errors.New("the process that starts the VM has ended")
	}
	if os.Getuid() != 0 {
		return errors.New("the process did not get the VM's users")
	}
	return syscall.Exec("/proc/self/exe", os.Args, os.Environ()) // #nosec G204 -- this program, or a program of the system with paths of ours
}

// The operations of Tree.
const (
	removeTree   = "remove"
	copyTree     = "copy"
	giveTree     = "give"
	exchangeTree = "exchange"
)

// tree runs one of these operations with the rights of root in a VM with these users.
func (u Users) tree(ctx context.Context, program string, args ...string) error {
	ctx, cancel := context.WithTimeout(ctx, treeTime)
	defer cancel()
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
	cmd := exec.CommandContext(ctx, program, append([]string{"plugin", "machine", "tree"}, args...)...) // #nosec G204 -- this program, or a program of the system with paths of ours
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.ExtraFiles = []*os.File{says, says, says, orders}
	process.OwnGroup(cmd)
	cmd.SysProcAttr.Cloneflags = syscall.CLONE_NEWUSER
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = says.Close()
	if err := u.giveIDs(ctx, cmd.Process.Pid, order); err != nil {
		_ = order.Close()
		return errors.Join(err, exited(cmd.Wait()))
	}
	err = reported(report)
	return errors.Join(err, exited(cmd.Wait()))
}

// Remove removes a folder with files of these users.
func (u Users) Remove(ctx context.Context, program, dir string) error {
	return u.tree(ctx, program, removeTree, dir)
}

// Copy copies a folder with files of these users to a new one.
func (u Users) Copy(ctx context.Context, program, from, to string) error {
	return u.tree(ctx, program, copyTree, from, to)
}

// Give gives everything in a folder to a user and a group of the VM; the folder itself
// belongs to root in the VM.
func (u Users) Give(ctx context.Context, program, dir string, id int) error {
	return u.tree(ctx, program, giveTree, dir, strconv.Itoa(id))
}

// Exchange exchanges the names of two files or folders in one step.
func (u Users) Exchange(ctx context.Context, program, a, b string) error {
	return u.tree(ctx, program, exchangeTree, a, b)
}

// doTree carries out an operation for tree.
func doTree(ctx context.Context, args []string) error {
	// This process and its children form a group of their own. They end with the call
	// that has started them, because they must not run at the same time as the next call.
	guard.Go(ctx, func() {
		_, _ = syscall.Read(waitFD, make([]byte, 1))
		_ = syscall.Kill(0, syscall.SIGKILL)
	})
	switch {
	case len(args) == 2 && args[0] == removeTree:
		return removal.Tree(args[1])
	case len(args) == 3 && args[0] == copyTree:
		cmd := exec.CommandContext(ctx, "cp", "-a", args[1], args[2]) // #nosec G204 -- no shell reads the paths
		if output, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%w: %s", err, output)
		}
		return nil
	case len(args) == 3 && args[0] == exchangeTree:
		return Exchange(args[1], args[2])
	case len(args) == 3 && args[0] == giveTree:
		id, err := strconv.Atoi(args[2])
		if err != nil {
			return err
		}
		return give(args[1], id)
	}
	return fmt.Errorf("cannot do %q with a folder", args)
}

// give gives a folder to root, and everything in it to a user and its group. It restores
// modes, because a change of the owner clears some bits.
func give(dir string, id int) error {
	if err := os.Lchown(dir, RootID, RootID); err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(name string, entry os.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		if err := os.Lchown(name, id, id); err != nil {
			return err
		}
		if mode := info.Mode(); mode.IsRegular() && mode&(os.ModeSetuid|os.ModeSetgid) != 0 {
			return os.Chmod(name, mode)
		}
		return nil
	})
}
