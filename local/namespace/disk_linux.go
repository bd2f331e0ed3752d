package namespace

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
)

// firstDiskFD is the first descriptor of the disks that the part "build" inherits.
const firstDiskFD = waitFD + 1

// Attach mounts a disk in the VM in dir, if the VM is running. It may be repeated.
func Attach(ctx context.Context, dir string, disk Disk) error {
	pid, runs := First(dir)
	if !runs {
		return nil
	}
	there, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "ns", "mnt"))
	if err != nil {
		return err
	}
	defer there.Close()
	if same, runs := First(dir); !runs || same != pid {
		return nil // the VM has just ended
	}
	return onThread(ctx, func() error {
		if err := unix.Unshare(unix.CLONE_FS); err != nil {
			return fmt.Errorf("cannot enter the VM: %w", err)
		}
		if err := unix.Setns(int(there.Fd()), unix.CLONE_NEWNS); err != nil {
			return fmt.Errorf("cannot enter the VM: %w", err)
		}
		return disk.moveTo(filepath.Join(Guest, disksDir))
	})
}

// onThread runs a function on a thread of its own, which ends with the function, because
// no other code may run in the VM.
func onThread(ctx context.Context, fn func() error) error {
	return <-guard.Start(ctx, func() error {
		runtime.LockOSThread() // never unlocked: Go ends the thread with this goroutine
		if unix.Gettid() != os.Getpid() {
			return fn()
		}
		// Go would not end the main thread.
		defer runtime.UnlockOSThread()
		return onThread(ctx, fn)
	})
}

// moveTo mounts the disk at its folder. Jobs may have changed the parent folder, so links
// in it are not followed.
func (d Disk) moveTo(folder string) error {
	place := filepath.Join(folder, d.CID)
	fd, err := unix.Openat2(unix.AT_FDCWD, place, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return &fs.PathError{Op: "open", Path: place, Err: err}
	}
	defer unix.Close(fd)
	var mine, there unix.Stat_t
	if err := unix.Fstat(int(d.Mount.Fd()), &mine); err != nil {
		return mountError(place, err)
	}
	if err := unix.Fstat(fd, &there); err != nil {
		return mountError(place, err)
	}
	if mine.Dev == there.Dev && mine.Ino == there.Ino {
		return nil // a killed call has mounted it
	}
	if err := unix.MoveMount(int(d.Mount.Fd()), "", fd, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH); err != nil {
		return mountError(place, err)
	}
	return nil
}

// inherited opens the disks that this process has inherited.
func inherited(disks []Disk) {
	for i := range disks {
		fd := firstDiskFD + i
		unix.CloseOnExec(fd)
		disks[i].Mount = os.NewFile(uintptr(fd), disks[i].CID) // #nosec G115 -- a descriptor
	}
}

// mountDisks mounts the disks that are file systems. They are unmounted when the VM ends.
func (b *builder) mountDisks() error {
	for _, d := range b.Mounted {
		if err := d.moveTo(b.at(filepath.Join(Guest, disksDir))); err != nil {
			return err
		}
		if err := d.Mount.Close(); err != nil {
			return err
		}
	}
	return nil
}
