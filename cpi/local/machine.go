package local

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/agent"
	"bootstrap/cpi/local/namespace"
	"bootstrap/cpi/local/network"
)

// NewMachine returns what a new VM is made of: what its cloud_properties ask for, or
// the best that this machine allows to the program self. The error is why that
// is not namespaces, and the remedy what a person can do about it, if that is
// known.
func NewMachine(ctx context.Context, self, asked string) (machine, remedy string, refused error) {
	if asked == agent.MachineFolder {
		return asked, "", nil
	}
	refused = namespace.Try(ctx, self)
	if refused == nil {
		return agent.MachineNamespace, "", nil
	}
	return cmp.Or(asked, agent.MachineFolder), namespace.Remedy(), refused
}

// machine returns what the VM that create_vm makes is made of.
func (c *call) machine(ctx context.Context, properties map[string]any) (string, error) {
	asked, _ := properties[machineProperty].(string)
	machine, _, refused := NewMachine(ctx, c.self, asked)
	if machine == agent.MachineNamespace && refused != nil {
		return "", fmt.Errorf("cannot make a VM of namespaces, as its cloud_properties ask for: %w", refused)
	}
	return machine, nil
}

// machineOf returns what the VM in dir is made of, also before it has a record.
func machineOf(dir string) string {
	var start agent.Boot
	if readJSON(filepath.Join(dir, bootFile), &start) == nil && start.Machine != "" {
		return start.Machine
	}
	return agent.MachineFolder
}

// start starts a VM, and returns when its agent is up.
func (c *call) start(ctx context.Context, machine vm) error {
	dir := c.root.path(vms(), machine.CID)
	if machine.Machine != agent.MachineNamespace {
		return startAgent(ctx, c.self, dir)
	}
	if err := os.MkdirAll(c.root.attachedDir(machine.CID), 0o700); err != nil {
		return err
	}
	log, program, err := prepareStart(c.self, dir)
	if err != nil {
		return err
	}
	defer log.Close()
	for _, name := range []string{bootFile, settingsFile} {
		if err := namespace.GiveFile(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	open, err := network.Open(ctx, machine.Ports)
	if err != nil {
		return err
	}
	defer closeFiles(open)
	// What an earlier agent reported says nothing about this one.
	if err := os.WriteFile(filepath.Join(dir, lockFile), nil, 0o600); err != nil {
		return err
	}
	ended, err := namespace.Start(ctx, namespace.Spec{
		Dir:      dir,
		Disks:    c.root.attachedDir(machine.CID),
		Hostname: machine.AgentID,
		Files:    []string{lockFile, logFile},
		Program:  program,
		Args:     []string{"plugin", "agent-inside", dir},
		Network:  machine.Own,
	}, environment(dir), log)
	if err != nil {
		return err
	}
	if machine.Own != nil {
		if err := c.connect(ctx, machine, program, open); err != nil {
			return err
		}
	}
	return awaitAgent(ctx, dir, anyPID, ended)
}
