package cpi

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"bootstrap/agent"
	"bootstrap/cpi"
	"bootstrap/internal/number"
	"bootstrap/local/namespace"
	"bootstrap/local/volume"
)

// disk is the record of a disk. Its data is in the folder data or in the file disk.img in
// the same folder.
type disk struct {
	CID             string         `json:"cid"`
	Size            int            `json:"size"` // in MiB; the agent compares it with the size of the files
	CloudProperties map[string]any `json:"cloud_properties"`
	VM              string         `json:"vm,omitempty"`       // the VM to which it is attached; it may not exist any more
	Owners          string         `json:"owners,omitempty"`   // of the files on it
	NotHeld         string         `json:"not_held,omitempty"` // why the size is not enforced, although that was tried
	Metadata        map[string]any `json:"metadata,omitempty"`
	CreatedAt       time.Time      `json:"created_at"`
}

// snapshot is the record of a snapshot. Its copy is the folder data in the same folder.
type snapshot struct {
	CID       string         `json:"cid"`
	Disk      string         `json:"disk"`
	Size      int            `json:"size"`
	Owners    string         `json:"owners,omitempty"` // of the files
	Metadata  map[string]any `json:"metadata,omitempty"`
	CreatedAt time.Time      `json:"created_at"`
}

func (c *call) createDisk(ctx context.Context) (any, error) {
	var size int
	var props map[string]any
	var near any // the VM for which the disk is created
	if err := c.args(&size, &props, &near); err != nil {
		return nil, err
	}
	of, err := c.sourceOf(props)
	if err == nil {
		err = checkDisk(size, props)
	}
	if err != nil {
		return nil, err
	}
	cid, dir, err := c.root.create(disks())
	if err != nil {
		return nil, err
	}
	d := disk{CID: cid, Size: size, CloudProperties: props, CreatedAt: time.Now().UTC()}
	d.NotHeld, err = c.makeData(ctx, dir, size, near)
	if err == nil && of != nil {
		err = c.fill(ctx, &d, *of)
	}
	if err == nil {
		err = c.root.save(disks(), cid, d)
	}
	if err != nil {
		_ = c.root.removeTree(context.WithoutCancel(ctx), dir) // the next call tries again
		return nil, err
	}
	return cid, nil
}

func checkDisk(size int, props map[string]any) error {
	if size < 1 || size > number.MaxMiB {
		return fail(cpi.TypeCloudError, "cannot make a disk of %d MiB: it must have 1 to %d", size, number.MaxMiB)
	}
	return refuseUnknown("the disk's cloud_properties", props)
}

// loadDisk reads the record of a disk, without its VM if that no longer exists.
func (c *call) loadDisk(cid string) (disk, error) {
	var d disk
	if err := c.root.load(disks(), cid, &d); err != nil {
		return d, err
	}
	if d.VM != "" {
		found, err := c.root.has(vms(), d.VM)
		if err != nil {
			return d, err
		}
		if !found {
			d.VM = ""
		}
	}
	return d, nil
}

// dataDir returns the folder of a disk's data, if the data is not a file system.
func (c *call) dataDir(d disk) string {
	if d.VM != "" {
		if there := filepath.Join(c.root.attachedDir(d.VM), d.CID); isFolder(there) {
			return there
		}
	}
	return filepath.Join(c.root.path(disks(), d.CID), "data")
}

func isFolder(name string) bool {
	info, err := os.Lstat(name)
	return err == nil && info.IsDir()
}

func (c *call) hasDisk(context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	return c.root.has(disks(), cid)
}

func (c *call) deleteDisk(ctx context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	if _, err := c.detached(cid, "delete"); err != nil {
		return nil, err
	}
	return nil, c.root.remove(ctx, disks(), cid)
}

