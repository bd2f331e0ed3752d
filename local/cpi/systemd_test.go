//go:build linux

package cpi

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bootstrap/agent"
	"bootstrap/artifact/tartest"
	"bootstrap/cpi"
	"bootstrap/local/vmtest"
)

// As on ubuntu-noble, the agent makes a folder and mounts it, and starts monit then.
const (
	systemdAgentUnit = `[Service]
ExecStart=/bin/bash -c 'mkdir -p /var/vcap/data/sys/run; mountpoint -q /var/vcap/data/sys/run || mount -t tmpfs tmpfs /var/vcap/data/sys/run; \
    echo the agent starts; systemctl start monit; bash /asks/control & \
    exec /var/vcap/bosh/bin/bosh-agent -P ubuntu -C /var/vcap/bosh/agent.json'
Restart=always
KillMode=process
`
	systemdMonitUnit = `[Unit]
ConditionPathExists=/var/vcap/data/sys/run

[Service]
ExecStartPre=/usr/sbin/nft -f /etc/nftables/monit.nft
ExecStart=/bin/bash -c 'exec /var/vcap/bosh/bin/monit -I'
ExecStopPost=/usr/sbin/nft flush chain inet filter monit_output
Restart=always
KillMode=process
`
)

// ofSystemd returns the files of this machine's systemd in an image with merged /usr. They
// come from Debian's package.
func ofSystemd(t *testing.T) []tartest.Entry {
	t.Helper()
	list, err := exec.Command("dpkg-query", "-L", "systemd").Output()
	if err != nil {
		t.Skipf("no package of systemd here: %v", err)
	}
	var entries []tartest.Entry
	programs := map[string]string{}
	for _, name := range strings.Fields(string(list)) {
		place := strings.TrimPrefix(name, "/usr")
		wanted := strings.HasPrefix(place, "/lib/systemd/") || strings.HasPrefix(place, "/bin/systemd-") || place == "/bin/systemctl" || place == "/bin/journalctl" || strings.Contains(place, "/libsystemd-")
		info, err := os.Lstat(name)
		if !wanted || err != nil || strings.Contains(place, ".hwdb") {
			continue
		}
		switch {
		case info.Mode().Type() == fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, tartest.Symlink("./usr"+place, target))
		case info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			programs["/usr"+place] = name
		case info.Mode().IsRegular():
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			entries = append(entries, tartest.Entry{Name: "./usr" + place, Body: string(text), Mode: 0o644})
		}
	}
	if programs["/usr/lib/systemd/systemd"] == "" {
		t.Skip("the package of systemd has no systemd")
	}
	return append(entries, programsOf(t, programs)...)
}

func programsOf(t *testing.T, places map[string]string) []tartest.Entry {
	t.Helper()
	entries, err := programs(places)
	if err != nil {
		t.Fatal(err)
	}
	return entries
}

// merged moves all entries to /usr and links the folders of the root there, as in Debian.
func merged(entries []tartest.Entry) []tartest.Entry {
	var all []tartest.Entry
	seen := map[string]bool{}
	for _, entry := range entries {
		for _, dir := range []string{"lib", "lib64", "bin", "sbin"} {
			if rest, ok := strings.CutPrefix(entry.Name, "./"+dir+"/"); ok {
				entry.Name = "./usr/" + dir + "/" + rest
			}
		}
		if !seen[entry.Name] {
			seen[entry.Name] = true
			all = append(all, entry)
		}
	}
	for _, dir := range []string{"lib", "lib64", "bin"} {
		all = append(all, tartest.Symlink("./"+dir, "usr/"+dir))
	}
	return all
}

// systemdVM returns a VM of a stemcell like ubuntu-noble with these entries besides, whose
// cloud_properties ask for systemd.
func systemdVM(t *testing.T, init string, more ...tartest.Entry) *unitsVM {
	t.Helper()
	w := containers(t)
	places := map[string]string{}
	for _, name := range []string{"bash", "sh", "sed", "cat", "sleep", "mkdir", "flock", "setsid", "tail", "nice", "rm", "mount", "umount", "mountpoint", "env", "true", "ln"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		places["/usr/bin/"+name] = path
	}
	const units, wants = "./usr/lib/systemd/system/", "./etc/systemd/system/multi-user.target.wants/"
	more = slices.Concat(programsOf(t, places), more, agentLog(), []tartest.Entry{
		tartest.File(units+"bosh-agent.service", systemdAgentUnit), tartest.File(units+"monit.service", systemdMonitUnit),
		tartest.File(units+"auditd.service", "[Service]\nExecStart=/bin/false\n"), tartest.File(units+"broken.service", "[Service]\nType=oneshot\nExecStart=/bin/bash -c 'exit 3'\n"),
		tartest.File("./asks/control", strings.Replace(control, "/asks/running", "/var/vcap/data/sys/run/asks", 1)),
		tartest.Symlink(wants+"bosh-agent.service", "/lib/systemd/system/bosh-agent.service"),
		tartest.Symlink(wants+"monit.service", "/lib/systemd/system/monit.service"),
		tartest.Symlink(wants+"auditd.service", "/lib/systemd/system/auditd.service"),
		tartest.Symlink(wants+"broken.service", "/lib/systemd/system/broken.service"),
		{Name: "./var/vcap/bosh/bin/monit", Body: fakeMonit, Mode: 0o755},
	})
	stemcell := w.realStemcell(t, image(t, tartest.Large(t, merged(rootEntries(t, more...))...)))
	result, err := w.client().CreateVM(t.Context(), cpi.VMRequest{
		AgentID: "agent-1", StemcellCID: stemcell, CloudProperties: map[string]any{"machine": w.machine, initProperty: init}, Networks: dynamic(),
	})
	if err != nil {
		t.Fatal(err)
	}
	return &unitsVM{t: t, world: w, stemcell: stemcell, result: result, vm: result.CID}
}

