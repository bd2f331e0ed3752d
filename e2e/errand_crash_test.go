//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/state"
)

// errandGroup returns the instance group of the errand in the manifest; empty: there is none.
func (c *crowd) errandGroup() string {
	if !c.errand {
		return ""
	}
	return fmt.Sprintf(`- name: tests
  lifecycle: errand
  instances: 1
  azs: [z1]
  vm_type: small
  stemcell: default
  persistent_disk_type: small
  networks: [{name: default}]
  env: {bosh: {mbus: {cert: ((mbus_tls))}}}
  jobs: [{name: check, release: cluster, properties: {dir: %q}}]
`, c.dir)
}

// TestErrandCrash kills an errand with a VM of its own at the points of an uninterrupted
// run: a sample, or with CRASH=all all of them, or those of which the name, as in the log,
// matches CRASH. Either each process that comes to the point is killed there, with or
// without the running CPI, or all processes are killed when the first one comes there. The
// same command must then succeed, and leave nothing but listed disks.
func TestErrandCrash(t *testing.T) {
	t.Parallel()
	c := newCrowd(t)
	c.subnet, c.errand, c.instances = "127.69.0", true, 1
	c.write()
	c.converge("errand", 0)
	trace := c.path("trace")
	c.env = []string{"BOOTSTRAP_TRACE=" + trace}
	out, err := c.command("run-errand", "check", "-v", "title=errand").CombinedOutput()
	c.env = nil
	if err != nil {
		t.Fatalf("the errand fails without a kill: %v\n%s", err, out)
	}
	data, err := os.ReadFile(trace)
	check(t, err)
	points := strings.Split(strings.TrimSpace(string(data)), "\n")
	slices.Sort(points)
	points = cuts(slices.Compact(points))
	for _, kind := range []string{"cpi create_vm ", "cpi delete_vm ", "agent ", "state write "} {
		if !slices.ContainsFunc(points, func(point string) bool { return strings.HasPrefix(point, kind) }) {
			t.Errorf("no point of the errand is about %s", kind)
		}
	}
	var kills []errandKill
	for _, point := range points {
		kills = append(kills, errandKill{point, "process"}, errandKill{point, "all"})
		if strings.Contains(point, " running ") {
			kills = append(kills, errandKill{point, "CPI"})
		}
	}
	list := kills
	switch ask := os.Getenv("CRASH"); ask {
	case "all":
	case "":
		list = slices.Clone(list)
		c.rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		list = list[:min(len(list), 4)]
	default:
		chosen := regexp.MustCompile(ask)
		list = slices.DeleteFunc(slices.Clone(list), func(k errandKill) bool { return !chosen.MatchString(k.String()) })
		if len(list) == 0 {
			t.Errorf("no point and kind of kill match CRASH=%s", ask)
		}
	}
	for _, k := range list {
		c.killErrand(k)
	}
	t.Logf("%d of %d kills", len(list), len(kills))
	c.remove()
	c.nothingLeft()
}

// errandKill is a kill of a run of the errand.
type errandKill struct {
	point string
	how   string // "process": each process that comes to the point; "CPI": its CPI, too; "all": all processes
}

func (k errandKill) String() string { return "errand " + k.point + " " + k.how }

// killErrand kills a run of the errand, and runs the errand again.
func (c *crowd) killErrand(k errandKill) {
	c.t.Helper()
	c.forget("scripts")
	switch k.how {
	case "process":
		c.env = []string{"BOOTSTRAP_KILL_AT=" + k.point}
	case "CPI":
		delay := []int{0, 3, 10, 30, 60, 120}[c.rng.IntN(6)]
		c.env = []string{"BOOTSTRAP_KILL_AT=" + k.point, "BOOTSTRAP_KILL_CPI=1", fmt.Sprintf("BOOTSTRAP_KILL_AFTER=%dms", delay)}
	case "all":
		c.env = []string{"BOOTSTRAP_WAIT_AT=" + k.point, "BOOTSTRAP_WAIT_FILE=" + c.path("here")}
	}
	cmd := c.command("run-errand", "check", "-v", "title=errand")
	c.env = nil
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = 10 * time.Second
	check(c.t, cmd.Start())
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	limit := time.After(runLimit)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-done:
			c.t.Logf("%s: %v: %s", k, err, lastError(out.String()))
			c.errandAgain(k)
			return
		case <-limit:
			c.t.Fatalf("%s: the run did not end within %v", k, runLimit)
		case <-tick.C:
			if _, err := os.Stat(c.path("here")); err == nil {
				endAll(c.errandProcesses)
				c.forget("here")
			}
		}
	}
}

