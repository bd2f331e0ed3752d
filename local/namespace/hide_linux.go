package namespace

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// hide covers the person's home and the folder of all VMs with an empty folder, if they
// are in a folder of the machine that the VM sees, such as /opt.
func (b *builder) hide() error {
	home := os.Getenv("HOME")
	if info, err := os.Stat(filepath.Join(home, ".bosh")); err != nil || !info.IsDir() {
		home = "" // it is the home of a system user, such as /usr/sbin
	}
	for _, dir := range []string{home, filepath.Dir(filepath.Dir(b.Dir))} {
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil || !slices.ContainsFunc([]string{"/usr/", "/opt/", "/etc/"}, func(shown string) bool { return strings.HasPrefix(dir, shown) }) {
			continue
		}
		place := b.at(dir)
		if info, err := os.Lstat(place); err != nil || !info.IsDir() {
			continue // the other cover contains it, or a job has removed it
		}
		if err := mount("tmpfs", place, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "mode=0755,size=4k"); err != nil {
			return err
		}
		b.hidden = append(b.hidden, dir)
	}
	return nil
}
