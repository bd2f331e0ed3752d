package namespace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"bootstrap/internal/mounts"
	"bootstrap/internal/removal"
)

// buildVM makes the root file system of a VM, in the namespaces that Start has made, and
// starts the first process of the VM. It returns when the agent was started.
func buildVM(spec Spec) error {
	build := buildRoot
	if spec.Image != "" {
		build = buildContainer
	}
	if err := build(spec); err != nil {
		return err
	}
	spec.Added, spec.Mounted = nil, nil // because arguments are visible in lists of processes
	arg, err := json.Marshal(spec)
	if err != nil {
		return err
	}
	held, err := await()
	if err != nil {
		return err
	}
	report, says, err := os.Pipe()
	if err != nil {
		return err
	}
	ready, done, err := os.Pipe()
	if err != nil {
		return err
	}
	// The path is relative, because the VM's owner may have no access to the folders
	// above.
	if err := os.Chdir(filepath.Join(spec.Dir, rootDir)); err != nil {
		return err
	}
	cmd := exec.Command("."+GuestProgram, "plugin", "machine", "init", string(arg)) // #nosec G204 -- this program
	cmd.Env = os.Environ()
	cmd.ExtraFiles = []*os.File{os.NewFile(logFD, "log"), os.NewFile(aliveFD, "alive"), says, ready}
	flags := uintptr(syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS)
	if spec.Network != nil {
		flags |= syscall.CLONE_NEWNET
	}
	if held.Cgroup != "" {
		flags |= syscall.CLONE_NEWCGROUP // this process is in the root of the VM's view
	}
	isolateAgain(cmd, flags, spec.Users)
	if err := takeShare(spec.Shares); err != nil {
		return fmt.Errorf("cannot set the limits of the VM: %w", err)
	}
	if err := startWithoutKeys(cmd); err != nil {
		return err
	}
	_, _ = says.Close(), ready.Close()
	if err := recordFirst(spec.Dir, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return err
	}
	if err := divide(held.Cgroup, cmd.Process.Pid); err != nil {
		_ = cmd.Process.Kill()
		return fmt.Errorf("cannot divide the VM's cgroup: %w", err)
	}
	if err := json.NewEncoder(done).Encode(held); err != nil {
		return err
	}
	return reported(report)
}

// builder mounts one root file system.
type builder struct {
	Spec
	root   string                  // mount point
	mounts map[string]mounts.Mount // the machine's, by mount point
	above  map[string]bool         // folders of the machine with mount points below them
	hidden []string                // folders of the machine that hide has covered
	layers *os.Root                // the files that differ; its links are not followed, because jobs can write there
}

func buildRoot(spec Spec) error {
	b := &builder{Spec: spec, root: filepath.Join(spec.Dir, rootDir)}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return mountError("/", err)
	}
	if err := b.readMounts(); err != nil {
		return err
	}
	if err := mount("tmpfs", b.root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=16m"); err != nil {
		return err
	}
	if err := b.openLayers(); err != nil {
		return err
	}
	defer func() { _ = b.layers.Close() }()
	for _, step := range []func() error{b.system, b.etc, b.hide, b.hidePrivate, b.var_, b.own, b.devices, b.views, b.guest} {
		if err := step(); err != nil {
			return fmt.Errorf("cannot make the root file system of the VM: %w", err)
		}
	}
	return nil
}

// openLayers opens the folder of the VM's own files. If its file system cannot be part of
// an overlay, the files are in memory and end with the VM.
func (b *builder) openLayers() error {
	dir := filepath.Join(b.Dir, layersDir)
	open := func() (err error) {
		b.layers, err = os.OpenRoot(dir)
		return err
	}
	if err := open(); err != nil {
		return err
	}
	if err := b.layer("opt/upper", 0o755); err != nil {
		return err
	}
	if b.overlayFrom(b.root, "/opt") == nil {
		return unix.Unmount(b.at("/opt"), unix.MNT_DETACH)
	}
	_ = b.layers.Close()
	if err := mount("tmpfs", dir, "tmpfs", unix.MS_NODEV, "mode=0700"); err != nil {
		return err
	}
	return open()
}

func mountError(target string, err error) error {
	return &fs.PathError{Op: "mount", Path: target, Err: err}
}

func mount(source, target, kind string, flags uintptr, data string) error {
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return mountError(target, err)
	}
	return nil
}

// at returns the builder's path for a path in the VM.
func (b *builder) at(guest string) string { return filepath.Join(b.root, guest) }