// errandProcesses returns the process of the errand, and those that create and delete its VM.
func (c *crowd) errandProcesses() []process {
	return slices.DeleteFunc(allOf("CROWD="+c.dir), func(p process) bool {
		return !slices.ContainsFunc([]string{" run-errand ", " deploy ", " delete "}, func(command string) bool { return strings.HasPrefix(p.command, c.bin+command) })
	})
}

// errandAgain runs the errand, which must succeed, have run since the last kill, and leave
// nothing but listed disks and, if the CPI was killed, a recorded call.
func (c *crowd) errandAgain(after errandKill) {
	c.t.Helper()
	most, stop := c.watchVMs()
	out, err := c.command("run-errand", "check", "-v", "title=errand").CombinedOutput()
	stop()
	if err != nil {
		c.t.Fatalf("after %s: %v\n%s", after, err, out)
	}
	if *most > c.instances+1 {
		c.t.Errorf("after %s: there were %d VMs at the same time\n%s", after, *most, out)
	}
	ran := 0
	for _, l := range c.scripts() {
		switch l.script {
		case "errand":
			ran++
		case "overlap":
			c.t.Errorf("after %s: it runs twice at the same time", after)
		}
	}
	if ran == 0 {
		c.t.Errorf("after %s: it has not run\n%s", after, out)
	}
	if vms, _ := filepath.Glob(c.path("home/.bosh/local/vms/vm-*")); len(vms) != c.instances {
		c.t.Errorf("after %s: left: %q\n%s", after, vms, out)
	}
	if after.how == "CPI" {
		c.forgetLeftover()
	}
	c.deleteOrphans()
	c.checkAll("errand", []string{"-v", "title=errand"})
	if c.t.Failed() {
		c.t.FailNow()
	}
}

// forgetLeftover removes the call of a killed CPI from the state of a former instance, like
// a user who has looked in the cloud.
func (c *crowd) forgetLeftover() {
	c.t.Helper()
	list, _ := filepath.Glob(c.path("page-state/tests-*.json"))
	forgotten := 0
	for _, path := range list {
		data, err := os.ReadFile(path)
		check(c.t, err)
		var st state.State
		check(c.t, json.Unmarshal(data, &st))
		for _, l := range st.Own.Leftovers {
			cmd := exec.Command(c.bin, "state", "leftovers", "--state", path, "--forget", l.ID)
			cmd.Env = []string{"HOME=" + c.path("home")}
			out, err := cmd.CombinedOutput()
			if err != nil {
				c.t.Fatalf("%s: %v\n%s", l.Method, err, out)
			}
			c.forgotten = append(c.forgotten, filepath.Base(path))
			forgotten++
		}
	}
	if forgotten > 1 {
		c.t.Errorf("%d calls are recorded", forgotten)
	}
}

// watchVMs counts the VMs until stop is called; most is then the largest number of VMs that
// existed at the same time.
func (c *crowd) watchVMs() (most *int, stop func()) {
	most = new(int)
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		for {
			vms, _ := filepath.Glob(c.path("home/.bosh/local/vms/vm-*"))
			*most = max(*most, len(vms))
			select {
			case <-end:
				return
			case <-tick.C:
			}
		}
	}()
	return most, func() { close(end); <-ended }
}
