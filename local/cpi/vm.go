package cpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/internal/number"
	"bootstrap/local/network"
)

// vm is the record of a VM. Its folder also contains boot.json and settings.json, with
// secrets, agent.lock, agent.log and the folder vcap.
type vm struct {
	CID             string         `json:"cid"`
	AgentID         string         `json:"agent_id"`
	Stemcell        string         `json:"stemcell"`
	Machine         string         `json:"machine,omitempty"`    // kind of the VM; empty: a folder
	Image           string         `json:"image,omitempty"`      // digest of the stemcell's image
	ManyUsers       bool           `json:"many_users,omitempty"` // true: its users have the ids in usersFile
	CloudProperties map[string]any `json:"cloud_properties"`
	Networks        networks       `json:"networks"`
	Own             *network.Spec  `json:"own_network,omitempty"` // nil: it uses this machine's network
	Ports           []network.Port `json:"ports,omitempty"`       // published on this machine
	Metadata        map[string]any `json:"metadata,omitempty"`
	CreatedAt       time.Time      `json:"created_at"`
}

// Names in a VM's folder.
const (
	bootFile     = "boot.json"
	settingsFile = "settings.json"
	lockFile     = "agent.lock"
	logFile      = "agent.log"
	vcapDir      = "vcap"
)

// vmSizes returns the cloud_properties that are sizes of a VM.
func vmSizes() []string {
	return []string{cpuProperty, ramProperty, pidsProperty, ephemeralProperty}
}

// The kernel cannot limit CPU to less than a hundredth of a core.
const (
	leastCPU = 0.01
	mostCPU  = 1024
)

// machineProperty is the cloud property for the kind of the VM.
const machineProperty = "machine"

func checkProperties(where string, props map[string]any) error {
	if err := refuseUnknown(where, props, append(vmSizes(), machineProperty, usersProperty, initProperty)...); err != nil {
		return err
	}
	for _, p := range []struct {
		key    string
		values []string
	}{
		{machineProperty, []string{agent.MachineNamespace, agent.MachineContainer, agent.MachineFolder}},
		{usersProperty, []string{oneUser, manyUsers}},
		{initProperty, []string{ownInit, systemdInit, autoInit}},
	} {
		asked, ok := props[p.key]
		if text, _ := asked.(string); ok && !slices.Contains(p.values, text) {
			last := len(p.values) - 1
			return fail(cpi.TypeCloudError, "cannot use '%s: %v' in %s: it must be %s or %s", p.key, asked, where, strings.Join(p.values[:last], ", "), p.values[last])
		}
	}
	for _, key := range vmSizes() {
		value, ok := props[key]
		if !ok {
			continue
		}
		n, isNumber := value.(float64)
		switch {
		case key == cpuProperty && (!isNumber || n < leastCPU || n > mostCPU):
			return fail(cpi.TypeCloudError, "cannot use '%s' in %s: it must be a number of cores from %v to %v", key, where, leastCPU, mostCPU)
		case key != cpuProperty:
			if _, err := (number.Bound{Least: 1, Most: number.MaxMiB}).Of(value); err != nil {
				return fail(cpi.TypeCloudError, "cannot use '%s' in %s: it %v", key, where, err)
			}
		}
	}
	return nil
}

func (c *call) calculate() (any, error) {
	desired := map[string]any{}
	if err := c.args(&desired); err != nil {
		return nil, err
	}
	if err := checkProperties("the size asked for", desired); err != nil {
		return nil, err
	}
	return desired, nil
}

// createVM makes the folder of the VM, starts its agent and then writes its record. After
// a kill in between, the next call ends the agent and removes the folder.
func (c *call) createVM(ctx context.Context) (any, error) {
	var (
		machine vm
		asked   networks
		near    []string
		env     map[string]any
	)
	if err := c.args((*cidArg)(&machine.AgentID), (*cidArg)(&machine.Stemcell), &machine.CloudProperties, &asked, &near, &env); err != nil {
		return nil, err
	}
	if err := checkProperties("the VM's cloud_properties", machine.CloudProperties); err != nil {
		return nil, err
	}
	var err error
	if machine.Networks, err = resolve(asked); err != nil {
		return nil, err
	}
	var from stemcell
	if err := c.root.load(stemcells(), machine.Stemcell, &from); err != nil {
		return nil, err
	}
	machine.Image = from.Image
	for _, cid := range near {
		if err := c.root.load(disks(), cid, &disk{}); err != nil {
			return nil, err
		}
	}
	if machine.Machine, err = c.machine(ctx, machine.CloudProperties, machine.Image); err != nil {
		return nil, err
	}
	if machine.ManyUsers, err = c.usersOf(machine.Machine, machine.CloudProperties); err != nil {
		return nil, err
	}
	if err := c.ownNetwork(&machine); err != nil {
		return nil, err
	}
	if _, err := c.bootsSystemd(machine); err != nil {
		return nil, err
	}
	cid, dir, err := c.root.create(vms())
	if err != nil {
		return nil, err
	}
	machine.CID, machine.CreatedAt = cid, time.Now().UTC()
	if err := c.boot(ctx, machine, env, dir); err != nil {
		// If this fails, the next call removes the folder.
		_ = c.root.discard(context.WithoutCancel(ctx), vms(), dir)
		return nil, err
	}
	if c.req.APIVersion < 2 {
		return cid, nil
	}
	if notes := c.notes(machine); len(notes) > 0 {
		return []any{cid, machine.Networks, map[string]any{"notes": notes}}, nil
	}
	return []any{cid, machine.Networks}, nil
}

