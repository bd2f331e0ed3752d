package cgroup

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/wait"
)

// Time limits for systemd to make a cgroup, and for the processes of a cgroup to end.
const (
	makeTime   = 10 * time.Second
	removeTime = 30 * time.Second
	pause      = time.Millisecond
)

// period is the interval in which the use of CPU is limited, in microseconds.
const period = 100_000

// Hold makes the cgroup of a VM with limits, and moves a process, which must have no
// children yet, to its InnerDir. All cgroups below belong to the user and group. It
// returns the path of the VM's cgroup.
func (h Home) Hold(ctx context.Context, vm string, pid int, limits Limits, uid, gid int) (dir string, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, makeTime, fmt.Errorf("it took longer than %s", makeTime))
	defer cancel()
	name := nameOf(vm, strconv.FormatInt(time.Now().UnixNano(), 36))
	if len(h.buses) > 0 {
		dir, err = h.makeScope(ctx, name+".scope", pid, limits)
	} else {
		dir, err = h.makeFolder(name, limits)
	}
	if err != nil {
		return "", fmt.Errorf("cannot make the cgroup of the VM: %w", err)
	}
	if err := h.divide(dir, pid, uid, gid); err != nil {
		return dir, fmt.Errorf("cannot divide the cgroup of the VM: %w", err)
	}
	return dir, check(dir, limits)
}

// parentDir is the parent of VMs' cgroups that are made without systemd.
const parentDir = "bootstrap"

// makeFolder makes a cgroup without systemd.
func (h Home) makeFolder(name string, limits Limits) (string, error) {
	_ = control(filepath.Join(h.mount, h.dir)) // after an error, the function check reports which limits are missing
	parent := filepath.Join(h.mount, h.dir, parentDir)
	dir := filepath.Join(parent, name)
	made := func() error {
		if err := os.Mkdir(parent, 0o755); err != nil && !errors.Is(err, fs.ErrExist) { // #nosec G301 -- a cgroup, as all are
			return err
		}
		return errors.Join(control(parent), os.Mkdir(dir, 0o755)) // #nosec G301 -- a cgroup, as all are
	}
	err := made()
	if errors.Is(err, fs.ErrNotExist) { // another call has removed it with the last VM
		err = made()
	}
	if err != nil {
		return "", err
	}
	for file, value := range files(limits) {
		if err := write(dir, file, value); err != nil {
			return dir, err
		}
	}
	return dir, nil
}

// files returns the files of a cgroup with their limits.
func files(limits Limits) map[string]string {
	all := map[string]string{}
	if limits.Memory > 0 {
		all["memory.max"] = strconv.FormatUint(limits.Memory, 10)
		all["memory.swap.max"] = "0" // otherwise the VM could use up the machine's swap
	}
	if limits.CPU > 0 {
		all["cpu.max"] = fmt.Sprintf("%d %d", int(math.Round(limits.CPU*period)), period)
	}
	if limits.PIDs > 0 {
		all["pids.max"] = strconv.Itoa(limits.PIDs)
	}
	return all
}

// write writes a file of a cgroup. A kernel without swap has no file for it.
func write(dir, file, value string) error {
	err := os.WriteFile(filepath.Join(dir, file), []byte(value), 0)
	if file == "memory.swap.max" && errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// makeScope makes systemd create a cgroup with the process in it.
func (h Home) makeScope(ctx context.Context, name string, pid int, limits Limits) (dir string, err error) {
	for _, b := range h.buses {
		if err = b.startScope(ctx, name, pid, limits); err == nil {
			break
		}
	}
	if err != nil {
		return "", fmt.Errorf("systemd refuses: %w", err)
	}
	err = wait.Poll(ctx, pause, func() (bool, error) {
		of, err := cgroupOf(pid)
		dir = filepath.Join(h.mount, of)
		return filepath.Base(of) == name, err
	})
	return dir, err
}

// cgroupOf returns the path of a process's cgroup below the mount point.
func cgroupOf(pid int) (string, error) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cgroup")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(text)) {
		if path, ok := strings.CutPrefix(line, "0::"); ok {
			return strings.TrimSuffix(path, "\n"), nil
		}
	}
	return "", errors.New("the process has no cgroup of version 2")
}

