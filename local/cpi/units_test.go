//go:build linux

package cpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bootstrap/artifact/tartest"
	"bootstrap/cpi"
	"bootstrap/local/vmtest"
)

// The units of a stemcell like ubuntu-noble: cloudfoundry/bosh-linux-stemcell-builder,
// ubuntu_noble_poc. That of the agent also runs what the test writes into /asks.
const (
	agentUnit = `[Unit]
Description=Bosh agent service

[Service]
Environment=WITH=units
WorkingDirectory=/var/vcap/bosh
ExecStart=/bin/bash -c 'PATH=/var/vcap/bosh/bin:$PATH \
    echo the agent starts; systemctl start monit; bash /asks/control $WITH $PWD & \
    exec nice -n -15 /var/vcap/bosh/bin/bosh-agent \
    -P $(cat /var/vcap/bosh/etc/operating_system) -C /var/vcap/bosh/agent.json'
Restart=always
`
	monitUnit = `[Service]
ExecStartPre=/usr/sbin/nft -f /etc/nftables/monit.nft
ConditionPathExists=/var/vcap/bosh
ExecStart=/bin/bash -c 'PATH=/var/vcap/bosh/bin:$PATH exec nice -n -10 /var/vcap/bosh/bin/monit -I'
Restart=always
KillMode=process
`
	fakeMonit = "#!/bin/bash\necho $$ >>/asks/monit\nwhile :; do sleep 0.1; done\n"
	control   = `mkdir /asks/running 2>/dev/null || exit
echo "$@" >/asks/environment
while :; do
  for ask in /asks/*.ask; do
    [ -f "$ask" ] || continue
    bash "$ask" >"$ask.out" 2>&1
    echo $? >"$ask.status"
    rm "$ask"
  done
  sleep 0.1
done
`
)

// cronUnit is the unit of cron in Ubuntu, and fakeService the program of such services.
const (
	cronUnit = `[Unit]
Description=Regular background program processing daemon

[Service]
EnvironmentFile=-/etc/default/cron
ExecStart=/usr/bin/cron -f $EXTRA_OPTS
Restart=on-failure
`
	fakeService = "#!/bin/bash\ntrap 'echo hup >>/asks/${0##*/}' HUP\necho \"$@\" >>/asks/${0##*/}\nwhile :; do sleep 0.1; done\n"
)

// agentLog returns the place where the agent looks for its own log, as on ubuntu-noble: a
// link to a file that rsyslog writes.
func agentLog() []tartest.Entry {
	return []tartest.Entry{tartest.Symlink("./var/vcap/bosh/log/current", "/var/log/bosh-agent.log"), tartest.File("./var/log/bosh-agent.log", "")}
}

// unitsVM is a VM of a stemcell whose agent and monit are units of systemd, with cron as a
// service that it starts, and others that it does not.
type unitsVM struct {
	*world
	t        *testing.T
	stemcell string
	vm       string
	result   cpi.VMResult
	asked    int
}

