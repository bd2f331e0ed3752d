//go:build linux

package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// crowd is a deployment of several instances that is disturbed.
type crowd struct {
	t               *testing.T
	bin, dir        string
	env             []string // more variables of the commands
	subnet          string   // the first three numbers of the addresses
	errand          bool     // there is also a group tests with lifecycle errand
	rng             *rand.Rand
	instances, port int
	atOnce, disk    int // max_in_flight; MiB
	starts          int
	killed          map[string]int // what was killed, and how often
	forgotten       []string       // states of deleted instances whose leftovers were forgotten

	began time.Time       // the last start of the command
	ends  map[string]int  // how often something of an instance was killed, by id
	gone  []moment        // VMs and agents that were killed since then
	up    map[string]bool // instances that are running, by id
}

func newCrowd(t *testing.T) *crowd {
	bin, cache := program(t)
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	c := &crowd{t: t, bin: filepath.Join(bin, "bootstrap"), dir: t.TempDir(), subnet: "127.44.0", rng: rand.New(rand.NewPCG(seed, 0)), atOnce: 2, disk: 16, killed: map[string]int{}, up: map[string]bool{}}
	for _, dir := range []string{"home/.bosh", "tmp"} {
		check(t, os.MkdirAll(c.path(dir), 0o700))
	}
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
		names = append(names, fmt.Sprintf("%s.%d", c.subnet, i))
	}
	for name, text := range map[string]string{
		"cloud.yml": `azs: [{name: z1}]
networks:
- name: default
  subnets: [{range: ` + c.subnet + `.0/24, gateway: ` + c.subnet + `.1, azs: [z1], reserved: [` + c.subnet + `.2-` + c.subnet + `.9]}]
vm_types: [{name: small, cloud_properties: {machine: folder}}]
disk_types: [{name: small, disk_size: ` + strconv.Itoa(c.disk) + `}]
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
  jobs: [{name: web, release: cluster, properties: {title: ((title)), dir: %[5]q}}]
%[6]supdate: {canaries: 1, max_in_flight: %[1]d, canary_watch_time: 0-60000, update_watch_time: 0-60000}
variables:
- {name: mbus_password, type: password}
- {name: mbus_ca, type: certificate, options: {is_ca: true, common_name: ca}}
- {name: mbus_tls, type: certificate, options: {ca: mbus_ca, common_name: web, alternative_names: [%[2]s]}}
cloud_provider:
  template: {name: local_cpi, release: local-cpi}
  mbus: https://mbus:((mbus_password))@0.0.0.0:%[3]d
  cert: ((mbus_tls))
  properties: {agent: {mbus: "https://mbus:((mbus_password))@0.0.0.0:%[3]d"}}
`, c.atOnce, strings.Join(names, ", "), c.port, c.instances, c.dir, c.errandGroup()),
		"release/config/final.yml":                   "name: cluster\n",
		"release/jobs/web/monit":                     "check process web\n  with pidfile /var/vcap/sys/run/web/web.pid\n  start program \"/var/vcap/jobs/web/bin/ctl start\"\n  stop program \"/var/vcap/jobs/web/bin/ctl stop\"\n  group vcap\n",
		"release/jobs/web/spec":                      "name: web\ntemplates: {config.erb: config, ctl: bin/ctl, pre-start.erb: bin/pre-start, post-start.erb: bin/post-start, drain.erb: bin/drain, post-deploy.erb: bin/post-deploy}\npackages: []\nconsumes: [{name: web, type: web}]\nprovides: [{name: web, type: web}]\nproperties: {title: {}, dir: {}}\n",
		"release/jobs/check/monit":                   "",
		"release/jobs/check/spec":                    "name: check\ntemplates: {run.erb: bin/run}\npackages: []\nproperties: {dir: {}}\n",
		"release/jobs/check/templates/run.erb":       script("errand") + "echo checked\n",
		"release/jobs/web/templates/ctl":             "#!/bin/bash\ndir=$VCAP_ROOT/sys/run/web\nmkdir -p $dir\ncase $1 in\nstart) sleep 100000 </dev/null >/dev/null 2>&1 & echo $! >$dir/web.pid ;;\nstop) kill $(cat $dir/web.pid); rm -f $dir/web.pid ;;\nesac\n",
		"release/jobs/web/templates/config.erb":      "title <%= p('title') %> of <%= link('web').instances.size %>\n",
		"release/jobs/web/templates/pre-start.erb":   script("pre-start"),
		"release/jobs/web/templates/post-start.erb":  script("post-start"),
		"release/jobs/web/templates/drain.erb":       script("drain") + "echo 0\n",
		"release/jobs/web/templates/post-deploy.erb": script("post-deploy"),
	} {
		check(c.t, os.MkdirAll(filepath.Dir(c.path(name)), 0o700))
		check(c.t, os.WriteFile(c.path(name), []byte(text), 0o600))
	}
}

