package cpi

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/local/namespace"
	"bootstrap/local/network"
)

// NewMachine returns the kind of a new VM: the one in its cloud_properties, or the best
// one that this machine allows to the program self; with an image of a stemcell always a
// container. The error says why the VM does not, or cannot, use namespaces, and remedy
// what a person can do about it, if that is known.
func NewMachine(ctx context.Context, self, asked string, image bool) (machine, remedy string, refused error) {
	if asked == agent.MachineFolder && !image {
		return asked, "", nil
	}
	refused = namespace.Try(ctx, self)
	if refused != nil {
		remedy = namespace.Remedy()
	}
	switch {
	case image:
		return agent.MachineContainer, remedy, refused
	case refused == nil:
		return agent.MachineNamespace, "", nil
	}
	return cmp.Or(asked, agent.MachineFolder), remedy, refused
}

// needContainers returns an error if this machine cannot run VMs of stemcells with an
// image.
func (c *call) needContainers(ctx context.Context) error {
	_, remedy, refused := NewMachine(ctx, c.self, "", true)
	if refused == nil {
		return nil
	}
	advice := "use embedded:local-stemcell"
	if remedy != "" {
		advice = remedy + ", or " + advice
	}
	return fail(cpi.TypeCloudError, "cannot use a stemcell with a root file system, whose VMs are made of namespaces: %v; %s", refused, advice)
}

// machine returns the kind of the VM that create_vm makes.
func (c *call) machine(ctx context.Context, properties map[string]any, image string) (string, error) {
	asked, _ := properties[machineProperty].(string)
	switch {
	case image != "" && asked != "" && asked != agent.MachineContainer:
		return "", fail(cpi.TypeCloudError, "cannot use 'machine: %s' in the VM's cloud_properties: a stemcell with a root file system needs a %s", asked, agent.MachineContainer)
	case image == "" && asked == agent.MachineContainer:
		return "", fail(cpi.TypeCloudError, "cannot use 'machine: %s' in the VM's cloud_properties: the stemcell has no root file system", asked)
	case image != "":
		return agent.MachineContainer, c.needContainers(ctx)
	}
	machine, _, refused := NewMachine(ctx, c.self, asked, false)
	if machine == agent.MachineNamespace && refused != nil {
		return "", fmt.Errorf("cannot make a VM of namespaces, as its cloud_properties ask for: %w", refused)
	}
	return machine, nil
}

// machineOf returns the kind of the VM in dir, even before it has a record.
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
	if !agent.Isolated(machine.Machine) {
		return startAgent(ctx, c.self, dir)
	}
	if err := os.MkdirAll(c.root.attachedDir(machine.CID), 0o700); err != nil {
		return err
	}
	out, err := wayOut(machine.Own)
	if err != nil {
		return err
	}
	spec := namespace.Spec{
		Dir:      dir,
		Disks:    c.root.attachedDir(machine.CID),
		Hostname: machine.AgentID,
		Network:  withResolver(machine.Own, out),
		Hold:     func(ctx context.Context, pid int) (namespace.Held, error) { return c.hold(ctx, machine, pid) },
	}
	if machine.ManyUsers {
		var err error
		if spec.Users, err = c.root.users(); err != nil {
			return err
		}
	}
	log, program, err := prepareStart(c.self, dir)
	if err != nil {
		return err
	}
	defer log.Close()
	spec.Program = program
	// waits until the agent is ready
	var await func(ended <-chan error) error
	if machine.Machine == agent.MachineContainer {
		await, err = c.bootStemcell(ctx, machine, &spec)
	} else {
		await, err = bootAgent(ctx, &spec)
	}
	if err != nil {
		return err
	}
	if err := giveFiles(dir); err != nil {
		return err
	}
	open, err := network.Open(ctx, machine.Ports)
	if err != nil {
		return err
	}
	defer closeFiles(open)
	if spec.Mounted, err = c.openImages(machine.CID); err != nil {
		return err
	}
	defer closeImages(spec.Mounted)
	ended, err := namespace.Start(ctx, spec, environment(dir), log)
	if err != nil {
		return err
	}
	if machine.Own != nil {
		if err := c.connect(ctx, machine, program, out, open); err != nil {
			return err
		}
	}
	return await(ended)
}

// bootAgent sets up a VM for the embedded agent.
func bootAgent(ctx context.Context, spec *namespace.Spec) (await func(ended <-chan error) error, err error) {
	spec.Files = []string{lockFile, logFile}
	spec.Args = []string{"plugin", "agent-inside", spec.Dir}
	// The report of an earlier agent would be mistaken for that of this one.
	if err := os.WriteFile(filepath.Join(spec.Dir, lockFile), nil, 0o600); err != nil {
		return nil, err
	}
	return func(ended <-chan error) error { return awaitAgent(ctx, spec.Dir, anyPID, ended) }, nil
}

// giveFiles makes the files for the agent of the VM in dir readable inside of the VM.
func giveFiles(dir string) error {
	for _, name := range []string{bootFile, settingsFile} {
		if err := namespace.GiveFile(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}
