package cpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/agent"
	"bootstrap/internal/atomicfile"
	"bootstrap/local/namespace"
	"bootstrap/local/volume"
)

// imageFile is the name of a file in the folder of a disk. It has the disk's data as a
// file system, whose size limits the disk. Other disks have the folder data.
const imageFile = "disk.img"

func (r *root) imageOf(disk string) string { return filepath.Join(r.path(disks(), disk), imageFile) }

// isImage reports whether the data of a disk is a file system.
func (r *root) isImage(disk string) bool {
	// If both exist, a killed call has copied the data to the folder.
	if _, err := os.Lstat(filepath.Join(r.path(disks(), disk), "data")); !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	info, err := os.Lstat(r.imageOf(disk))
	return err == nil && info.Mode().IsRegular()
}

// DisksNotHeld returns why the size of new persistent disks is not enforced for VMs of
// the kind machine; nil: it is enforced.
func DisksNotHeld(machine string) *NotHeldError {
	err := error(&volume.RefusedError{Cause: "a VM that is a folder has no mounts"})
	if agent.Isolated(machine) {
		err = volume.Can()
	}
	if err == nil {
		return nil
	}
	e := &NotHeldError{Names: []string{"the size of their persistent disks"}, Cause: err}
	var refused *volume.RefusedError
	if errors.As(err, &refused) {
		e.Remedy = refused.Remedy
	}
	return e
}

// makeData makes the data of a new disk for the VM near, which may be nil: a file system
// if the VM and this machine support that; otherwise a folder. notHeld says why a file
// system was tried and failed.
func (c *call) makeData(ctx context.Context, dir string, size int, near any) (notHeld string, err error) {
	if cid, ok := near.(string); ok {
		machine, exists := localVM(c.root.dir, cid)
		if exists && DisksNotHeld(machine.Machine) == nil {
			uid, gid := namespace.Owner()
			image := filepath.Join(dir, imageFile)
			if err = volume.Make(ctx, image, size, uid, gid); err == nil || ctx.Err() != nil {
				return "", err
			}
			// For example on a file system that cannot have loop devices.
			notHeld = err.Error()
			if err := os.Remove(image); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return "", err
			}
		}
	}
	return notHeld, os.Mkdir(filepath.Join(dir, "data"), 0o700)
}

// mountPoint makes the mount point of a disk for a VM.
func (r *root) mountPoint(disk, vm string) error {
	place := filepath.Join(r.attachedDir(vm), disk)
	if isFolder(place) {
		return nil
	}
	if err := os.Remove(place); err != nil && !errors.Is(err, fs.ErrNotExist) { // the VM can write there
		return err
	}
	return os.MkdirAll(place, 0o700)
}

// openImage opens a disk that is a file system, for a VM.
func (r *root) openImage(disk, vm string) (namespace.Disk, error) {
	d := namespace.Disk{CID: disk}
	err := r.mountPoint(disk, vm)
	if err == nil {
		d.Mount, err = volume.Open(r.imageOf(disk))
	}
	if err != nil {
		return d, fmt.Errorf("cannot mount disk '%s': %w", disk, withCause(err))
	}
	return d, nil
}

// withCause adds why this machine cannot have disks that are file systems.
func withCause(err error) error {
	var refused *volume.RefusedError
	if err != nil && errors.As(volume.Can(), &refused) {
		return fmt.Errorf("%s; %w", refused.Cause, err)
	}
	return err
}

// lendImage mounts a disk that is a file system in a running VM. If the VM is not
// running, its next start does so.
func (r *root) lendImage(ctx context.Context, disk, vm string) error {
	d, err := r.openImage(disk, vm)
	if err != nil {
		return err
	}
	defer d.Mount.Close()
	return namespace.Attach(ctx, r.path(vms(), vm), d)
}

// openImages opens the disks of a VM that are file systems.
func (c *call) openImages(vm string) ([]namespace.Disk, error) {
	attached, err := c.attachedTo(vm)
	if err != nil {
		return nil, err
	}
	var all []namespace.Disk
	for _, d := range attached {
		if !c.root.isImage(d.CID) {
			continue
		}
		one, err := c.root.openImage(d.CID, vm)
		if err != nil {
			closeImages(all)
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

func closeImages(all []namespace.Disk) {
	for _, d := range all {
		_ = d.Mount.Close()
	}
}

// toFolder converts the data of a disk to a folder, for a VM that is a folder.
func (c *call) toFolder(ctx context.Context, disk string) error {
	dir := c.root.path(disks(), disk)
	data, image := filepath.Join(dir, "data"), c.root.imageOf(disk)
	if c.root.isImage(disk) {
		copied := data + ".new"
		if err := c.root.removeTree(ctx, copied); err != nil { // a copy that a killed call left
			return err
		}
		if err := volume.Copy(ctx, image, copied); err != nil {
			return withCause(err)
		}
		if err := syncTree(copied); err != nil {
			return err
		}
		if err := os.Rename(copied, data); err != nil {
			return err
		}
		if err := atomicfile.SyncDir(dir); err != nil {
			return err
		}
	}
	if err := os.Remove(image); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