func newUnitsVM(t *testing.T) *unitsVM {
	t.Helper()
	w := containers(t)
	places := map[string]string{}
	for _, name := range []string{"bash", "sed", "cat", "sleep", "mkdir", "flock", "setsid", "tail", "nice", "rm", "mount", "umount", "env", "ln"} {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skip(err)
		}
		places["/usr/bin/"+name] = path
	}
	tools, err := programs(places)
	if err != nil {
		t.Fatal(err)
	}
	const units, wants = "./usr/lib/systemd/system/", "./etc/systemd/system/multi-user.target.wants/"
	more := append(slices.Concat(tools, agentLog()), tartest.Symlink("./bin", "usr/bin"),
		tartest.File(units+"bosh-agent.service", agentUnit), tartest.File(units+"monit.service", monitUnit),
		tartest.File("./var/vcap/bosh/etc/operating_system", "ubuntu"), tartest.File("./asks/control", control),
		tartest.File(units+"cron.service", cronUnit), tartest.File("./etc/default/cron", "EXTRA_OPTS=-L2\n"),
		tartest.Symlink(wants+"cron.service", "/lib/systemd/system/cron.service"),
		tartest.Symlink(wants+"bosh-agent.service", "/lib/systemd/system/bosh-agent.service"),
		tartest.Symlink(wants+"monit.service", "/lib/systemd/system/monit.service"),
		tartest.Symlink(wants+"auditd.service", "/lib/systemd/system/auditd.service"),
		tartest.Symlink(wants+"ssh.service", "/lib/systemd/system/ssh.service"), tartest.Dir("./etc/service/"), tartest.Dir("./etc/service/ssh/"),
		tartest.Symlink(wants+"remote-fs.target", "/lib/systemd/system/remote-fs.target"),
		tartest.Symlink("./etc/systemd/system/timers.target.wants/apt-daily.timer", "/lib/systemd/system/apt-daily.timer"),
		tartest.Symlink("./etc/systemd/system/timers.target.wants/logrotate.timer", "/lib/systemd/system/logrotate.timer"),
		tartest.Entry{Name: "./var/vcap/bosh/etc/bosh-enable-monit-access", Body: "#!/bin/bash\nexit 1\n", Mode: 0o755},
		tartest.Entry{Name: "./usr/bin/cron", Body: fakeService, Mode: 0o755},
		tartest.Entry{Name: "./var/vcap/bosh/bin/monit", Body: fakeMonit, Mode: 0o755})
	stemcell := w.realStemcell(t, image(t, rootFS(t, more...)))
	result, err := w.client().CreateVM(t.Context(), cpi.VMRequest{
		AgentID: "agent-1", StemcellCID: stemcell, CloudProperties: map[string]any{"machine": w.machine}, Networks: dynamic(),
	})
	if err != nil {
		t.Fatal(err)
	}
	m := &unitsVM{t: t, world: w, stemcell: stemcell, result: result, vm: result.CID}
	return m
}

// inside returns the path of a file of the VM.
func (m *unitsVM) inside(name string) string {
	return filepath.Join("/proc", fmt.Sprint(m.first(m.t, m.vm)), "root", name)
}

// ask runs a command in the VM, with the environment of the agent, and compares its status
// and a part of what it prints.
func (m *unitsVM) ask(command, want string, status int) {
	m.t.Helper()
	m.asked++
	file := m.inside(fmt.Sprintf("asks/%d", m.asked))
	if err := os.WriteFile(file, []byte(command), 0o644); err != nil {
		m.t.Fatal(err)
	}
	if err := os.Rename(file, file+".ask"); err != nil {
		m.t.Fatal(err)
	}
	until(m.t, command+" ends", func() bool { _, err := os.Stat(file + ".ask"); return err != nil })
	out, _ := os.ReadFile(file + ".ask.out")
	code, err := os.ReadFile(file + ".ask.status")
	if err != nil || strings.TrimSpace(string(code)) != strconv.Itoa(status) || !strings.Contains(string(out), want) {
		m.t.Errorf("%s: status %s, want %d; %s, want %s; %v", command, code, status, out, want, err)
	}
}

// end deletes the VM and its stemcell.
func (m *unitsVM) end() {
	m.t.Helper()
	if err := m.client().DeleteVM(m.t.Context(), m.vm); err != nil {
		m.t.Fatal(err)
	}
	if err := m.client().DeleteStemcell(m.t.Context(), m.stemcell); err != nil {
		m.t.Fatal(err)
	}
	m.nothingLeft(m.t)
}

