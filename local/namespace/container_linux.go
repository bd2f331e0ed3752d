package namespace

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// buildContainer makes the root file system of a VM from that of a stemcell.
func buildContainer(spec Spec) error {
	b := &builder{Spec: spec, root: filepath.Join(spec.Dir, rootDir)}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return mountError("/", err)
	}
	var err error
	if b.layers, err = os.OpenRoot(filepath.Join(b.Dir, layersDir)); err != nil {
		return err
	}
	defer func() { _ = b.layers.Close() }()
	for _, step := range []func() error{b.stemcell, b.add, b.stack, b.addTools, b.devices, b.sys, b.guest} {
		if err := step(); err != nil {
			return fmt.Errorf("cannot make the root file system of the VM: %w", err)
		}
	}
	return nil
}

// upperDir is the folder in the layers for files that differ from the stemcell.
const upperDir = "upper"

// stemcell makes the folders of the VM that are mounted or written to from outside. They
// replace links of the stemcell.
func (b *builder) stemcell() error {
	// They are empty as after a reboot.
	for _, name := range []string{"run", "tmp"} {
		if err := b.clear(path.Join(upperDir, name)); err != nil {
			return err
		}
	}
	for _, folder := range []struct {
		name string
		mode fs.FileMode
	}{
		{"", 0o755}, {"dev", 0o755}, {"proc", 0o555}, {"sys", 0o555}, {"run", 0o755}, {"run/lock", 0o777 | fs.ModeSticky}, {Guest[1:], 0o755},
		{"tmp", 0o777 | fs.ModeSticky}, {"var", 0o755}, {"var/tmp", 0o777 | fs.ModeSticky},
	} {
		if err := b.layer(path.Join(upperDir, folder.name), folder.mode); err != nil {
			return err
		}
	}
	// The program resolvconf writes there only if its service has started.
	if info, err := os.Lstat(filepath.Join(b.Image, "etc", "resolvconf")); err == nil && info.IsDir() {
		return b.put(File{Name: "run/resolvconf/interface/.keep", Mode: 0o644}, File{Name: "run/resolvconf/enable-updates", Mode: 0o644})
	}
	return nil
}

func (b *builder) add() error {
	if b.Systemd != nil { // an earlier start without systemd has replaced the program
		if err := b.clear(upperDir + systemctl); err != nil {
			return err
		}
	}
	return b.put(append([]File{{Name: "etc/resolv.conf", Text: b.resolvers(), Mode: 0o644}}, b.Added...)...)
}

// put writes files of the VM, which replace those of the stemcell or of a job.
func (b *builder) put(files ...File) error {
	for _, file := range files {
		if err := b.layer(path.Join(upperDir, path.Dir(file.Name)), 0o755); err != nil {
			return err
		}
		name := path.Join(upperDir, file.Name)
		if err := b.clear(name); err != nil {
			return err
		}
		if err := b.layers.WriteFile(name, []byte(file.Text), file.Mode); err != nil {
			return err
		}
		if err := b.layers.Chmod(name, file.Mode); err != nil {
			return err
		}
	}
	return nil
}

// stack mounts the stemcell with the VM's files on top.
func (b *builder) stack() error {
	const work = "work"
	if err := b.layer(work, 0o700); err != nil {
		return err
	}
	layers := filepath.Join(b.Dir, layersDir)
	image, err := filepath.Rel(layers, b.Image)
	if err != nil {
		return err
	}
	// The paths are relative, because commas and colons separate the options.
	if err := os.Chdir(layers); err != nil {
		return err
	}
	options := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s,userxattr", image, upperDir, work)
	if err := mount("overlay", b.root, "overlay", unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("%w: the file system of %s cannot be part of an overlay; set local_cpi.root to a folder of another one", err, b.Dir)
	}
	// Its owner cannot remove a folder without read permission.
	_ = b.layers.Chmod(path.Join(work, "work"), 0o700)
	return nil
}

func (b *builder) sys() error { return b.bindReadOnly("/sys", "/sys") }
