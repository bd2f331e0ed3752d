package cpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/local/cgroup"
	"bootstrap/local/namespace"
)

// Names of the cloud_properties of a VM that limit its processes.
const (
	ramProperty  = "ram"  // MiB
	cpuProperty  = "cpu"  // cores
	pidsProperty = "pids" // processes and threads
)

// usualPIDs is the default limit for processes and threads of a VM: enough for every job,
// but a job that creates more and more of them does not stop this machine.
const usualPIDs = 4096

// limitsOf returns the limits of a VM, and the names of the limits that its
// cloud_properties contain.
func limitsOf(properties map[string]any) (limits cgroup.Limits, asked []string) {
	number := func(name string) float64 {
		switch n := properties[name].(type) {
		case float64:
			asked = append(asked, name)
			return n
		case int:
			asked = append(asked, name)
			return float64(n)
		}
		return 0
	}
	limits.CPU = number(cpuProperty)
	limits.Memory = uint64(max(number(ramProperty), 0)) << 20
	if limits.PIDs = int(number(pidsProperty)); limits.PIDs == 0 {
		limits.PIDs = usualPIDs
	}
	return limits, asked
}

// limiter says how the limits of a VM can be enforced here.
type limiter struct {
	home   cgroup.Home
	limits cgroup.Limits // limits that a cgroup enforces
	none   bool          // true: there is no cgroup
	pids   int           // limit of the user in the VM's namespace
	err    *NotHeldError // the requested limits that are not enforced; nil: all are enforced
}

func findLimiter(machine string, properties map[string]any) limiter {
	limits, asked := limitsOf(properties)
	var h limiter
	var err error
	if !agent.Isolated(machine) {
		if h.none = true; len(asked) > 0 {
			h.err = &NotHeldError{Names: asked, Cause: errors.New("only a VM of namespaces has limits")}
		}
		return h
	}
	if h.home, err = cgroup.Find(); err == nil {
		h.limits, err = h.home.Can(limits)
	} else {
		h.none = true
	}
	if h.limits.PIDs == 0 && cgroup.CountsByNamespace() {
		h.pids = limits.PIDs
	}
	var missing []string
	for _, name := range asked {
		held := name == cpuProperty && h.limits.CPU > 0 || name == ramProperty && h.limits.Memory > 0 || name == pidsProperty && h.limits.PIDs+h.pids > 0
		if !held {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		h.err = &NotHeldError{Names: missing, Cause: err}
		var refused *cgroup.RefusedError
		if errors.As(err, &refused) {
			h.err.Remedy = refused.Remedy
		}
	}
	return h
}

// NotHeldError lists limits that are not enforced for a VM.
type NotHeldError struct {
	Names  []string // names in cloud_properties
	Cause  error
	Remedy string // what a person can do about it; may be empty
}

func (e *NotHeldError) Error() string {
	verb := "is"
	if len(e.Names) > 1 {
		verb = "are"
	}
	return fmt.Sprintf("%s of its cloud_properties %s not enforced: %v", strings.Join(e.Names, " and "), verb, e.Cause)
}

// NotHeld returns which cloud_properties cannot be fulfilled for a VM of the kind
// machine: limits, or several users; nil: all can.
func NotHeld(machine string, properties map[string]any) *NotHeldError {
	if properties[usersProperty] == manyUsers {
		err := errOneUser
		if machine == agent.MachineNamespace {
			err = ManyUsers()
		}
		if err != nil {
			return &NotHeldError{Names: []string{"users: many"}, Cause: err}
		}
	}
	return findLimiter(machine, properties).err
}

// hold sets the limits of a VM with the process pid, and records how they are enforced.
func (c *call) hold(ctx context.Context, machine vm, pid int) (namespace.Held, error) {
	h := findLimiter(machine.Machine, machine.CloudProperties)
	limits, asked := limitsOf(machine.CloudProperties)
	recorded := agent.BootLimits{Memory: h.limits.Memory, CPU: h.limits.CPU, PIDs: limits.PIDs}
	if h.err != nil {
		recorded.NotHeld = []string{h.err.Error()}
	}
	held := namespace.Held{PIDs: h.pids}
	dir := c.root.path(vms(), machine.CID)
	systemd, err := c.bootsSystemd(machine)
	if err != nil {
		return held, err
	}
	if h.none && systemd {
		h.home, err = systemdHome() // it enforces no limits
		h.none = err != nil
	}
	if !h.none {
		uid, gid := namespace.Owner()
		recorded.Cgroup, err = h.home.Hold(ctx, machine.CID, pid, h.limits, uid, gid)
		switch {
		case err == nil:
			held.Cgroup = filepath.Join(recorded.Cgroup, cgroup.InnerDir)
		case len(asked) > 0:
			return held, err
		case systemd && initOf(machine) == systemdInit:
			return held, fail(cpi.TypeCloudError, "cannot use '%s: %s' in the VM's cloud_properties: systemd needs a cgroup of its own: %v", initProperty, systemdInit, err)
		default: // neither limits nor systemd were requested
			recorded.NotHeld = []string{err.Error()}
			held.PIDs = limits.PIDs
		}
	}
	file := filepath.Join(dir, agent.BootLimitsFile)
	return held, errors.Join(writeJSON(file, recorded), namespace.GiveFile(file))
}

// release removes the cgroup of the VM in dir after its processes have ended.
func release(ctx context.Context, dir string) error {
	cid := filepath.Base(dir)
	all := cgroup.Stray(cid)
	var recorded agent.BootLimits
	file := filepath.Join(dir, agent.BootLimitsFile)
	if err := readJSON(file, &recorded); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if recorded.Cgroup != "" && cgroup.IsOf(recorded.Cgroup, cid) {
		all = append(all, recorded.Cgroup)
	}
	for _, one := range all {
		if err := cgroup.Remove(ctx, one); err != nil {
			return err
		}
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
