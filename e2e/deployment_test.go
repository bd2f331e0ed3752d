//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crowd is a deployment of several instances that is disturbed.
type crowd struct {
	t                           *testing.T
	bin, dir                    string
	env                         []string // more variables of the commands
	rng                         *rand.Rand
	instances, port             int
	coordinators, children, vms int
	starts                      int
}

// atOnceInCrowd is max_in_flight of the deployment.
const atOnceInCrowd = 2

// TestDeploymentChaos deploys and changes a deployment of several instances again and
// again while its coordinator, the processes of its instances, and its VMs are killed at
// random, for DEPLOYMENT seconds, or 15. Each time, the same command must bring all
// instances to what the manifest says: not more than max_in_flight change at the same
// time, none is changed by two processes, no address is given twice, and nothing is left
// at the end.
func TestDeploymentChaos(t *testing.T) {
	seconds := 15
	if text := os.Getenv("DEPLOYMENT"); text != "" {
		var err error
		seconds, err = strconv.Atoi(text)
		check(t, err)
	}
	c := newCrowd(t)
	rounds := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); rounds < 2 || time.Now().Before(end); rounds++ {
		c.instances = 3 + c.rng.IntN(3)
		c.write()
		c.converge(strconv.Itoa(rounds), 1+c.rng.IntN(4))
	}
	out, err := c.command("delete", "--fix").CombinedOutput()
	if err != nil {
		t.Fatalf("delete: %v\n%s", err, out)
	}
	c.nothingLeft()
	t.Logf("%d rounds, %d starts of the command, killed: %d coordinators, %d processes of instances, %d VMs", rounds, c.starts, c.coordinators, c.children, c.vms)
	if c.coordinators+c.children+c.vms == 0 {
		t.Error("nothing was killed")
	}
}

