package cpi

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"bootstrap/internal/atomicfile"
	"bootstrap/local/namespace"
)

// attachedFolder has a folder for each VM of namespaces, which the VM can see, with the
// data of its attached disks. In the folder of such a disk, data is a link to that place.
const attachedFolder = "attached"

func (r *root) attachedDir(vm string) string { return filepath.Join(r.dir, attachedFolder, vm) }

// handOver moves the data of a disk to the folder that a VM sees. It makes a link there
// and then exchanges link and data, so that the name data always leads to the data.
func (r *root) handOver(ctx context.Context, disk, vm string) error {
	data, there := filepath.Join(r.path(disks(), disk), "data"), filepath.Join(r.attachedDir(vm), disk)
	if isFolder(there) {
		if !isFolder(data) {
			return nil
		}
		// A job has made a folder with that name, so the VM does not have the data yet.
		if err := r.removeTree(ctx, there); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(r.attachedDir(vm), 0o700); err != nil {
		return err
	}
	if err := namespace.GiveTree(data); err != nil {
		return err
	}
	if err := os.Remove(there); err != nil && !errors.Is(err, fs.ErrNotExist) { // a link that a killed call left
		return err
	}
	if err := os.Symlink(filepath.Join("..", "..", attachedFolder, vm, disk), there); err != nil {
		return err
	}
	if err := r.exchange(ctx, data, there); err != nil {
		return err
	}
	return errors.Join(atomicfile.SyncDir(filepath.Dir(there)), atomicfile.SyncDir(filepath.Dir(data)))
}

// takeBack moves the data of a disk back to its folder.
func (r *root) takeBack(ctx context.Context, disk, vm string) error {
	data, there := filepath.Join(r.path(disks(), disk), "data"), filepath.Join(r.attachedDir(vm), disk)
	_, err := os.Lstat(there)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case r.isImage(disk):
		// Removing the folder also ends its mount.
		return r.removeTree(ctx, there)
	case isFolder(there) && isFolder(data):
		return r.removeTree(ctx, there) // a job has made this folder
	case isFolder(there):
		if err := r.exchange(ctx, data, there); err != nil {
			return err
		}
	}
	return errors.Join(atomicfile.SyncDir(filepath.Dir(data)), os.Remove(there))
}

// takeBackAll moves the data of all disks of a VM that has ended back to their folders.
func (r *root) takeBackAll(ctx context.Context, vm string) error {
	entries, err := os.ReadDir(r.attachedDir(vm))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		disk := entry.Name()
		if !r.isAttached(disk, vm) {
			// A job has made this folder, or somebody has removed the folder of the disk.
			if err := r.removeTree(ctx, filepath.Join(r.attachedDir(vm), disk)); err != nil {
				return err
			}
			continue
		}
		if err := r.takeBack(ctx, disk, vm); err != nil {
			return err
		}
	}
	return os.Remove(r.attachedDir(vm))
}

// isAttached reports whether the disk is attached to the VM, according to its record.
func (r *root) isAttached(cid, vm string) bool {
	var d disk
	return r.load(disks(), cid, &d) == nil && d.VM == vm
}

// sweepAttached takes back the disks of VMs that no longer exist.
func (r *root) sweepAttached(ctx context.Context) error {
	entries, err := os.ReadDir(filepath.Join(r.dir, attachedFolder))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var left []error
	for _, entry := range entries {
		dir := r.path(vms(), entry.Name())
		if _, err := os.Lstat(dir); !isCID(vms(), entry.Name()) || !errors.Is(err, fs.ErrNotExist) {
			continue
		}
		err := endVM(ctx, dir)
		if err == nil {
			err = r.takeBackAll(ctx, entry.Name())
		}
		if err != nil {
			left = append(left, fmt.Errorf("cannot take back the disks of VM '%s', which is gone: %w", entry.Name(), err))
		}
	}
	return errors.Join(left...)
}
