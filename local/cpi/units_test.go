//go:build linux

package cpi

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"bootstrap/artifact/tartest"
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
    systemctl start monit; bash /asks/control $WITH $PWD & \
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

// TestUnits boots a VM of a stemcell whose agent and monit are units of systemd: both run,
// systemctl starts and stops monit, and the agent comes back alone.
func TestUnits(t *testing.T) {
	t.Parallel()
	w := containers(t)
	places := map[string]string{}
	for _, name := range []string{"bash", "sed", "cat", "sleep", "mkdir", "flock", "setsid", "tail", "nice", "rm"} {
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
	const units = "./usr/lib/systemd/system/"
	more := append(tools, tartest.Symlink("./bin", "usr/bin"),
		tartest.File(units+"bosh-agent.service", agentUnit), tartest.File(units+"monit.service", monitUnit),
		tartest.File("./var/vcap/bosh/etc/operating_system", "ubuntu"), tartest.File("./asks/control", control),
		tartest.Dir("./var/log/"),
		tartest.Entry{Name: "./var/vcap/bosh/bin/monit", Body: fakeMonit, Mode: 0o755})
	stemcell := w.realStemcell(t, image(t, rootFS(t, more...)))
	vm := w.vm(t, stemcell)
	inside := func(name string) string {
		return filepath.Join("/proc", fmt.Sprint(w.first(t, vm)), "root", name)
	}
	config := get(t, inside(agentConfig))
	if got := section(section(config, "Platform"), "Linux")["ServiceManager"]; got != "systemd" {
		t.Errorf("the service manager is %v", got)
	}
	asked := 0
	ask := func(command, want string, status int) {
		t.Helper()
		asked++
		file := inside(fmt.Sprintf("asks/%d", asked))
		if err := os.WriteFile(file, []byte(command), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file, file+".ask"); err != nil {
			t.Fatal(err)
		}
		until(t, command+" ends", func() bool { _, err := os.Stat(file + ".ask"); return err != nil })
		out, _ := os.ReadFile(file + ".ask.out")
		code, err := os.ReadFile(file + ".ask.status")
		if err != nil || strings.TrimSpace(string(code)) != strconv.Itoa(status) || !strings.Contains(string(out), want) {
			t.Errorf("%s: status %s, want %d; %s, want %s; %v", command, code, status, out, want, err)
		}
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
	ask("systemctl start auditd", "systemctl start auditd: this VM has no systemd; of the stemcell's units, only bosh-agent and monit run", 5)
	ask("systemctl is-active agent", "active", 0)

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
	if err := w.client().DeleteVM(t.Context(), vm); err != nil {
		t.Fatal(err)
	}
	if err := w.client().DeleteStemcell(t.Context(), stemcell); err != nil {
		t.Fatal(err)
	}
	w.nothingLeft(t)
}