// detached loads a disk; it returns an error if the disk is attached.
func (c *call) detached(cid, verb string) (disk, error) {
	d, err := c.loadDisk(cid)
	if err == nil && d.VM != "" {
		err = fail(cpi.TypeCloudError, "cannot %s disk '%s': it is attached to VM '%s'", verb, cid, d.VM)
	}
	return d, err
}

func (c *call) attachDisk(ctx context.Context) (any, error) {
	var vmCID, diskCID string
	if err := c.args((*cidArg)(&vmCID), (*cidArg)(&diskCID)); err != nil {
		return nil, err
	}
	var machine vm
	if err := c.root.load(vms(), vmCID, &machine); err != nil {
		return nil, err
	}
	d, err := c.loadDisk(diskCID)
	if err != nil {
		return nil, err
	}
	if d.VM != "" && d.VM != vmCID {
		return nil, fail(cpi.TypeCloudError, "cannot attach disk '%s': it is attached to VM '%s'", diskCID, d.VM)
	}
	if err := c.giveDisk(ctx, &d, machine.ManyUsers); err != nil {
		return nil, fmt.Errorf("cannot give disk '%s' to the users of VM '%s': %w", diskCID, vmCID, err)
	}
	// The record is written first: after a kill in between, the disk counts as
	// attached, and attaching it again completes the settings.
	d.VM = vmCID
	if err := c.root.save(disks(), diskCID, d); err != nil {
		return nil, err
	}
	data, err := c.lend(ctx, d, machine)
	if err != nil {
		return nil, fmt.Errorf("cannot attach disk '%s': %w", diskCID, err)
	}
	if err := c.writeSizes(machine); err != nil {
		return nil, err
	}
	err = c.changeSettings(ctx, machine, func(persistent map[string]any) { persistent[diskCID] = data })
	if err != nil {
		return nil, err
	}
	if c.req.APIVersion < 2 {
		return nil, nil
	}
	return data, nil
}

func (c *call) detachDisk(ctx context.Context) (any, error) {
	var vmCID, diskCID string
	if err := c.args((*cidArg)(&vmCID), (*cidArg)(&diskCID)); err != nil {
		return nil, err
	}
	var machine vm
	if err := c.root.load(vms(), vmCID, &machine); err != nil {
		return nil, err
	}
	d, err := c.loadDisk(diskCID)
	if err != nil {
		return nil, err
	}
	if d.VM != vmCID {
		return nil, nil // it is not attached
	}
	// The record is written last: after a kill in between, detaching again completes
	// it.
	err = c.changeSettings(ctx, machine, func(persistent map[string]any) { delete(persistent, diskCID) })
	if err != nil {
		return nil, err
	}
	if err := c.root.takeBack(ctx, diskCID, vmCID); err != nil {
		return nil, fmt.Errorf("cannot detach disk '%s': %w", diskCID, err)
	}
	d.VM = ""
	return nil, c.root.save(disks(), diskCID, d)
}

// lend makes the data of a disk visible in a VM, and returns its path there.
func (c *call) lend(ctx context.Context, d disk, machine vm) (string, error) {
	switch {
	case !agent.Isolated(machine.Machine):
		return filepath.Join(c.root.path(disks(), d.CID), "data"), c.toFolder(ctx, d.CID)
	case c.root.isImage(d.CID):
		return namespace.GuestDisk(d.CID), c.root.lendImage(ctx, d.CID, machine.CID)
	}
	return namespace.GuestDisk(d.CID), c.root.handOver(ctx, d.CID, machine.CID)
}

func (c *call) getDisks(context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	if err := c.root.load(vms(), cid, &vm{}); err != nil {
		return nil, err
	}
	all, err := c.attachedTo(cid)
	if err != nil {
		return nil, err
	}
	attached := []string{}
	for _, d := range all {
		attached = append(attached, d.CID)
	}
	return attached, nil
}

