package cpi

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
)

// startedUnits are the units that the script boot-units starts from the unit files of the
// stemcell: the agent, monit, and services that jobs use. Runit starts its own services.
func startedUnits() []string { return []string{"bosh-agent", "monit", "cron", "rsyslog"} }

// omitted is an enabled unit of a stemcell that its VMs do not start.
type omitted struct{ unit, reason string }

// unitsOf returns the units that a stemcell enables, by name: those that its VMs start,
// and the others, services first. Both are nil if the stemcell has no units for agent and monit.
func unitsOf(image string) (started []string, others []omitted, err error) {
	if !hasUnits(image) {
		return nil, nil, nil
	}
	root, err := os.OpenRoot(image)
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	// As "systemctl enable" does, stemcells link the units into folders of their targets.
	const units = "etc/systemd/system"
	var names []string
	folders, _ := fs.ReadDir(root.FS(), units) // without the folder, no unit is enabled
	for _, folder := range folders {
		if end := path.Ext(folder.Name()); end != ".wants" && end != ".requires" {
			continue
		}
		links, err := fs.ReadDir(root.FS(), path.Join(units, folder.Name()))
		if err != nil {
			continue // it is a file or a link
		}
		for _, link := range links {
			names = append(names, link.Name())
		}
	}
	runit := regular(image, runitProgram)
	slices.Sort(names)
	for _, unit := range slices.Compact(names) {
		name := strings.TrimSuffix(unit, ".service")
		switch {
		case name == "runit" && runit:
		case name == "ssh" || name == "sshd": // runit only makes its key
			others = append(others, omitted{unit, "`bootstrap ssh` reaches the VM without it"})
		case slices.Contains(startedUnits(), name) || runit && exists(root, path.Join("etc/service", name)):
			started = append(started, name)
		default:
			if reason := omission(unit); reason != "" {
				others = append(others, omitted{unit, reason})
			}
		}
	}
	slices.SortStableFunc(others, func(a, b omitted) int { return cmp.Compare(rank(a.unit), rank(b.unit)) })
	return started, others, nil
}

// rank orders services before units of other kinds.
func rank(unit string) int {
	if path.Ext(unit) == ".service" {
		return 0
	}
	return 1
}

func exists(root *os.Root, name string) bool {
	_, err := root.Lstat(name)
	return err == nil
}

// omission returns why a unit is not started; empty: it is a target, which starts nothing
// itself.
func omission(unit string) string {
	name, kind, _ := strings.Cut(unit, ".")
	name, _, _ = strings.Cut(name, "@")
	switch kind {
	case "target", "slice":
		return ""
	case "timer":
		return "no timer runs in the VM; cron does"
	case "socket", "path", "mount", "automount", "swap":
		return "only systemd has such units"
	}
	for reason, services := range map[string][]string{
		"this machine does that": {
			"chrony", "chronyd", "create-systemd-resolved-listener-address", "irqbalance", "networkd-dispatcher", "networking", "ntp", "resolvconf",
			"rng-tools", "rngd", "systemd-network-generator", "systemd-networkd", "systemd-networkd-resolvconf-update", "systemd-networkd-wait-online",
			"systemd-pstore", "systemd-resolved", "systemd-timesyncd", "udev",
		},
		"it needs rights that the VM does not have": {
			"apparmor", "auditd", "blk-availability", "iscsid", "lvm2-monitor", "multipathd", "nftables", "open-iscsi", "remount-rootdir-as-rprivate",
			"sysstat", "walinuxagent",
		},
	} {
		if slices.Contains(services, name) {
			return reason
		}
	}
	return "the VM has no systemd; a process of monit can run the program"
}

// shownUnits is how many units a note names; the log names all.
const shownUnits = 5

// unitsNote returns a line for people about the units of a stemcell that a VM does not
// start, and lines with the reasons; both are empty if there are none.
func unitsNote(started []string, others []omitted) (note, reasons string) {
	if len(others) == 0 {
		return "", ""
	}
	shown, reasons := omissions(others)
	return fmt.Sprintf("Of the stemcell's services, this VM runs %s, but not %s", strings.Join(started, ", "), shown), reasons
}

// omissions names units for a note, and returns lines with the reasons.
func omissions(others []omitted) (shown, reasons string) {
	var names []string
	var lines strings.Builder
	for _, one := range others {
		names = append(names, strings.TrimSuffix(one.unit, ".service"))
		fmt.Fprintf(&lines, "not started: %s: %s\n", one.unit, one.reason)
	}
	shown = strings.Join(names[:min(len(names), shownUnits)], ", ")
	if more := len(names) - shownUnits; more > 0 {
		shown += fmt.Sprintf(" and %d more", more)
	}
	return shown, lines.String()
}
