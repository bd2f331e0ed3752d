package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"bootstrap/internal/wait"
)

const (
	fileSystem  = "ext4"
	maker       = "mkfs.ext4"
	makerFolder = "/usr/sbin:/sbin:/usr/local/sbin" // folders that a user's PATH may lack
	control     = "/dev/loop-control"
	// lostFound is a folder that mkfs makes and that the VM could not use.
	lostFound = "lost+found"
	blockSize = 4 << 10
	mebibyte  = 1 << 20
)

// resizeIoctl is EXT4_IOC_RESIZE_FS.
const resizeIoctl = 0x40086610

// Can returns an error if this machine, or this user, cannot make and open volumes.
func Can() error {
	if os.Geteuid() != 0 {
		return &RefusedError{Cause: "only root can mount a disk with an enforced size"}
	}
	if _, err := findMaker(); err != nil {
		return &RefusedError{Cause: "the program " + maker + " is not installed", Remedy: "install it (Debian: sudo apt install e2fsprogs)"}
	}
	fd, err := unix.Fsopen(fileSystem, unix.FSOPEN_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENODEV):
		return &RefusedError{Cause: "the kernel has no " + fileSystem, Remedy: "sudo modprobe " + fileSystem}
	case err != nil:
		return &RefusedError{Cause: fmt.Sprintf("root may not mount here, as in most containers: %v", err), Remedy: "run bootstrap outside of the container, or in one with --privileged"}
	}
	_ = unix.Close(fd)
	loop, err := newLoop()
	if err != nil {
		return &RefusedError{Cause: fmt.Sprintf("there is no loop device: %v", err), Remedy: "sudo modprobe loop; a container needs --privileged and the machine's /dev"}
	}
	_ = loop.Close()
	return nil
}

func findMaker() (string, error) {
	if found, err := exec.LookPath(maker); err == nil {
		return found, nil
	}
	for dir := range strings.SplitSeq(makerFolder, ":") {
		if found, err := exec.LookPath(filepath.Join(dir, maker)); err == nil {
			return found, nil
		}
	}
	return "", exec.ErrNotFound
}

// Make makes an empty file system of a size in MiB in a new file. Its root folder
// belongs to a user and a group, and is empty.
func Make(ctx context.Context, name string, size, uid, gid int) error {
	program, err := findMaker()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Truncate(int64(size)*mebibyte), f.Close()); err != nil {
		return err
	}
	owner := fmt.Sprintf("root_owner=%d:%d,nodiscard,lazy_journal_init=1", uid, gid)
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-m", "0", "-b", strconv.Itoa(blockSize), "-E", owner, name) // #nosec G204 -- the mkfs.ext4 of this machine
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %s", maker, err, strings.TrimSpace(string(output)))
	}
	root, mounted, err := open(name)
	if err != nil {
		return err
	}
	defer closeBoth(root, mounted)
	err = unix.Unlinkat(int(root.Fd()), lostFound, unix.AT_REMOVEDIR)
	if err != nil && !errors.Is(err, unix.ENOENT) {
		return &fs.PathError{Op: "remove", Path: lostFound, Err: err}
	}
	return nil
}

// Open returns the root folder of the file system in a file, as a mount that can be
// moved (MOVE_MOUNT_F_EMPTY_PATH). Opened twice, it is the same file system.
func Open(name string) (*os.File, error) {
	root, mounted, err := open(name)
	if err != nil {
		return nil, err
	}
	_ = root.Close()
	return mounted, nil
}

// Folder returns the root folder of the file system in a file, which can be read as
// long as it is open.
func Folder(name string) (*os.File, error) {
	root, mounted, err := open(name)
	if err != nil {
		return nil, err
	}
	_ = mounted.Close()
	return root, nil
}

// Grow enlarges the file system in a file to a size in MiB. After a kill, the same call
// finishes that. uid and gid are as for Make.
func Grow(ctx context.Context, name string, size, uid, gid int) error {
	before, err := os.Stat(name)
	if err != nil {
		return err
	}
	if before.Size() < int64(size)*mebibyte {
		if err := os.Truncate(name, int64(size)*mebibyte); err != nil {
			return err
		}
	}
	refused := growInPlace(name, size)
	if refused == nil {
		return nil
	}
	if err := awaitUnused(ctx, name); err != nil {
		return errors.Join(refused, err)
	}
	return rebuild(ctx, name, size, uid, gid)
}

// endTime is how long the kernel may take to unmount a file system after its last user
// has ended.
const endTime = 10 * time.Second

func awaitUnused(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, endTime, errors.New("a process still uses it"))
	defer cancel()
	return wait.Poll(ctx, 5*time.Millisecond, func() (bool, error) {
		used, err := Used(name)
		return !used, err
	})
}

func growInPlace(name string, size int) error {
	root, mounted, err := open(name)
	if err != nil {
		return err
	}
	defer closeBoth(root, mounted)
	blocks := uint64(size) * (mebibyte / blockSize)                                                          // #nosec G115 -- positive
	_, _, no := syscall.Syscall(syscall.SYS_IOCTL, root.Fd(), resizeIoctl, uintptr(unsafe.Pointer(&blocks))) // #nosec G103 -- the kernel reads it
	if no != 0 {
		return fmt.Errorf("the kernel cannot make the file system larger: %w", no)
	}
	return unix.Syncfs(int(root.Fd()))
}

// rebuild replaces the file system in a file by a larger one with the same files, as
// for a root without CAP_SYS_RESOURCE.
func rebuild(ctx context.Context, name string, size, uid, gid int) error {
	larger := name + ".new"
	if err := os.Remove(larger); err != nil && !errors.Is(err, fs.ErrNotExist) { // left by a killed call
		return err
	}
	err := Make(ctx, larger, size, uid, gid)
	if err == nil {
		err = copyAll(ctx, name, larger)
	}
	if err == nil {
		err = os.Rename(larger, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(larger))
	}
	return nil
}