// notes returns lines for people about how a VM was booted, and adds details to the log.
func (c *call) notes(machine vm) (notes []string) {
	boot, systemd := c.bootNote(machine)
	if boot != "" {
		notes = append(notes, boot)
	}
	if systemd {
		return notes
	}
	if omitted, err := c.omitted(machine); err == nil && omitted != "" {
		notes = append(notes, omitted) // without them, the VM exists, too
	}
	return notes
}

// omitted returns a line about the units of the stemcell that the VM does not start, and
// adds the reasons to the log.
func (c *call) omitted(machine vm) (string, error) {
	if machine.Image == "" {
		return "", nil
	}
	started, others, err := unitsOf(c.root.imageDir(machine.Image))
	if err != nil {
		return "", err
	}
	note, reasons := unitsNote(started, others)
	c.log += reasons
	return note, nil
}

func (c *call) boot(ctx context.Context, machine vm, env map[string]any, dir string) error {
	settings, err := c.settings(machine, env)
	if err != nil {
		return err
	}
	start := agent.Boot{Name: machine.CID, Machine: machine.Machine, SSH: c.cfg.SSH.server(machine.Networks.address())}
	if c.usesRegistry() && machine.Machine != agent.MachineContainer {
		registry, err := c.registry()
		if err != nil {
			return err
		}
		if err := registry.put(ctx, machine.CID, settings); err != nil {
			return err
		}
		start.Registry = registry.base.String()
	} else {
		start.SettingsFile = filepath.Join(dir, settingsFile)
		if err := writeJSON(start.SettingsFile, settings); err != nil {
			return fmt.Errorf("cannot write the agent's settings: %w", err)
		}
		if agent.Isolated(machine.Machine) {
			start.SettingsFile = settingsFile // the folder has another path inside of the VM
		}
	}
	if err := writeJSON(filepath.Join(dir, bootFile), start); err != nil {
		return fmt.Errorf("cannot write the agent's settings: %w", err)
	}
	if machine.Machine != agent.MachineContainer {
		if err := os.Mkdir(filepath.Join(dir, vcapDir), 0o700); err != nil {
			return fmt.Errorf("cannot make the VM: %w", err)
		}
	}
	if err := c.writeSizes(machine); err != nil {
		return err
	}
	if err := c.start(ctx, machine); err != nil {
		return fmt.Errorf("cannot start the agent: %w", err)
	}
	return c.root.save(vms(), machine.CID, machine)
}

func (c *call) hasVM(ctx context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	found, err := c.root.has(vms(), cid)
	if err != nil || found {
		return found, err
	}
	return false, c.endStray(ctx, cid)
}

// endStray ends the processes of a VM whose folder or record was removed by hand.
func (c *call) endStray(ctx context.Context, cid string) error {
	if !isCID(vms(), cid) {
		return nil
	}
	if err := endVM(ctx, c.root.path(vms(), cid)); err != nil {
		return fmt.Errorf("cannot end the processes of VM '%s', whose folder is gone: %w", cid, err)
	}
	return nil
}

// deleteVM first ends the processes of the VM; if one does not end, the VM still exists.
// Then it detaches its disks.
func (c *call) deleteVM(ctx context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	var machine vm
	if err := c.root.load(vms(), cid, &machine); err != nil {
		if found, unknown := c.root.has(vms(), cid); unknown == nil && !found {
			if stray := c.endStray(ctx, cid); stray != nil {
				return nil, stray
			}
		}
		return nil, err
	}
	if err := c.forget(ctx, machine); err != nil {
		return nil, err
	}
	if err := endVM(ctx, c.root.path(vms(), cid)); err != nil {
		return nil, fmt.Errorf("cannot delete VM '%s': %w", cid, err)
	}
	if err := c.root.remove(ctx, vms(), cid); err != nil {
		return nil, err
	}
	c.left = errors.Join(c.left, c.root.sweepImages()) // the next call tries again
	return nil, nil
}

func (c *call) rebootVM(ctx context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	var machine vm
	if err := c.root.load(vms(), cid, &machine); err != nil {
		return nil, err
	}
	if err := endVM(ctx, c.root.path(vms(), cid)); err != nil {
		return nil, fmt.Errorf("cannot stop VM '%s': %w", cid, err)
	}
	if err := c.start(ctx, machine); err != nil {
		return nil, fmt.Errorf("cannot start the agent of VM '%s': %w", cid, err)
	}
	return nil, nil
}

func (c *call) setVMMetadata(context.Context) (any, error) {
	var cid string
	var metadata map[string]any
	if err := c.args((*cidArg)(&cid), &metadata); err != nil {
		return nil, err
	}
	var machine vm
	if err := c.root.load(vms(), cid, &machine); err != nil {
		return nil, err
	}
	machine.Metadata = merge(machine.Metadata, metadata)
	return nil, c.root.save(vms(), cid, machine)
}

// bootOf reads the boot.json of a VM.
func (c *call) bootOf(machine vm) (agent.Boot, error) {
	var start agent.Boot
	err := readJSON(filepath.Join(c.root.path(vms(), machine.CID), bootFile), &start)
	if errors.Is(err, fs.ErrNotExist) {
		return start, fmt.Errorf("cannot use VM '%s': somebody removed its %s", machine.CID, bootFile)
	}
	return start, err
}
