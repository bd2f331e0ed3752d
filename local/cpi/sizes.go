package cpi

import (
	"fmt"
	"path/filepath"

	"bootstrap/agent"
	"bootstrap/local/namespace"
)

// ephemeralProperty is the cloud property with the MiB of the VM's own disk.
const ephemeralProperty = "ephemeral_disk_size"

const notHeldText = "the size of the persistent disk is not enforced: "

// writeSizes writes the sizes of a VM's disks that are folders to a file. The agent
// compares them with the sizes of the files on the disks.
func (c *call) writeSizes(machine vm) error {
	sizes := agent.BootSizes{Persistent: map[string]int{}}
	if size, ok := machine.CloudProperties[ephemeralProperty].(float64); ok {
		sizes.Ephemeral = int(size)
	}
	all, err := c.attachedTo(machine.CID)
	if err != nil {
		return err
	}
	for _, d := range all {
		if c.root.isImage(d.CID) {
			continue // its file system limits it
		}
		sizes.Persistent[d.CID] = d.Size
		if d.NotHeld != "" {
			sizes.NotHeld = append(sizes.NotHeld, notHeldText+d.NotHeld)
		}
	}
	if e := DisksNotHeld(machine.Machine); e != nil && e.Remedy != "" && len(sizes.Persistent) > 0 {
		sizes.NotHeld = []string{fmt.Sprintf("%s%v; to enforce it: %s, and then bootstrap deploy --recreate-persistent-disks", notHeldText, e.Cause, e.Remedy)}
	}
	file := filepath.Join(c.root.path(vms(), machine.CID), agent.BootSizesFile)
	if err := writeJSON(file, sizes); err != nil {
		return fmt.Errorf("cannot write the sizes of the VM's disks: %w", err)
	}
	if agent.Isolated(machine.Machine) {
		return namespace.GiveFile(file)
	}
	return nil
}