// attachedTo returns the disks that are attached to a VM.
func (c *call) attachedTo(vm string) ([]disk, error) {
	all, err := c.root.list(disks())
	if err != nil {
		return nil, err
	}
	var attached []disk
	for _, one := range all {
		d, err := c.loadDisk(one)
		if err != nil {
			return nil, err
		}
		if d.VM == vm {
			attached = append(attached, d)
		}
	}
	return attached, nil
}

func (c *call) resizeDisk(ctx context.Context) (any, error) {
	var cid string
	var size int
	if err := c.args((*cidArg)(&cid), &size); err != nil {
		return nil, err
	}
	return nil, c.update(ctx, cid, size, nil)
}

func (c *call) updateDisk(ctx context.Context) (any, error) {
	var cid string
	var size int
	props := map[string]any{}
	if err := c.args((*cidArg)(&cid), &size, &props); err != nil {
		return nil, err
	}
	return nil, c.update(ctx, cid, size, props)
}

// update changes the size of a detached disk and, if they are not nil, its
// properties.
func (c *call) update(ctx context.Context, cid string, size int, props map[string]any) error {
	d, err := c.detached(cid, "change")
	if err != nil {
		return err
	}
	if err := checkDisk(size, props); err != nil {
		return err
	}
	if size < d.Size {
		return fail(cpi.TypeNotSupported, "cannot shrink disk '%s' from %d to %d MiB", cid, d.Size, size)
	}
	if size > d.Size && c.root.isImage(cid) {
		uid, gid := namespace.Owner()
		if err := volume.Grow(ctx, c.root.imageOf(cid), size, uid, gid); err != nil {
			return fmt.Errorf("cannot resize disk '%s': %w", cid, withCause(err))
		}
	}
	d.Size = size
	if props != nil {
		d.CloudProperties = props
	}
	return c.root.save(disks(), cid, d)
}

func (c *call) setDiskMetadata(context.Context) (any, error) {
	var cid string
	var metadata map[string]any
	if err := c.args((*cidArg)(&cid), &metadata); err != nil {
		return nil, err
	}
	d, err := c.loadDisk(cid)
	if err != nil {
		return nil, err
	}
	d.Metadata = merge(d.Metadata, metadata)
	return nil, c.root.save(disks(), cid, d)
}

func (c *call) snapshotDisk(ctx context.Context) (any, error) {
	var diskCID string
	var metadata map[string]any
	if err := c.args((*cidArg)(&diskCID), &metadata); err != nil {
		return nil, err
	}
	d, err := c.loadDisk(diskCID)
	if err != nil {
		return nil, err
	}
	cid, dir, err := c.root.create(snapshots())
	if err != nil {
		return nil, err
	}
	err = c.copyDisk(ctx, d, filepath.Join(dir, "data"))
	if err == nil {
		err = c.root.save(snapshots(), cid, snapshot{CID: cid, Disk: diskCID, Size: d.Size, Owners: c.snapshotOwners(d), Metadata: metadata, CreatedAt: time.Now().UTC()})
	}
	if err != nil {
		_ = c.root.removeTree(context.WithoutCancel(ctx), dir) // the next call tries again
		return nil, fmt.Errorf("cannot copy disk '%s': %w", diskCID, err)
	}
	return cid, nil
}

// copyTree copies a folder with modes, times, links and holes, with the program cp.
func copyTree(ctx context.Context, from, to string) error {
	cmd := exec.CommandContext(ctx, "cp", "-a", from, to)
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, text)
	}
	return nil
}

func (c *call) deleteSnapshot(ctx context.Context) (any, error) {
	var cid string
	if err := c.args((*cidArg)(&cid)); err != nil {
		return nil, err
	}
	if err := c.root.load(snapshots(), cid, &snapshot{}); err != nil {
		return nil, err
	}
	return nil, c.root.remove(ctx, snapshots(), cid)
}

// merge returns a copy of old with the keys of more.
func merge(old, more map[string]any) map[string]any {
	all := map[string]any{}
	for key, value := range old {
		all[key] = value
	}
	for key, value := range more {
		all[key] = value
	}
	return all
}