// divide makes the cgroups below the VM's, moves the process there, and changes their
// owner.
func (h Home) divide(dir string, pid, uid, gid int) error {
	inner, first := filepath.Join(dir, InnerDir), filepath.Join(dir, InnerDir, FirstDir)
	for _, name := range []string{inner, first} {
		if err := os.Mkdir(name, 0o755); err != nil { // #nosec G301 -- a cgroup, as all are
			return err
		}
	}
	// A cgroup contains either processes or cgroups with controllers.
	if err := write(inner, "cgroup.procs", strconv.Itoa(pid)); err != nil {
		return err
	}
	if err := control(dir); err != nil {
		return err
	}
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{inner, first} {
		for _, file := range []string{".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(name, file), uid, gid); err != nil {
				return err
			}
		}
	}
	return nil
}

// control enables all possible controllers for the cgroups below a cgroup.
func control(dir string) error {
	text, err := os.ReadFile(filepath.Join(dir, "cgroup.controllers"))
	if err != nil {
		return err
	}
	there, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	var add []string
	for _, name := range []string{"cpu", "memory", "pids"} {
		if slices.Contains(strings.Fields(string(text)), name) && !slices.Contains(strings.Fields(string(there)), name) {
			add = append(add, "+"+name)
		}
	}
	if len(add) == 0 {
		return nil
	}
	return write(dir, "cgroup.subtree_control", strings.Join(add, " "))
}

// Control enables the controllers for the cgroups below dir, the cgroup of this
// process.
func Control(dir string) error { return control(dir) }

// check returns an error unless the cgroup has the limits.
func check(dir string, limits Limits) error {
	for file, want := range files(limits) {
		text, err := os.ReadFile(filepath.Join(dir, file))
		if file == "memory.swap.max" && errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		got := strings.TrimSpace(string(text))
		if file == "memory.max" {
			size, err := strconv.ParseUint(got, 10, 64) // the kernel rounds to whole pages
			if err == nil && size/uint64(os.Getpagesize()) == limits.Memory/uint64(os.Getpagesize()) {
				continue
			}
		}
		if got != want {
			return fmt.Errorf("the cgroup %s has %s %s, not %s", dir, file, got, want)
		}
	}
	return nil
}

// Remove kills the processes in a cgroup and removes it with those below it. A
// missing one is not an error.
func Remove(ctx context.Context, dir string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, removeTime, errors.New("its processes do not end"))
	defer cancel()
	err := wait.Poll(ctx, pause, func() (bool, error) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return true, nil
		}
		_ = write(dir, "cgroup.kill", "1") // kernels before 5.14 do not have this file
		err := removeBelow(dir)
		if errors.Is(err, unix.EBUSY) {
			return false, nil // a process has not ended yet
		}
		return err == nil, err
	})
	if err != nil {
		return fmt.Errorf("cannot remove the cgroup %s: %w", dir, err)
	}
	if parent := filepath.Dir(dir); filepath.Base(parent) == parentDir {
		_ = unix.Rmdir(parent) // it fails if other cgroups are in it
	}
	return nil
}

// removeBelow removes a cgroup after those below it. systemd may do the same.
func removeBelow(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENODEV) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if !entry.IsDir() {
			continue
		}
		if err := removeBelow(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	if err := unix.Rmdir(dir); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// Stray returns the cgroups of a VM that this program made without systemd.
func Stray(vm string) []string {
	mount := mountPoint()
	own, err := cgroupOf(os.Getpid())
	places := []string{filepath.Join(mount, parentDir)}
	if place := filepath.Join(mount, own, parentDir); err == nil && place != places[0] {
		places = append(places, place)
	}
	var all []string
	for _, parent := range places {
		entries, _ := os.ReadDir(parent) // if it is missing, no VM has a cgroup there
		for _, entry := range entries {
			if IsOf(entry.Name(), vm) {
				all = append(all, filepath.Join(parent, entry.Name()))
			}
		}
	}
	return all
}
