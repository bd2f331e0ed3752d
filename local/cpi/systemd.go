package cpi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/cpi"
	"bootstrap/internal/printable"
	"bootstrap/internal/wait"
	"bootstrap/local/cgroup"
	"bootstrap/local/namespace"
)

// initProperty is the cloud property that says which program boots the VM, for a stemcell
// in which agent and monit are units of systemd.
const initProperty = "init"

// Values of initProperty.
const (
	ownInit     = "own"     // this program
	systemdInit = "systemd" // the stemcell's systemd; if it does not start agent and monit, this program
	autoInit    = "auto"    // systemd, if this machine gives the VM a cgroup; otherwise this program (the default)
)

// bootTime is how long a call waits for the VM to boot. The VM's first process gives
// systemd a minute, and then boots without it.
const bootTime = 2 * time.Minute

// systemdPrograms returns the paths that systemd has in images.
func systemdPrograms() []string { return []string{"usr/lib/systemd/systemd", "lib/systemd/systemd"} }

// systemdOf returns the path of systemd in the image of a stemcell; empty: it has none, or
// runit starts its agent.
func systemdOf(image string) string {
	if !hasUnits(image) || !regular(image, "usr/bin/systemctl") {
		return ""
	}
	for _, name := range systemdPrograms() {
		if regular(image, name) {
			return name
		}
	}
	return ""
}

// initOf returns the value of the cloud property init for a VM.
func initOf(machine vm) string {
	if asked, ok := machine.CloudProperties[initProperty].(string); ok {
		return asked
	}
	return autoInit
}

// bootsSystemd reports whether the stemcell's systemd is to boot a VM. The error says why
// this is impossible although its cloud_properties ask for it.
func (c *call) bootsSystemd(machine vm) (bool, error) {
	asked := initOf(machine)
	if asked == ownInit {
		return false, nil
	}
	refuse := func(why, advice string) (bool, error) {
		if asked == autoInit {
			return false, nil
		}
		if advice != "" {
			why += "; " + advice
		}
		return false, fail(cpi.TypeCloudError, "cannot use '%s: %s' in the VM's cloud_properties: %s", initProperty, asked, why)
	}
	if machine.Image == "" {
		return refuse("the stemcell has no root file system", "")
	}
	if systemdOf(c.root.imageDir(machine.Image)) == "" {
		return refuse("the stemcell has no systemd that starts its agent", "")
	}
	if asked == autoInit {
		if earlier, err := c.bootedBy(machine.CID); err == nil && earlier.Reason != "" {
			return false, nil // it failed before, and would take as long again
		}
	}
	if _, err := systemdHome(); err != nil {
		var refused *cgroup.RefusedError
		if errors.As(err, &refused) && refused.Remedy != "" {
			return refuse("systemd needs a cgroup of its own: "+refused.Cause, refused.Remedy)
		}
		return refuse("systemd needs a cgroup of its own: "+err.Error(), "")
	}
	return true, nil
}

// systemdHome returns the place for the cgroup of a VM that systemd boots, which needs no
// limits.
func systemdHome() (cgroup.Home, error) {
	home, err := cgroup.Find()
	if err == nil {
		return home, nil
	}
	own, failed := cgroup.Delegated()
	if failed == nil {
		return own, nil
	}
	var refused *cgroup.RefusedError
	if errors.As(err, &refused) && strings.Contains(refused.Remedy, "enable-linger") {
		return home, err // for the user's next commands, too
	}
	return own, failed
}

// mostBooted is the largest accepted size of the file namespace.InitFile.
const mostBooted = 64 << 10

// bootedBy reads the namespace.InitFile of a VM.
func (c *call) bootedBy(vm string) (namespace.Booted, error) {
	var booted namespace.Booted
	f, err := os.Open(filepath.Join(c.root.path(vms(), vm), namespace.InitFile))
	if err != nil {
		return booted, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, mostBooted))
	if err != nil {
		return booted, err
	}
	err = json.Unmarshal(text, &booted)
	// The VM can write to the file.
	booted.Reason, booted.Systemd = printable.Text(booted.Reason), printable.Text(booted.Systemd)
	for i, name := range booted.Failed {
		booted.Failed[i] = printable.Text(name)
	}
	return booted, err
}

// awaitBoot waits until the VM records that it has booted, or ends.
func (c *call) awaitBoot(ctx context.Context, vm string, ended <-chan error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTime, fmt.Errorf("its first process did not boot it within %s", bootTime))
	defer cancel()
	return wait.Poll(ctx, knockPause, func() (bool, error) {
		select {
		case <-ended:
			return false, fmt.Errorf("it ended at once: %s", lastWords(c.root.path(vms(), vm), anyPID))
		default:
		}
		_, err := c.bootedBy(vm)
		return err == nil, nil
	})
}