// bind mounts a folder or file at a path in the VM, which it creates.
func (b *builder) bind(source, guest string, flags uintptr) error {
	info, err := os.Stat(source)
	if err != nil {
		return err
	}
	target := b.at(guest)
	if info.IsDir() {
		err = os.MkdirAll(target, 0o755)
	} else if _, missing := os.Lstat(target); missing != nil {
		err = os.WriteFile(target, nil, 0o600)
	}
	if err != nil {
		return err
	}
	return mount(source, target, "", unix.MS_BIND|flags, "")
}

// bindReadOnly is like bind, but read-only, including all mounts below.
func (b *builder) bindReadOnly(source, guest string) error {
	if err := b.bind(source, guest, unix.MS_REC); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, b.at(guest), unix.AT_RECURSIVE, &attr); err != nil {
		return mountError(guest, err)
	}
	return nil
}

// layer makes a folder of the VM's own files, if it does not exist. It removes anything
// that a job has put at that path or in place of a parent folder, such as a link that
// leads out of the VM.
func (b *builder) layer(name string, mode fs.FileMode) error {
	parts := strings.Split(filepath.Clean(name), "/")
	for i := range parts {
		at := strings.Join(parts[:i+1], "/")
		info, err := b.layers.Lstat(at)
		if err == nil && info.IsDir() {
			continue
		}
		if err == nil {
			if err := b.clear(at); err != nil {
				return err
			}
		}
		if err := b.layers.Mkdir(at, 0o755); err != nil {
			return err
		}
		if i == len(parts)-1 {
			return b.layers.Chmod(at, mode)
		}
	}
	return nil
}