// script returns a script of the job. It writes a line when it begins, and another one if
// a script of the same instance runs.
func script(name string) string {
	return fmt.Sprintf(`#!/bin/bash
exec 9><%%= p('dir') %%>/busy-<%%= spec.id %%>
flock -n 9 || echo "$EPOCHREALTIME <%%= spec.id %%> overlap" >><%%= p('dir') %%>/scripts
echo "$EPOCHREALTIME <%%= spec.id %%> %s" >><%%= p('dir') %%>/scripts
sleep 0.1
`, name)
}

func (c *crowd) command(name string, args ...string) *exec.Cmd {
	args = slices.Concat(strings.Fields(name), []string{"page.yml"}, args)
	if name != "plan" {
		args = append(args, "--yes")
	}
	if !strings.HasSuffix(name, "delete") {
		args = append(args, "--cloud-config=cloud.yml", "--vars-store=creds.yml", "--agent-timeout=20s")
	}
	cmd := exec.Command(c.bin, args...)
	cmd.Dir = c.dir
	cmd.Env = []string{"HOME=" + c.path("home"), "PATH=" + os.Getenv("PATH"), "CROWD=" + c.dir, "TMPDIR=" + c.path("tmp")}
	cmd.Env = append(cmd.Env, c.env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// checkAll checks that all instances are as the manifest says, with an address of their
// own, and that nothing else is left.
func (c *crowd) checkAll(title string, flags []string) {
	c.t.Helper()
	if out, err := c.command("plan", flags...).CombinedOutput(); err != nil {
		c.t.Fatalf("%s: something is left to do: %v\n%s", title, err, out)
	}
	instances := c.recorded()
	addresses, vms := map[string]bool{}, map[string]bool{}
	for _, in := range instances {
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
	if len(instances) != c.instances || len(addresses) != c.instances || len(vms) != c.instances {
		c.t.Errorf("%s: %d instances have %d addresses and %d VMs, not %d", title, len(instances), len(addresses), len(vms), c.instances)
	}
	c.checkFolder(title)
	for _, what := range []string{"vms/vm-*", "disks/disk-*"} {
		if list, _ := filepath.Glob(c.path("home/.bosh/local/" + what)); len(list) != c.instances {
			c.t.Errorf("%s: %d of %s, not %d: %q", title, len(list), what, c.instances, list)
		}
	}
	out, err := exec.Command("env", "HOME="+c.path("home"), c.bin, "addresses", "list").CombinedOutput()
	if n := strings.Count(string(out), c.subnet+"."); err != nil || n != c.instances {
		c.t.Errorf("%s: %d addresses are reserved, not %d: %v\n%s", title, n, c.instances, err, out)
	}
}

// recordedInstance is an instance in the record of the deployment.
type recordedInstance struct {
	ID, Group string
	Index     int
	Going     string // why it is to be deleted; empty: it stays
	State     string
	Addresses map[string]string
}

// recorded returns the instances in the record.
func (c *crowd) recorded() []recordedInstance {
	c.t.Helper()
	data, err := os.ReadFile(c.path("page-state/deployment.json"))
	if os.IsNotExist(err) {
		return nil
	}
	check(c.t, err)
	var record struct{ Instances []recordedInstance }
	check(c.t, json.Unmarshal(data, &record))
	return record.Instances
}

// deleteOrphans deletes the disks of the instances that were deleted.
func (c *crowd) deleteOrphans() {
	c.t.Helper()
	cmd := c.command("disks delete", "--older-than=0s")
	cmd.Env = cmd.Env[:len(cmd.Env)-len(c.env)] // no points of this command
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("disks delete: %v\n%s", err, out)
	}
}

// remove deletes the deployment.
func (c *crowd) remove(flags ...string) {
	c.t.Helper()
	if out, err := c.command("delete", flags...).CombinedOutput(); err != nil {
		c.t.Fatalf("delete: %v\n%s", err, out)
	}
}

// checkFolder checks that the folder of the record has no files of other instances.
func (c *crowd) checkFolder(title string) {
	c.t.Helper()
	names := []string{"deployment.json", "lock", "logs", "stemcells.lock"}
	names = append(names, c.forgotten...)
	for _, in := range c.recorded() {
		names = append(names, in.State)
	}
	entries, err := os.ReadDir(c.path("page-state"))
	check(c.t, err)
	for _, e := range entries {
		if !slices.ContainsFunc(names, func(name string) bool { return strings.HasPrefix(e.Name(), name) }) {
			c.t.Errorf("%s: left: %s", title, e.Name())
		}
	}
}

// find returns the files of that name in the jobs of a VM.
func (c *crowd) find(vm, name string) []string {
	out, _ := exec.Command("find", c.path("home/.bosh/local/vms/"+vm), "-name", name, "-path", "*jobs/web*").Output()
	return strings.Fields(string(out))
}

// nothingLeft checks that a delete has left no VM, disk, stemcell, address or process, and no
// file but the events, which say who has deleted the deployment.
func (c *crowd) nothingLeft() {
	for _, what := range []string{"vms/vm-*", "disks/disk-*", "stemcells/*"} {
		if list, _ := filepath.Glob(c.path("home/.bosh/local/" + what)); len(list) > 0 {
			c.t.Errorf("left: %q", list)
		}
	}
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		list := append(allOf("CROWD="+c.dir), ofVMs(c.path("home/.bosh/local/vms"))...)
		if len(list) == 0 {
			break
		}
		if time.Now().After(deadline) {
			c.t.Fatalf("left: %v", list)
		}
	}
	var files []string
	for _, dir := range []string{"home", "tmp"} {
		check(c.t, filepath.WalkDir(c.path(dir), func(path string, d os.DirEntry, err error) error {
			if err == nil && !d.IsDir() && !slices.Contains([]string{"cache", "addresses.db", "events.json"}, d.Name()) {
				files = append(files, strings.TrimPrefix(path, c.dir))
			}
			return err
		}))
	}
	if len(files) > 0 {
		c.t.Errorf("left: %q", files)
	}
	if _, err := os.Stat(c.path("page-state")); err == nil {
		c.t.Error("the folder of the states is left")
	}
	out, err := exec.Command("env", "HOME="+c.path("home"), c.bin, "addresses", "list").CombinedOutput()
	if err != nil || strings.Contains(string(out), c.subnet+".") {
		c.t.Errorf("addresses are left: %v\n%s", err, out)
	}
}

// TestDeploymentCrash kills a deploy of three instances at the points of an uninterrupted
// run: a sample, or with CRASH=all all of them, or those of which the step and the point, as
// in the log, match CRASH. The same command must then do the rest.
func TestDeploymentCrash(t *testing.T) {
	c := newCrowd(t)
	c.instances = 3
	c.write()
	trace := c.path("trace")
	c.env = []string{"BOOTSTRAP_TRACE=" + trace}
	killed := 0
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
		switch ask := os.Getenv("CRASH"); ask {
		case "all":
		case "":
			every = max(len(points)/4, 1)
		default:
			chosen := regexp.MustCompile(ask)
			points = slices.DeleteFunc(points, func(point string) bool { return !chosen.MatchString(step.name + " " + point) })
		}
		killed += len(points)
		for i := c.rng.IntN(every); i < len(points); i += every {
			c.killedAt(step.name, step.instances, points[i])
		}
	}
	if killed == 0 {
		t.Errorf("no step and point match CRASH=%s", os.Getenv("CRASH"))
	}
	c.remove()
	c.nothingLeft()
}

// killedAt brings the deployment to where a step begins, kills the command at a point of the
// step, and does the step again.
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
	c.begin()
	// A killed command may leave a script that begins later: the drains of both commands are
	// counted.
	c.env = []string{"BOOTSTRAP_KILL_AT=" + point, "BOOTSTRAP_KILLED=" + c.path(killedFile)}
	out, err := c.command("deploy", "-v", "title="+title).CombinedOutput()
	c.t.Logf("%s killed at %q: %v: %s", step, point, err, lastError(string(out)))
	c.env = nil
	c.reach(title, 0)
}
