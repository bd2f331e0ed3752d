package cgroup

import (
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"bootstrap/internal/mounts"
)

// Home is a place for the cgroups of VMs.
type Home struct {
	mount       string   // mount point of the file system of cgroups
	dir         string   // the parent of VMs' cgroups; systemd may make them in one of its descendants
	buses       []bus    // sockets of the systemd that makes them; none: this program makes them
	controllers []string // the controllers of VMs' cgroups
}

// Find returns the place for the cgroups of this user's VMs, or a RefusedError. It
// changes nothing.
func Find() (Home, error) { return findBelow(mountPoint()) }

func findBelow(mount string) (Home, error) {
	h := Home{mount: mount}
	if h.mount == "" {
		return h, &RefusedError{Cause: "this machine has no cgroups of version 2", Remedy: unified}
	}
	if all := h.read("cgroup.controllers"); !slices.Contains(all, "memory") {
		return h, &RefusedError{Cause: "the limits of this machine belong to cgroups of version 1", Remedy: unified}
	}
	find := h.findUser
	if os.Getuid() == 0 {
		find = h.findRoot
	}
	if err := find(); err != nil {
		return h, err
	}
	h.controllers = h.read(filepath.Join(h.dir, "cgroup.controllers"))
	if len(h.buses) == 0 && h.isFull() {
		h.controllers = h.read("cgroup.subtree_control")
	}
	return h, nil
}

// isFull reports whether the first cgroup belongs to a container and contains processes:
// then more controllers cannot be enabled below it.
func (h Home) isFull() bool {
	return len(h.read("cgroup.type")) > 0 && len(h.read("cgroup.procs")) > 0
}

// unified says how a machine gets cgroups of version 2.
const unified = "start this machine's kernel with systemd.unified_cgroup_hierarchy=1"

// mountPoint returns the mount point of the file system of cgroups; empty: it is not
// mounted.
func mountPoint() string {
	list, err := mounts.Read()
	if err != nil {
		return ""
	}
	for _, m := range list {
		if m.Kind == "cgroup2" {
			return m.Place
		}
	}
	return ""
}

// read returns the words of a file below the mount point.
func (h Home) read(name string) []string {
	text, _ := os.ReadFile(filepath.Join(h.mount, name))
	return strings.Fields(string(text))
}

func (h *Home) findRoot() error {
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		h.buses = sockets("/run/dbus/system_bus_socket", "/run/systemd/private")
	}
	if len(h.buses) > 0 {
		return nil
	}
	if err := unix.Access(h.mount, unix.W_OK); err != nil {
		return &RefusedError{Cause: fmt.Sprintf("cannot make a cgroup in %s: %v", h.mount, err)}
	}
	return nil
}

// findUser finds the systemd of this user. Its processes end with the user's last
// session, unless lingering is enabled for the user.
func (h *Home) findUser() error {
	uid := strconv.Itoa(os.Getuid())
	h.dir = filepath.Join("user.slice", "user-"+uid+".slice", "user@"+uid+".service")
	runtime := "/run/user/" + uid
	h.buses = sockets(runtime+"/bus", runtime+"/systemd/private")
	name := os.Getenv("USER")
	if who, err := user.LookupId(uid); err == nil {
		name = who.Username
	}
	enable := "sudo loginctl enable-linger " + name
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return &RefusedError{Cause: "this machine has no systemd, which makes the cgroups of users"}
	}
	if _, err := os.Stat("/var/lib/systemd/linger/" + name); err != nil {
		return &RefusedError{Cause: "systemd would end the VM when you log out", Remedy: enable}
	}
	if len(h.buses) == 0 {
		return &RefusedError{Cause: "the systemd of this user does not run", Remedy: enable}
	}
	return nil
}

func sockets(public, private string) []bus {
	all := []bus{{path: public, hello: true}, {path: private}}
	return slices.DeleteFunc(all, func(b bus) bool {
		info, err := os.Stat(b.path)
		return err != nil || info.Mode().Type() != os.ModeSocket
	})
}

// Can returns the limits that VMs' cgroups can enforce here, and a RefusedError if some
// cannot be enforced.
func (h Home) Can(limits Limits) (Limits, error) {
	var missing []string
	for _, of := range []struct {
		name   string
		needed bool
		drop   func()
	}{
		{"cpu", limits.CPU > 0, func() { limits.CPU = 0 }},
		{"memory", limits.Memory > 0, func() { limits.Memory = 0 }},
		{"pids", limits.PIDs > 0, func() { limits.PIDs = 0 }},
	} {
		if of.needed && !slices.Contains(h.controllers, of.name) {
			missing = append(missing, of.name)
			of.drop()
		}
	}
	if len(missing) == 0 {
		return limits, nil
	}
	refused := &RefusedError{Cause: "cgroups here have no control over " + strings.Join(missing, ", ")}
	if os.Getuid() != 0 {
		refused.Cause = "systemd leaves the control over " + strings.Join(missing, ", ") + " to root"
		refused.Remedy = delegate
	}
	return limits, refused
}

// delegate says how users get more controllers.
const delegate = `as root: mkdir -p /etc/systemd/system/user@.service.d && printf '[Service]\nDelegate=cpu memory pids\n' >/etc/systemd/system/user@.service.d/delegate.conf && systemctl daemon-reload; then end all your sessions or restart the machine`