func copyAll(ctx context.Context, from, to string) error {
	source, err := Folder(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return copyInto(ctx, source, to)
}

// copyInto copies the files of a folder to the file system in a file.
func copyInto(ctx context.Context, source *os.File, name string) error {
	target, err := Folder(name)
	if err != nil {
		return err
	}
	defer target.Close()
	if err := copyTo(ctx, source, "/proc/self/fd/4", target); err != nil {
		return err
	}
	return unix.Syncfs(int(target.Fd()))
}

// Copy copies the files of the file system in a file to a new folder.
func Copy(ctx context.Context, name, to string) error {
	source, err := Folder(name)
	if err != nil {
		return err
	}
	defer source.Close()
	return copyTo(ctx, source, to)
}

func copyTo(ctx context.Context, source *os.File, to string, more ...*os.File) error {
	cmd := exec.CommandContext(ctx, "cp", "-a", "/proc/self/fd/3/.", to)
	cmd.ExtraFiles = append([]*os.File{source}, more...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(output)))
	}
	return nil
}

// Fill copies the files of a folder to the file system in a file.
func Fill(ctx context.Context, from, name string) error {
	source, err := os.Open(from)
	if err != nil {
		return err
	}
	defer source.Close()
	return copyInto(ctx, source, name)
}

// Used reports whether the file system in a file is still in use.
func Used(name string) (bool, error) {
	loop, err := loopOf(name)
	if err != nil || loop == nil {
		return false, err
	}
	return true, loop.Close()
}

func closeBoth(root, mounted *os.File) {
	_ = root.Close()
	_ = mounted.Close()
}

// open opens the file system in a file without mounting it at a path.
func open(name string) (root, mounted *os.File, err error) {
	loop, err := attach(name)
	if err != nil {
		return nil, nil, fmt.Errorf("cannot make a loop device of %s: %w", name, err)
	}
	defer loop.Close() // the mount keeps the loop device
	mount, err := mountLoop(loop.Name())
	if err != nil {
		return nil, nil, fmt.Errorf("cannot mount %s: %w", name, err)
	}
	mounted = os.NewFile(uintptr(mount), name)
	fd, err := unix.Openat(mount, ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		_ = mounted.Close()
		return nil, nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), name), mounted, nil
}

func mountLoop(device string) (fd int, err error) {
	config, err := unix.Fsopen(fileSystem, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return 0, err
	}
	defer unix.Close(config)
	if err := unix.FsconfigSetString(config, "source", device); err != nil {
		return 0, err
	}
	// Discarding frees the space of files that a VM deletes.
	if err := unix.FsconfigSetFlag(config, "discard"); err != nil {
		return 0, err
	}
	if err := unix.FsconfigCreate(config); err != nil {
		return 0, err
	}
	return unix.Fsmount(config, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV)
}

// attach returns the loop device of a file, and creates it if there is none: two devices
// would be two file systems that damage each other. The device ends with its last user.
func attach(name string) (*os.File, error) {
	loop, err := loopOf(name)
	if err != nil {
		return nil, err
	}
	if loop != nil {
		// The file may have grown.
		if err := unix.IoctlSetInt(int(loop.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
			_ = loop.Close()
			return nil, err
		}
		return loop, nil
	}
	f, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	for range mostTries {
		if loop, err = newLoop(); err != nil {
			return nil, err
		}
		if err = configure(loop, f); err == nil {
			return loop, nil
		}
		_ = loop.Close()
		if !errors.Is(err, unix.EBUSY) {
			break
		}
	}
	return nil, err
}

// mostTries limits how often another process may take a free loop device first.
const mostTries = 100

// configure attaches a file to a free loop device. Without direct access, all data would
// be in memory twice.
func configure(loop, f *os.File) (err error) {
	for _, flags := range []uint32{unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO, unix.LO_FLAGS_AUTOCLEAR} {
		config := unix.LoopConfig{Fd: uint32(f.Fd()), Info: unix.LoopInfo64{Flags: flags}} // #nosec G115 -- a descriptor
		copy(config.Info.File_name[:len(config.Info.File_name)-1], filepath.Base(filepath.Dir(f.Name())))
		if err = unix.IoctlLoopConfigure(int(loop.Fd()), &config); err == nil || !errors.Is(err, unix.EINVAL) {
			return err
		}
	}
	return err
}

// newLoop opens a free loop device.
func newLoop() (*os.File, error) {
	f, err := os.OpenFile(control, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	n, err := unix.IoctlRetInt(int(f.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, &fs.PathError{Op: "get", Path: control, Err: err}
	}
	return os.OpenFile(loopName(n), os.O_RDWR, 0)
}

func loopName(n int) string { return "/dev/loop" + strconv.Itoa(n) }

// loopOf opens the loop device of a file; nil: it has none.
func loopOf(name string) (*os.File, error) {
	var want unix.Stat_t
	if err := unix.Stat(name, &want); err != nil {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: err}
	}
	devices, err := filepath.Glob("/dev/loop[0-9]*")
	if err != nil {
		return nil, err
	}
	for _, device := range devices {
		loop, err := os.OpenFile(device, os.O_RDONLY, 0)
		if err != nil {
			continue // the device was removed
		}
		status, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
		if err == nil && status.Device == want.Dev && status.Inode == want.Ino {
			return loop, nil
		}
		_ = loop.Close()
	}
	return nil, nil
}