// system mounts the programs and libraries of the machine. The VM can add files to the
// folders of the first list.
func (b *builder) system() error {
	for _, dir := range []string{"/usr", "/opt"} {
		if err := b.layer(dir[1:]+"/upper", 0o755); err != nil {
			return err
		}
		if !b.isThere(dir) {
			if err := b.bind(filepath.Join(b.Dir, layersDir, dir, "upper"), dir, 0); err != nil {
				return err
			}
			continue
		}
		if err := b.openFolders(dir, systemDepth(dir)); err != nil {
			return err
		}
		open, err := b.show(dir)
		if open && dir == "/usr" {
			err = b.addTools()
		}
		if err != nil {
			return err
		}
	}
	for _, dir := range []string{"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix", "/gnu"} {
		var err error
		if target, failed := os.Readlink(dir); failed == nil {
			err = os.Symlink(target, b.at(dir))
		} else if b.isThere(dir) {
			err = b.showReadOnly(dir)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// systemDepth returns the number of levels below a folder of the machine to which the VM
// can add files.
func systemDepth(dir string) int {
	if dir == "/opt" {
		return 1
	}
	return 2
}

// openFolders copies the folders of the machine, without files, to the VM's layer.
// Otherwise the VM could not add files to them, because they belong to a user that it
// does not have.
func (b *builder) openFolders(dir string, depth int) error {
	entries, err := someEntries(dir, mostListed)
	if err != nil {
		return nil // only its owner may read it, or it is too large
	}
	entries = slices.DeleteFunc(entries, func(entry fs.DirEntry) bool { return !entry.IsDir() || b.apart(filepath.Join(dir, entry.Name())) })
	if len(entries) > mostOpened {
		return nil
	}
	for _, entry := range entries {
		below := filepath.Join(dir, entry.Name())
		info, err := entry.Info()
		if err != nil || info.Mode().Perm()&0o005 != 0o005 {
			continue
		}
		if err := b.layer(b.upper(below), info.Mode().Perm()|0o700); err != nil {
			return err
		}
		if depth > 1 {
			if err := b.openFolders(below, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// upper returns the path of a file in the layer of its folder or, for a file of a
// stemcell, in the only layer.
func (b *builder) upper(name string) string {
	if b.Image != "" {
		return upperDir + name
	}
	top, rest, _ := strings.Cut(strings.TrimPrefix(name, "/"), "/")
	return top + "/upper/" + rest
}

// var_ makes a /var of the VM's own, with its jobs, packages and data.
func (b *builder) var_() error {
	for name, mode := range map[string]fs.FileMode{
		"": 0o755, "cache": 0o755, "lib": 0o755, "lib/misc": 0o755, "local": 0o755, "log": 0o755, "mail": 0o755, "opt": 0o755,
		"spool": 0o755, "spool/cron": 0o755, "spool/cron/crontabs": 0o700, "tmp": 0o777 | fs.ModeSticky, "vcap": 0o755,
	} {
		if err := b.layer(filepath.Join("var", name), mode); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{"var/run": "/run", "var/lock": "/run/lock"} {
		if _, err := b.layers.Lstat(name); err != nil {
			if err := b.layers.Symlink(target, name); err != nil {
				return err
			}
		}
	}
	if err := b.bind(filepath.Join(b.Dir, layersDir, "var"), "/var", 0); err != nil {
		return err
	}
	// Tools expect these files of the machine there.
	for _, dir := range []string{"lib/dpkg", "lib/rpm"} {
		if info, err := os.Stat("/var/" + dir); err != nil || !info.IsDir() {
			continue
		}
		if err := b.layer("var/"+dir, 0o755); err != nil {
			return err
		}
		if err := b.bindReadOnly("/var/"+dir, "/var/"+dir); err != nil {
			return err
		}
	}
	return b.bind(filepath.Join(b.Dir, vcapDir), GuestVcap, 0)
}

// own makes the folders that contain only the VM's own files.
func (b *builder) own() error {
	// They are empty as after a reboot.
	if err := b.clear("tmp"); err != nil {
		return err
	}
	for _, dir := range []struct {
		name string
		mode fs.FileMode
	}{{"home", 0o755}, {"home/vcap", 0o755}, {"srv/upper", 0o755}, {"root", 0o700}, {"tmp", 0o777 | fs.ModeSticky}} {
		if err := b.layer(dir.name, dir.mode); err != nil {
			return err
		}
	}
	if b.Users.Many() {
		if err := b.layers.Lchown("home/vcap", VcapID, VcapID); err != nil {
			return err
		}
	}
	for _, name := range []string{"home", "root", "tmp"} {
		if err := b.bind(filepath.Join(b.Dir, layersDir, name), "/"+name, 0); err != nil {
			return err
		}
	}
	// Earlier versions kept the VM's changes to the machine's files here.
	if err := b.bind(filepath.Join(b.Dir, layersDir, "srv", "upper"), "/srv", 0); err != nil {
		return err
	}
	for _, name := range []string{"/mnt", "/media", "/boot"} {
		if err := os.Mkdir(b.at(name), 0o755); err != nil {
			return err
		}
	}
	return nil
}

// clear removes anything that a job has put at a path of the VM's own files: a link, or a
// folder of any depth. If nothing is there, that is not an error.
func (b *builder) clear(name string) error {
	parent, err := b.layers.Open(filepath.Dir(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return removal.At(parent, filepath.Base(name))
}

// devices makes a /dev with the usual device nodes of the machine.
func (b *builder) devices() error {
	if err := os.MkdirAll(b.at("/dev"), 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", b.at("/dev"), "tmpfs", unix.MS_NOSUID, "mode=0755,size=1m"); err != nil {
		return err
	}
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		if err := b.bind("/dev/"+name, "/dev/"+name, 0); err != nil {
			return err
		}
	}
	for name, target := range map[string]string{
		"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2",
		"core": "/proc/kcore", "ptmx": "pts/ptmx",
	} {
		if err := os.Symlink(target, b.at("/dev/"+name)); err != nil {
			return err
		}
	}
	for _, m := range []struct{ name, kind, data string }{
		{"/dev/pts", "devpts", "newinstance,ptmxmode=0666,mode=0620"},
		{"/dev/shm", "tmpfs", "mode=1777"},
	} {
		if err := os.Mkdir(b.at(m.name), 0o755); err != nil {
			return err
		}
		if err := mount(m.kind, b.at(m.name), m.kind, unix.MS_NOSUID|unix.MS_NOEXEC, m.data); err != nil {
			return err
		}
	}
	return nil
}

// views mounts the file systems with the kernel's state. Init mounts /proc, with the
// processes of its own namespace.
func (b *builder) views() error {
	if err := os.Mkdir(b.at("/proc"), 0o555); err != nil {
		return err
	}
	if err := b.bindReadOnly("/sys", "/sys"); err != nil {
		return err
	}
	if err := os.Mkdir(b.at("/run"), 0o755); err != nil {
		return err
	}
	if err := mount("tmpfs", b.at("/run"), "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	return os.Mkdir(b.at("/run/lock"), 0o777) // #nosec G301 -- as on every machine, and only in the VM
}

// guest mounts the VM's folder, in which the agent finds its settings.
func (b *builder) guest() error {
	// The program and the disks are mounted before the folder becomes read-only.
	if err := b.bind(b.Dir, Guest, 0); err != nil {
		return err
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
	if err := unix.MountSetattr(unix.AT_FDCWD, b.at(Guest), 0, &attr); err != nil {
		return mountError(Guest, err)
	}
	if err := b.bindReadOnly(b.Program, filepath.Join(Guest, programFile)); err != nil {
		return err
	}
	if err := b.bind(b.Disks, filepath.Join(Guest, disksDir), 0); err != nil {
		return err
	}
	if err := b.mountDisks(); err != nil {
		return err
	}
	for _, name := range b.Files {
		if err := b.bind(filepath.Join(b.Dir, name), filepath.Join(Guest, name), 0); err != nil {
			return err
		}
	}
	return nil
}