// TestUnits boots a VM of a stemcell whose agent and monit are units of systemd: both run,
// with the services that jobs use, systemctl starts and stops monit, and the agent comes
// back alone. create_vm says what is not started.
func TestUnits(t *testing.T) {
	t.Parallel()
	m := newUnitsVM(t)
	w, vm, result, inside, ask := m.world, m.vm, m.result, m.inside, m.ask
	const note = "Of the stemcell's services, this VM runs bosh-agent, cron, monit, but not auditd, ssh, apt-daily.timer, logrotate.timer"
	if !slices.Equal(result.Notes, []string{note}) {
		t.Errorf("the notes are %q, want %q", result.Notes, note)
	}
	for _, line := range []string{
		"create_vm: not started: auditd.service: it needs rights that the VM does not have",
		"create_vm: not started: logrotate.timer: no timer runs in the VM; cron does",
	} {
		if !strings.Contains(w.log.String(), line+"\n") {
			t.Errorf("the log does not contain %q", line)
		}
	}
	config := get(t, inside(agentConfig))
	if got := section(section(config, "Platform"), "Linux")["ServiceManager"]; got != "systemd" {
		t.Errorf("the service manager is %v", got)
	}
	monits := func() []string {
		text, _ := os.ReadFile(inside("asks/monit"))
		return strings.Fields(string(text))
	}
	until(t, "monit runs", func() bool { return len(monits()) == 1 })
	if text, err := os.ReadFile(inside("asks/environment")); err != nil || string(text) != "units /var/vcap/bosh\n" {
		t.Errorf("the environment and the folder of the unit are %q, %v", text, err)
	}
	ask("systemctl is-active monit", "active", 0)
	ask("systemctl start monit.service", "", 0)
	ask("systemctl stop monit", "", 0)
	ask("systemctl is-active monit", "inactive", 3)
	ask("systemctl start monit", "", 0)
	until(t, "monit runs again", func() bool { return len(monits()) == 2 })
	ask("systemctl kill monit", "", 0)
	until(t, "monit was started again", func() bool { return len(monits()) == 3 })
	ask("systemctl --no-block restart monit", "", 0)
	until(t, "monit was restarted", func() bool { return len(monits()) == 4 })
	ask("systemctl daemon-reload", "", 0)
	ask("systemctl restart systemd-resolved", "", 0)
	ask("systemctl start auditd", "systemctl start auditd: this VM has no systemd; of the stemcell's units, only bosh-agent, monit, cron and rsyslog run", 5)
	ask("systemctl is-active agent", "active", 0)
	ask("env PATH=/bin:/usr/bin:/sbin:/usr/sbin systemctl is-active monit", "active", 0) // as monit starts jobs
	ask("/var/vcap/bosh/etc/bosh-enable-monit-access", "", 0)
	ask("cat /var/vcap/bosh/log/current", "the agent starts\n", 0)

	// The services that jobs use run as their units say.
	crons := func() string {
		text, _ := os.ReadFile(inside("asks/cron"))
		return strings.ReplaceAll(string(text), "\n", " ")
	}
	until(t, "cron runs", func() bool { return crons() == "-f -L2 " })
	ask("systemctl kill -s HUP cron.service", "", 0)
	until(t, "cron got the signal", func() bool { return crons() == "-f -L2 hup " })
	ask("systemctl restart cron", "", 0)
	until(t, "cron was restarted", func() bool { return crons() == "-f -L2 hup -f -L2 " })
	ask("systemctl is-active rsyslog", "inactive", 3)

	// The agent is killed, and only the agent is started again.
	agents := func() (pids []int) {
		for _, p := range vmtest.Processes("local") {
			if p.VM == vm && strings.HasSuffix(p.Command, agentConfig) {
				pids = append(pids, p.PID)
			}
		}
		return pids
	}
	old := agents()
	if len(old) != 1 {
		t.Fatalf("agents %v", old)
	}
	if err := syscall.Kill(old[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	until(t, "the agent is started again", func() bool { now := agents(); return len(now) == 1 && now[0] != old[0] })
	ask("systemctl is-active monit", "active", 0)
	if got := monits(); len(got) != 4 {
		t.Errorf("monit was started %d times", len(got))
	}
	m.end()
}

// TestUnitsDisk mounts a disk as the agent does. An agent that is started again compares
// the name of what is mounted with that of the disk's first partition, and without it
// mounts the disk once more, which fails (bosh-agent, platform/linux_platform.go,
// MountPersistentDisk).
func TestUnitsDisk(t *testing.T) {
	t.Parallel()
	m := newUnitsVM(t)
	disk := m.disk(t)
	if _, err := m.client().AttachDisk(t.Context(), m.vm, disk); err != nil {
		t.Fatal(err)
	}
	path := "/run/machine/disks/" + disk
	m.ask("mkdir -p /var/vcap/store && mount "+path+" /var/vcap/store -o bind && mount", "\n"+path+"1 on /var/vcap/store type", 0)
	m.ask("mount", "\n"+path+" on /var/vcap/store type", 0)
	m.ask("umount "+path+" && mount | while read -r _ _ place _; do [ $place != /var/vcap/store ] || echo mounted; done; echo done", "done", 0)
	m.ask("mkdir -p /var/vcap/store_migration_target && mount "+path+" /var/vcap/store_migration_target -o bind && mount", "\n"+path+" on /var/vcap/store_migration_target type", 0)
	m.ask("umount /var/vcap/store_migration_target", "", 0)
	if err := m.client().DetachDisk(t.Context(), m.vm, disk); err != nil {
		t.Fatal(err)
	}
	if err := m.client().DeleteDisk(t.Context(), disk); err != nil {
		t.Fatal(err)
	}
	m.end()
}
