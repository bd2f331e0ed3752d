package agent

import (
	"errors"
	"io/fs"
	"os"

	"bootstrap/internal/removal"
)

// The two mount points. Mounting replaces the mount point by a link to the folder of the
// disk, and keeps the previous folder as hiddenStore. If the VM has mounts of its own,
// the links are in bosh/mounts: they record the mounts, also for the next start of the
// VM.
const (
	storeName       = "store"
	migrationTarget = "store_migration_target"
	hiddenStore     = ".store-unmounted"
)

// mountedAt returns the folder of the disk that is mounted at the place, or "".
func (d *disks) mountedAt(place string) string {
	target, err := os.Readlink(d.linkOf(place))
	if err != nil {
		return ""
	}
	return target
}

// linkOf is the link to the disk that is mounted at the place.
func (d *disks) linkOf(place string) string {
	if d.vm.Mounts() {
		return d.vm.Path("bosh", "mounts", place)
	}
	return d.vm.Path(place)
}

// remount mounts the target of the place's link at the place; nothing if there is no
// link.
func (d *disks) remount(place string) error {
	want, at := d.mountedAt(place), d.vm.Path(place)
	mounted, same, err := d.vm.Mounted(want, place)
	if err != nil {
		return err
	}
	if mounted && !same {
		if err := d.vm.Unmount(place); err != nil {
			return err
		}
	}
	switch {
	case want == "" && place == migrationTarget:
		return removeFiles(at)
	case want == "" || same:
		return nil
	}
	if err := makeFolder(at, 0o755); err != nil {
		return err
	}
	if err := d.vm.Mount(want, place); err != nil || !d.vm.ManyUsers() {
		return err
	}
	return enterable(at)
}

// enterable gives all users of the VM access to the root folder of a disk, if only its
// owner has access.
func enterable(disk string) error {
	info, err := os.Stat(disk)
	if err == nil && info.Mode().Perm() == 0o700 {
		err = os.Chmod(disk, 0o755)
	}
	return err
}

// moveMount mounts the new disk of a migration at the store, after all files were copied
// to it.
func (d *disks) moveMount(folder string) error {
	if err := replaceLink(folder, d.linkOf(storeName)); err != nil {
		return err
	}
	if err := removeFiles(d.linkOf(migrationTarget)); err != nil || !d.vm.Mounts() {
		return err
	}
	if err := d.remount(migrationTarget); err != nil {
		return err
	}
	return d.remount(storeName)
}

// repairStore repairs the store after the agent was killed, and mounts the disks that
// were mounted when the VM ended. Their links still exist.
func (d *disks) repairStore() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.repairLinks(); err != nil || !d.vm.Mounts() {
		return err
	}
	if err := d.remount(migrationTarget); err != nil {
		return err
	}
	return d.remount(storeName)
}

func (d *disks) repairLinks() error {
	store := d.vm.Path(storeName)
	if target := d.mountedAt(storeName); target != "" {
		if target == d.mountedAt(migrationTarget) {
			return os.Remove(d.linkOf(migrationTarget)) // the migration was complete
		}
		all, err := d.settings.disks()
		if err != nil {
			return err
		}
		for _, disk := range all {
			if folder, err := diskFolder(disk); err == nil && folder == target {
				return nil
			}
		}
		d.log.Warn("the persistent disk that was mounted is gone", "folder", target)
		if d.vm.Mounts() {
			return os.Remove(d.linkOf(storeName))
		}
		return d.unmountPlace(storeName)
	}
	if d.vm.Mounts() {
		return makeFolder(store, 0o755)
	}
	_, err := os.Lstat(store)
	if errors.Is(err, fs.ErrNotExist) {
		err = os.Rename(d.vm.Path(hiddenStore), store)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFolder(store, 0o700)
	}
	return err
}

// mountPlace mounts the folder of a disk.
func (d *disks) mountPlace(place, folder string) error {
	if d.vm.Mounts() {
		if err := makeFolder(d.vm.Path("bosh", "mounts"), 0o700); err != nil {
			return err
		}
		if err := replaceLink(folder, d.linkOf(place)); err != nil {
			return err
		}
		return d.remount(place)
	}
	at := d.vm.Path(place)
	info, err := os.Lstat(at)
	switch {
	case err == nil && info.IsDir() && place == storeName:
		if err := removal.Tree(d.vm.Path(hiddenStore)); err != nil {
			return err
		}
		if err := os.Rename(at, d.vm.Path(hiddenStore)); err != nil {
			return err
		}
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return err
	}
	return replaceLink(folder, at)
}

func (d *disks) unmountPlace(place string) error {
	if d.vm.Mounts() {
		if err := d.vm.Unmount(place); err != nil {
			return err
		}
		if err := removeFiles(d.linkOf(place)); err != nil {
			return err
		}
		return d.remount(place)
	}
	if err := os.Remove(d.vm.Path(place)); err != nil {
		return err
	}
	if place != storeName {
		return nil
	}
	err := os.Rename(d.vm.Path(hiddenStore), d.vm.Path(storeName))
	if errors.Is(err, fs.ErrNotExist) {
		err = makeFolder(d.vm.Path(storeName), 0o700)
	}
	return err
}