func newCrowd(t *testing.T) *crowd {
	bin, cache := program(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &crowd{t: t, bin: filepath.Join(bin, "bootstrap"), dir: t.TempDir(), rng: rand.New(rand.NewPCG(seed, 0))}
	check(t, os.MkdirAll(c.path("home/.bosh"), 0o700))
	check(t, os.Symlink(cache, c.path("home/.bosh/cache")))
	t.Cleanup(func() { endAll(func() []process { return allOf(c.dir) }) })
	var err error
	c.port, err = freePort()
	check(t, err)
	return c
}

func (c *crowd) path(name string) string { return filepath.Join(c.dir, name) }

// write writes the manifest and its release.
func (c *crowd) write() {
	var names []string
	for i := 10; i < 60; i++ {
		names = append(names, fmt.Sprintf("127.44.0.%d", i))
	}
	for name, text := range map[string]string{
		"cloud.yml": `azs: [{name: z1}]
networks:
- name: default
  subnets: [{range: 127.44.0.0/24, gateway: 127.44.0.1, azs: [z1], reserved: [127.44.0.2-127.44.0.9]}]
vm_types: [{name: small, cloud_properties: {machine: folder}}]
disk_types: [{name: small, disk_size: 16}]
`,
		"page.yml": fmt.Sprintf(`name: page
releases:
- {name: local-cpi, url: "embedded:local-cpi"}
- {name: cluster, url: "file://release"}
stemcells: [{alias: default, os: local, version: latest, url: "embedded:local-stemcell"}]
instance_groups:
- name: web
  instances: %[4]d
  azs: [z1]
  vm_type: small
  stemcell: default
  persistent_disk_type: small
  networks: [{name: default}]
  env: {bosh: {mbus: {cert: ((mbus_tls))}}}
  jobs: [{name: web, release: cluster, properties: {title: ((title))}}]
update: {canaries: 1, max_in_flight: %[1]d, canary_watch_time: 0-60000, update_watch_time: 0-60000}
variables:
- {name: mbus_password, type: password}
- {name: mbus_ca, type: certificate, options: {is_ca: true, common_name: ca}}
- {name: mbus_tls, type: certificate, options: {ca: mbus_ca, common_name: web, alternative_names: [%[2]s]}}
cloud_provider:
  template: {name: local_cpi, release: local-cpi}
  mbus: https://mbus:((mbus_password))@0.0.0.0:%[3]d
  cert: ((mbus_tls))
  properties: {agent: {mbus: "https://mbus:((mbus_password))@0.0.0.0:%[3]d"}}
`, atOnceInCrowd, strings.Join(names, ", "), c.port, c.instances),
		"release/config/final.yml":                   "name: cluster\n",
		"release/jobs/web/monit":                     "",
		"release/jobs/web/spec":                      "name: web\ntemplates: {config.erb: config, post-deploy.erb: bin/post-deploy}\npackages: []\nconsumes: [{name: web, type: web}]\nprovides: [{name: web, type: web}]\nproperties: {title: {}}\n",
		"release/jobs/web/templates/config.erb":      "title <%= p('title') %> of <%= link('web').instances.size %>\n",
		"release/jobs/web/templates/post-deploy.erb": "#!/bin/sh\nexit 0\n",
	} {
		check(c.t, os.MkdirAll(filepath.Dir(c.path(name)), 0o700))
		check(c.t, os.WriteFile(c.path(name), []byte(text), 0o600))
	}
}

func (c *crowd) command(name string, args ...string) *exec.Cmd {
	args = append([]string{name, "page.yml"}, args...)
	if name != "plan" {
		args = append(args, "--yes")
	}
	if name != "delete" {
		args = append(args, "--cloud-config=cloud.yml", "--vars-store=creds.yml", "--agent-timeout=20s")
	}
	cmd := exec.Command(c.bin, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"HOME=" + c.path("home"), "PATH=" + os.Getenv("PATH"), "CROWD=" + c.dir}
	cmd.Env = append(cmd.Env, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// converge deploys a title while so many things are killed, until the command succeeds,
// and checks the result.
func (c *crowd) converge(title string, kills int) {
	flags := []string{"-v", "title=" + title}
	for deadline := time.Now().Add(5 * time.Minute); ; {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: the deployment does not get there", title)
		}
		var out bytes.Buffer
		cmd := c.command("deploy", append(flags, "--fix")...)
		cmd.Stdout, cmd.Stderr = &out, &out
		check(c.t, cmd.Start())
		c.starts++
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		err := c.disturb(cmd, done, &kills)
		if err == nil && kills > 0 { // it was too fast to be disturbed
			kills = 0
			continue
		}
		if err == nil {
			break
		}
		if code := cmd.ProcessState.ExitCode(); code > 1 && code != 69 {
			c.t.Fatalf("%s: %v\n%s", title, err, out.String())
		}
		c.t.Logf("%s: %v: %s", title, err, lastError(out.String()))
	}
	c.checkAll(title, flags)
}

// lastError returns the line of the output that begins with Error.
func lastError(text string) string {
	_, text, _ = strings.Cut(text, "Error: ")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// disturb kills something from time to time, until the command ends.
func (c *crowd) disturb(cmd *exec.Cmd, done chan error, kills *int) error {
	for {
		pause := time.Duration(50+c.rng.IntN(1200)) * time.Millisecond
		select {
		case err := <-done:
			return err
		case <-time.After(pause):
		}
		c.checkWidth()
		if *kills == 0 {
			continue
		}
		*kills--
		switch c.rng.IntN(3) {
		case 0:
			_ = cmd.Process.Kill()
			c.coordinators++
		case 1:
			if list := c.processes(); len(list) > 0 {
				_ = syscall.Kill(list[c.rng.IntN(len(list))].pid, syscall.SIGKILL)
				c.children++
			}
		case 2:
			vms, _ := filepath.Glob(c.path("home/.bosh/local/vms/vm-*"))
			if len(vms) > 0 {
				vm := filepath.Base(vms[c.rng.IntN(len(vms))])
				endAll(func() []process { return allOf("VCAP_ROOT=" + c.path("home/.bosh/local/vms/"+vm)) })
				c.vms++
			}
		}
	}
}

// processes returns the processes that change instances.
func (c *crowd) processes() []process {
	return slices.DeleteFunc(allOf("CROWD="+c.dir), func(p process) bool {
		return !strings.HasPrefix(p.command, c.bin+" deploy ") || !strings.Contains(p.command, "--instance=")
	})
}

// checkWidth checks that not too many instances change, and none twice. Instances whose
// VMs are only created do not count.
func (c *crowd) checkWidth() {
	seen, changing := map[string]int{}, 0
	for _, p := range c.processes() {
		_, name, _ := strings.Cut(p.command, "--instance=")
		name, _, _ = strings.Cut(name, " ")
		seen[name]++
		if seen[name] > 1 {
			c.t.Errorf("two processes change %s", name)
		}
		if !strings.Contains(p.command, "--create-only") {
			changing++
		}
	}
	if changing > atOnceInCrowd {
		c.t.Errorf("%d instances change at the same time", changing)
	}
}

// checkAll checks that all instances are as the manifest says, with an address of their
// own, and that nothing else is left.
func (c *crowd) checkAll(title string, flags []string) {
	c.t.Helper()
	if out, err := c.command("plan", flags...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: something is left to do: %v\n%s", title, err, out)
	}
	data, err := os.ReadFile(c.path("page-state/deployment.json"))
	check(c.t, err)
	var record struct {
		Instances []struct {
			Group     string
			Index     int
			State     string
			Addresses map[string]string
		}
	}
	check(c.t, json.Unmarshal(data, &record))
	addresses, vms := map[string]bool{}, map[string]bool{}
	for _, in := range record.Instances {
		addresses[in.Addresses["default"]] = true
		data, err := os.ReadFile(c.path("page-state/" + in.State))
		check(c.t, err)
		var st struct {
			VM string `json:"current_vm_cid"`
		}
		check(c.t, json.Unmarshal(data, &st))
		vms[st.VM] = true
		configs, _ := filepath.Glob(c.path("home/.bosh/local/vms/" + st.VM + "/jobs/web/config"))
		if len(configs) == 0 {
			configs = c.find(st.VM, "config")
		}
		want := fmt.Sprintf("title %s of %d\n", title, c.instances)
		if text, err := os.ReadFile(configs[0]); err != nil || string(text) != want {
			c.t.Errorf("%s: web/%d has %q, not %q", title, in.Index, text, want)
		}
	}
	if len(record.Instances) != c.instances || len(addresses) != c.instances || len(vms) != c.instances {
		c.t.Errorf("%s: %d instances have %d addresses and %d VMs, not %d", title, len(record.Instances), len(addresses), len(vms), c.instances)
	}
	for _, what := range []string{"vms/vm-*", "disks/disk-*"} {
		if list, _ := filepath.Glob(c.path("home/.bosh/local/" + what)); len(list) != c.instances {
			c.t.Errorf("%s: %d of %s, not %d: %q", title, len(list), what, c.instances, list)
		}
	}
	out, err := exec.Command("env", "HOME="+c.path("home"), c.bin, "addresses", "list").CombinedOutput()
	if n := strings.Count(string(out), "127.44.0."); err != nil || n != c.instances {
		c.t.Errorf("%s: %d addresses are reserved, not %d: %v\n%s", title, n, c.instances, err, out)
	}
}

// find returns the files of that name in the jobs of a VM.
func (c *crowd) find(vm, name string) []string {
	out, _ := exec.Command("find", c.path("home/.bosh/local/vms/"+vm), "-name", name, "-path", "*jobs/web*").Output()
	return strings.Fields(string(out))
}

// nothingLeft checks that a delete has left nothing.
func (c *crowd) nothingLeft() {
	for _, what := range []string{"vms/vm-*", "disks/disk-*", "stemcells/*"} {
		if list, _ := filepath.Glob(c.path("home/.bosh/local/" + what)); len(list) > 0 {
			c.t.Errorf("left: %q", list)
		}
	}
	if list := ofVMs(c.path("home/.bosh/local/vms")); len(list) > 0 {
		c.t.Errorf("left: %v", list)
	}
	if _, err := os.Stat(c.path("page-state")); err == nil {
		c.t.Error("the folder of the states is left")
	}
	out, err := exec.Command("env", "HOME="+c.path("home"), c.bin, "addresses", "list").CombinedOutput()
	if err != nil || strings.Contains(string(out), "127.44.") {
		c.t.Errorf("addresses are left: %v\n%s", err, out)
	}
}

// TestDeploymentCrash kills the processes of a deployment of three instances at the points
// of an uninterrupted run: a sample, or with CRASH=all all of them. Each process that comes
// to the point is killed there. The same command must then do the rest.
func TestDeploymentCrash(t *testing.T) {
	c := newCrowd(t)
	c.instances = 3
	c.write()
	trace := c.path("trace")
	c.env = []string{"BOOTSTRAP_TRACE=" + trace}
	for _, step := range []struct {
		name      string
		instances int
	}{{"create", 3}, {"change", 3}, {"shrink", 2}} {
		_ = os.Remove(trace)
		c.instances = step.instances
		c.write()
		c.env = []string{"BOOTSTRAP_TRACE=" + trace}
		c.converge(step.name, 0)
		data, err := os.ReadFile(trace)
		check(t, err)
		points := strings.Split(strings.TrimSpace(string(data)), "\n")
		slices.Sort(points)
		points = slices.Compact(points)
		every := 1
		if os.Getenv("CRASH") != "all" {
			every = max(len(points)/4, 1)
		}
		for i := c.rng.IntN(every); i < len(points); i += every {
			c.killedAt(step.name, step.instances, points[i])
		}
	}
	if out, err := c.command("delete").CombinedOutput(); err != nil {
		t.Fatalf("delete: %v\n%s", err, out)
	}
	c.nothingLeft()
}

// killedAt brings the deployment to where a step begins, kills all processes that come to
// a point of the step, and does the step again.
func (c *crowd) killedAt(step string, instances int, point string) {
	c.env = nil
	switch step {
	case "create":
		if out, err := c.command("delete").CombinedOutput(); err != nil {
			c.t.Fatalf("%s at %q: delete: %v\n%s", step, point, err, out)
		}
	case "shrink":
		c.instances = 3
		c.write()
		c.converge("before "+step, 0)
	}
	c.instances = instances
	c.write()
	title := step + " " + strings.ReplaceAll(point, " ", "-")
	c.env = []string{"BOOTSTRAP_KILL_AT=" + point}
	out, err := c.command("deploy", "-v", "title="+title).CombinedOutput()
	c.t.Logf("%s killed at %q: %v: %s", step, point, err, lastError(string(out)))
	c.env = nil
	c.converge(title, 0)
}