// processesOf returns the processes of a VM whose command contains a text.
func processesOf(vm, command string) (pids []int) {
	for _, p := range vmtest.Processes("local") {
		if p.VM == vm && strings.Contains(p.Command, command) {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

// The systemd of a stemcell boots its VM in a cgroup that root has delegated: agent and monit
// run as its units, create_vm says its state and what is masked, and systemctl is the
// stemcell's. It comes back after it was killed, after a reboot and with a disk, and nothing
// of it is left.
func TestSystemd(t *testing.T) {
	t.Parallel()
	if _, err := systemdHome(); err != nil {
		t.Skip(err)
	}
	m := systemdVM(t, systemdInit, ofSystemd(t)...)
	const note = "The stemcell's systemd boots this VM and is degraded (failed: broken.service), without auditd"
	if !slices.Equal(m.result.Notes, []string{note}) {
		text, _ := os.ReadFile(m.file("vms", m.vm, logFile))
		t.Fatalf("the notes are %q, want %q; the log: %s", m.result.Notes, note, text)
	}
	if want := "create_vm: not started: auditd.service: it needs rights that the VM does not have\n"; !strings.Contains(m.log.String(), want) {
		t.Errorf("the log does not contain %q", want)
	}
	m.ask("systemctl is-active monit bosh-agent", "active\nactive\n", 0)
	m.ask("systemctl is-active auditd", "inactive", 3)
	m.ask("cat /var/vcap/bosh/log/current", "the agent starts\n", 0)
	m.ask("systemctl restart systemd-resolved systemd-networkd", "", 0)
	m.ask("systemctl kill monit", "", 0)
	until(t, "monit was started again", func() bool {
		text, _ := os.ReadFile(m.inside("asks/monit"))
		return strings.Count(string(text), "\n") == 2
	})

	kill := func(what string) {
		t.Helper()
		old := processesOf(m.vm, what)
		if len(old) != 1 {
			t.Fatalf("%s: %v", what, old)
		}
		if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		until(t, what+" is started again", func() bool { now := processesOf(m.vm, what); return len(now) == 1 && now[0] != old[0] })
	}
	kill(agentProgram + " -P ubuntu")
	kill("systemd/systemd --system")
	m.ask("systemctl is-active monit bosh-agent", "active\nactive\n", 0)

	disk := m.disk(t)
	if _, err := m.client().AttachDisk(t.Context(), m.vm, disk); err != nil {
		t.Fatal(err)
	}
	m.ask("mkdir -p /var/vcap/store && mount /run/machine/disks/"+disk+" /var/vcap/store -o bind && echo kept >/var/vcap/store/file", "", 0)
	if err := m.client().RebootVM(t.Context(), m.vm); err != nil {
		t.Fatal(err)
	}
	m.ask("cat /run/machine/disks/"+disk+"/file", "kept", 0)
	m.ask("systemctl is-active monit bosh-agent", "active\nactive\n", 0)
	cgroups := get(t, m.file("vms", m.vm, agent.BootLimitsFile))["cgroup"].(string)
	if _, err := os.Stat(cgroups); err != nil {
		t.Error(err)
	}
	if err := m.client().DetachDisk(t.Context(), m.vm, disk); err != nil {
		t.Fatal(err)
	}
	if err := m.client().DeleteDisk(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	m.end()
	if _, err := os.Stat(cgroups); !os.IsNotExist(err) {
		t.Errorf("its cgroup is left: %v", err)
	}
	if left := processesOf(m.vm, ""); len(left) > 0 {
		t.Errorf("processes are left: %v", left)
	}
}

// A monit that ends during the boot does not count as started: create_vm waits until systemd
// has started it again.
func TestSystemdStartsMonitAgain(t *testing.T) {
	t.Parallel()
	if _, err := systemdHome(); err != nil {
		t.Skip(err)
	}
	const first = "if [ ! -e /asks/ended ]; then sleep 1; echo >/asks/ended; exit 1; fi; exec /var/vcap/bosh/bin/monit -I"
	unit := strings.Replace(systemdMonitUnit, "exec /var/vcap/bosh/bin/monit -I", first, 1) + "RestartSec=5\n"
	// The boot is not done before the first monit has ended.
	const slow = "[Service]\nType=oneshot\nExecStart=/bin/bash -c 'until [ -e /asks/ended ] && [[ $(systemctl is-active monit) != active ]]; do sleep 0.1; done'\n"
	m := systemdVM(t, systemdInit, append(ofSystemd(t), tartest.File("./usr/lib/systemd/system/monit.service", unit),
		tartest.File("./usr/lib/systemd/system/slow.service", slow), tartest.Symlink("./etc/systemd/system/multi-user.target.wants/slow.service", "/lib/systemd/system/slow.service"))...)
	if len(m.result.Notes) != 1 || !strings.HasPrefix(m.result.Notes[0], "The stemcell's systemd boots this VM and is ") {
		t.Errorf("the notes are %q", m.result.Notes)
	}
	m.ask("systemctl is-active monit bosh-agent", "active\nactive\n", 0)
	m.end()
}

// If the stemcell's systemd ends before agent and monit run, the VM's first process starts
// them as without systemd, and create_vm says so. With "init: auto", no restart tries it
// again.
func TestSystemdFails(t *testing.T) {
	t.Parallel()
	if _, err := systemdHome(); err != nil {
		t.Skip(err)
	}
	broken := []tartest.Entry{
		{Name: "./usr/lib/systemd/systemd", Body: "#!/bin/bash\necho tried >>/asks/tried\nexit 3\n", Mode: 0o755},
		{Name: "./usr/bin/systemctl", Body: "#!/bin/bash\nexit 4\n", Mode: 0o755},
	}
	m := systemdVM(t, autoInit, broken...)
	const note = "The stemcell's systemd does not run in this VM: it ended with status 3"
	if len(m.result.Notes) != 2 || m.result.Notes[0] != note || !strings.HasPrefix(m.result.Notes[1], "Of the stemcell's services, this VM runs bosh-agent, monit, but not auditd") {
		t.Fatalf("the notes are %q, want %q", m.result.Notes, note)
	}
	m.ask("systemctl is-active monit", "active", 0)
	m.ask("cat /var/vcap/bosh/log/current", "the agent starts\n", 0)
	m.ask("systemctl start auditd", "this VM has no systemd", 5)
	for range 2 {
		if err := m.client().RebootVM(t.Context(), m.vm); err != nil {
			t.Fatal(err)
		}
		m.ask("systemctl is-active monit", "active", 0)
	}
	if text, err := os.ReadFile(m.inside("asks/tried")); err != nil || string(text) != "tried\n" {
		t.Errorf("systemd was started: %q, %v", text, err)
	}
	m.end()
}

// If the cgroup of a VM cannot be made, a VM that must have systemd does not start; others
// start without a cgroup.
func TestSystemdNeedsItsCgroup(t *testing.T) {
	t.Parallel()
	if _, err := systemdHome(); err != nil {
		t.Skip(err)
	}
	c := &call{root: &root{dir: t.TempDir()}}
	for _, name := range []string{"usr/lib/systemd/systemd", "usr/lib/systemd/system/bosh-agent.service", "usr/bin/systemctl"} {
		name = filepath.Join(c.root.imageDir("image"), name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, name, nil, 0o600)
	}
	for init, want := range map[string]string{
		systemdInit: "cannot use 'init: systemd' in the VM's cloud_properties: systemd needs a cgroup of its own: cannot ",
		autoInit:    "",
	} {
		cid, dir, err := c.root.create(vms())
		if err != nil {
			t.Fatal(err)
		}
		const none = 1 << 30 // larger than the id of any process
		machine := vm{CID: cid, Machine: agent.MachineContainer, Image: "image", CloudProperties: map[string]any{initProperty: init}}
		held, err := c.hold(t.Context(), machine, none)
		if want == "" && (err != nil || held.Cgroup != "") || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%s: got %+v and the error %v, want %q", init, held, err, want)
		}
		if err := release(t.Context(), dir); err != nil {
			t.Error(err)
		}
	}
}

// A VM that cannot have a systemd is refused if its cloud_properties ask for one, and boots
// without it if they leave the choice.
func TestInitProperty(t *testing.T) {
	t.Parallel()
	w := containers(t)
	stemcell := w.realStemcell(t, image(t, rootFS(t)))
	for init, want := range map[string]string{
		systemdInit: "cannot use 'init: systemd' in the VM's cloud_properties: the stemcell has no systemd that starts its agent",
		"upstart":   "cannot use 'init: upstart' in the VM's cloud_properties: it must be own, systemd or auto",
		autoInit:    "",
	} {
		result, err := w.client().CreateVM(t.Context(), cpi.VMRequest{
			AgentID: "agent-1", StemcellCID: stemcell, CloudProperties: map[string]any{initProperty: init}, Networks: dynamic(),
		})
		if want != "" {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %s", init, err, want)
			}
			continue
		}
		if err != nil || len(result.Notes) > 0 {
			t.Fatalf("%s: %v, %v", init, result, err)
		}
		if files, _ := filepath.Glob(w.file("vms", result.CID, "init.json")); len(files) > 0 {
			t.Errorf("%s: %v", init, files)
		}
		if err := w.client().DeleteVM(t.Context(), result.CID); err != nil {
			t.Fatal(err)
		}
	}
}