// bootNote returns a line for people that says whether systemd has booted the VM; empty if
// systemd was not tried. It adds to the log which units are masked.
func (c *call) bootNote(machine vm) (note string, systemd bool) {
	if initOf(machine) == ownInit {
		return "", false
	}
	booted, err := c.bootedBy(machine.CID)
	if err != nil { // systemd was not tried
		return "", false
	}
	if booted.Systemd == "" {
		return "The stemcell's systemd does not run in this VM: " + booted.Reason, false
	}
	note = "The stemcell's systemd boots this VM and is " + booted.Systemd
	if len(booted.Failed) > 0 {
		note += " (failed: " + strings.Join(booted.Failed, ", ") + ")"
	}
	_, others, _ := unitsOf(c.root.imageDir(machine.Image)) // without them, the VM exists, too
	masked := slices.DeleteFunc(others, func(one omitted) bool { return !slices.Contains(maskedUnits(), one.unit) })
	shown, reasons := omissions(masked)
	if shown == "" {
		return note + ", without units that need more rights", true
	}
	c.log += reasons
	return note + ", without " + shown, true
}

// bootWithSystemd sets up a VM of a stemcell to be booted by its systemd.
func (c *call) bootWithSystemd(machine vm, spec *namespace.Spec) {
	image := c.root.imageDir(machine.Image)
	spec.Systemd = &namespace.Systemd{Program: "/" + systemdOf(image), Units: []string{"bosh-agent.service"}}
	if unitFile(image, "monit.service") {
		spec.Systemd.Units = append(spec.Systemd.Units, "monit.service")
	}
	id := sha256.Sum256([]byte(machine.AgentID))
	// An image without a machine id would count as booted for the first time, and systemd
	// would enable all units.
	spec.Added = append(spec.Added, namespace.File{Name: "etc/machine-id", Text: hex.EncodeToString(id[:16]) + "\n", Mode: 0o444})
	for name, text := range unitChanges() {
		spec.Added = append(spec.Added, namespace.File{Name: path.Join(controlled, name), Text: text, Mode: 0o644})
	}
	for _, name := range maskedUnits() {
		spec.Added = append(spec.Added, namespace.File{Name: path.Join(controlled, name), Mode: 0o644}) // an empty unit is masked
	}
}

// unitFile reports whether an image has a unit.
func unitFile(image, unit string) bool {
	return slices.ContainsFunc([]string{"etc", "usr/lib", "lib"}, func(folder string) bool {
		return regular(image, path.Join(folder, "systemd/system", unit))
	})
}

// controlled is the folder of units and changes of units that come before all others.
const controlled = "run/systemd/system.control"

// unitChanges returns changes of a stemcell's units for VMs, by file name.
func unitChanges() map[string]string {
	// The agent restarts these services, whose work this machine does.
	const nothing = "[Service]\nType=oneshot\nRemainAfterExit=yes\nExecStart=/bin/true\n"
	return map[string]string{
		"systemd-networkd.service": nothing,
		"systemd-resolved.service": nothing,
		// The CPI reads the agent's log from outside of the VM, and the agent where it looks for its logs.
		"bosh-agent.service.d/vm.conf": "[Service]\nStandardOutput=append:" + path.Join(namespace.Guest, logFile) +
			"\nExecStartPre=-/bin/bash " + path.Join("/", path.Dir(agentProgram), "link-agent-log") + "\n",
		// Nothing guards the port of monit in the VM. The agent starts monit after it has mounted
		// this folder: a job that runs earlier would write its pid file below the mount.
		"monit.service.d/vm.conf": "[Service]\nExecStartPre=\nExecStopPost=\nExecCondition=/bin/mountpoint -q /var/vcap/data/sys/run\n",
	}
}

// maskedUnits returns units of stemcells that systemd does not start in VMs: they need rights
// or devices that VMs do not have, or this machine does their work.
func maskedUnits() []string {
	return []string{
		"apparmor.service", "apt-daily-upgrade.timer", "apt-daily.timer", "auditd.service", "blk-availability.service", "chrony.service",
		"chronyd.service", "console-getty.service", "create-systemd-resolved-listener-address.service", "dbus.service", "dbus.socket",
		"dev-hugepages.mount", "e2scrub_all.timer", "e2scrub_reap.service", "fstrim.timer", "getty.target", "irqbalance.service", "iscsid.service",
		"kmod-static-nodes.service", "lvm2-monitor.service", "multipathd.service", "networkd-dispatcher.service", "networking.service",
		"nftables.service", "ntp.service", "open-iscsi.service", "proc-sys-fs-binfmt_misc.automount", "remount-rootdir-as-rprivate.service",
		"resolvconf.service", "rng-tools.service", "rngd.service", "ssh.service", "ssh.socket", "sys-fs-fuse-connections.mount",
		"sys-kernel-config.mount", "sys-kernel-debug.mount", "sys-kernel-tracing.mount", "sysstat.service", "systemd-binfmt.service",
		"systemd-journald-audit.socket", "systemd-logind.service", "systemd-modules-load.service", "systemd-network-generator.service",
		"systemd-networkd-resolvconf-update.service", "systemd-networkd-wait-online.service", "systemd-networkd.socket", "systemd-pstore.service",
		"systemd-random-seed.service", "systemd-remount-fs.service", "systemd-sysctl.service", "systemd-timesyncd.service",
		"systemd-tmpfiles-setup-dev.service", "systemd-udev-settle.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket",
		"systemd-udevd-kernel.socket", "systemd-udevd.service", "systemd-update-utmp.service", "udev.service", "walinuxagent.service",
	}
}
