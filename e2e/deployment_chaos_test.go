//go:build linux

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
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

// TestDeploymentChaos deploys and changes a deployment of up to INSTANCES instances, or 5,
// again and again while its process, and its agents, VMs and jobs are killed at random, for
// DEPLOYMENT seconds, or 15. Each time, the same command must bring all instances to what the
// manifest says. Meanwhile not more than max_in_flight are down at the same time, none runs
// two scripts at the same time, none is stopped while another one that ran is down, none is
// changed again when it is done, and no address is given twice. At the end nothing is left.
func TestDeploymentChaos(t *testing.T) {
	seconds, most := numberFrom(t, "DEPLOYMENT", 15), numberFrom(t, "INSTANCES", 5)
	c := newCrowd(t)
	rounds := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); rounds < 2 || len(c.killed) == 0 && rounds < 10 || time.Now().Before(end); rounds++ {
		c.instances = max(most-c.rng.IntN(most/5+2), 1)
		c.atOnce = 1 + c.rng.IntN(max(most/5, 2))
		c.disk += 16 * c.rng.IntN(2)
		c.write()
		c.converge(strconv.Itoa(rounds), 1+c.rng.IntN(3+most/5))
		if len(c.scripts()) == 0 {
			t.Errorf("%d: no script has written anything", rounds)
		}
	}
	c.remove("--fix")
	c.nothingLeft()
	t.Logf("%d rounds, %d starts of the command, killed: %v", rounds, c.starts, c.killed)
	if len(c.killed) == 0 {
		t.Error("nothing was killed")
	}
}

// numberFrom returns the number that a variable of the environment has.
func numberFrom(t *testing.T, name string, otherwise int) int {
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	check(t, err)
	return n
}

// killedFile is the file in which programs that are killed at a point write their
// arguments.
const killedFile = "killed"

// converge deploys a title while so many things are killed, until the command succeeds,
// and checks the result.
func (c *crowd) converge(title string, kills int) {
	c.t.Helper()
	c.begin()
	c.reach(title, kills)
}

// begin forgets what scripts have written and what was killed.
func (c *crowd) begin() {
	c.t.Helper()
	c.ends = map[string]int{}
	c.forget("scripts")
	c.forget(killedFile)
}

// reach is converge for a title whose deploy may have begun.
func (c *crowd) reach(title string, kills int) {
	c.t.Helper()
	flags := []string{"-v", "title=" + title}
	for deadline := time.Now().Add(time.Duration(5+c.instances) * time.Minute); ; {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: the deployment does not get there", title)
		}
		c.forget("events")
		c.began, c.gone = time.Now(), nil
		var out bytes.Buffer
		cmd := c.command("deploy", append(flags, "--fix", "--events=events")...)
		cmd.Stdout, cmd.Stderr = &out, &out
		check(c.t, cmd.Start())
		c.starts++
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		err := c.disturb(cmd, done, &kills)
		c.checkScripts(title)
		c.checkGuard(title)
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
	c.checkRepeated(title)
	c.deleteOrphans()
	c.checkAll(title, flags)
}

// lastError returns the line of the output that begins with Error.
func lastError(text string) string {
	_, text, _ = strings.Cut(text, "Error: ")
	text, _, _ = strings.Cut(text, "\n")
	return text
}

// forget removes a file.
func (c *crowd) forget(name string) {
	if err := os.Remove(c.path(name)); err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
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
		if *kills == 0 {
			continue
		}
		if c.killOne(cmd) {
			*kills--
		}
	}
}

// killOne kills something, and reports whether it has found something.
func (c *crowd) killOne(cmd *exec.Cmd) bool {
	if c.rng.IntN(5) > 1 {
		return c.killInVM()
	}
	_ = cmd.Process.Signal(syscall.SIGSTOP)
	for _, id := range c.changing() {
		c.ends[id]++
	}
	_ = cmd.Process.Kill()
	c.killed["commands"]++
	return true
}

// killInVM kills an agent, all processes of a VM, or a job, and reports whether it has
// found one.
func (c *crowd) killInVM() bool {
	vms, _ := filepath.Glob(c.path("home/.bosh/local/vms/vm-*"))
	if len(vms) == 0 {
		return false
	}
	dir := vms[c.rng.IntN(len(vms))]
	inVM := func() []process { return allOf("VCAP_ROOT=" + dir) }
	agents := func() []process { return allOf("plugin agent " + dir) }
	id := c.instanceWith(filepath.Base(dir))
	if len(agents()) == 0 {
		return false // it was killed already, or is not started yet
	}
	switch c.rng.IntN(3) {
	case 0:
		endAll(agents)
		c.killed["agents"]++
	case 1:
		endAll(func() []process { return append(agents(), inVM()...) })
		c.killed["VMs"]++
	case 2:
		pid, err := os.ReadFile(filepath.Join(dir, "vcap/data/sys/run/web/web.pid"))
		n, failed := strconv.Atoi(strings.TrimSpace(string(pid)))
		if err != nil || failed != nil {
			return false
		}
		_ = syscall.Kill(n, syscall.SIGKILL)
		c.killed["jobs"]++
		c.ends[id]++
		return true
	}
	c.ends[id]++
	c.gone = append(c.gone, moment{time.Now(), id, "killed"})
	return true
}

// instanceWith returns the id of the instance with a VM, as its state says.
func (c *crowd) instanceWith(cid string) string {
	for _, in := range c.recorded() {
		if data, err := os.ReadFile(c.path("page-state/" + in.State)); err == nil && strings.Contains(string(data), cid) {
			return in.ID
		}
	}
	return ""
}

// changing returns the ids of the instances whose states a process has locked.
func (c *crowd) changing() []string {
	var ids []string
	for _, in := range c.recorded() {
		f, err := os.Open(c.path("page-state/" + in.State + ".lock"))
		if err != nil {
			continue
		}
		if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
			ids = append(ids, in.ID)
		}
		_ = f.Close()
	}
	return ids
}

// scriptLine is what a script of a job writes when it begins.
type scriptLine struct {
	at         float64 // seconds since 1970
	id, script string
}

// scripts returns what the scripts of the jobs have written.
func (c *crowd) scripts() (list []scriptLine) {
	data, err := os.ReadFile(c.path("scripts"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var l scriptLine
		if _, err := fmt.Sscan(line, &l.at, &l.id, &l.script); err != nil {
			c.t.Fatalf("a script wrote %q: %v", line, err)
		}
		list = append(list, l)
	}
	return list
}

// checkScripts checks that not more instances than max_in_flight are between their drain
// and their post-start since the last start of the command, and that no instance runs two
// scripts. Instances that are deleted do not count.
func (c *crowd) checkScripts(title string) {
	c.t.Helper()
	since := float64(c.began.UnixMicro()) / 1e6
	drained, stays := map[string]bool{}, map[string]bool{}
	for _, in := range c.recorded() {
		stays[in.ID] = in.Going == ""
	}
	for _, l := range c.scripts() {
		if !stays[l.id] || l.at < since {
			continue
		}
		switch l.script {
		case "overlap":
			c.t.Errorf("%s: web/%s runs two scripts at the same time", title, l.id)
		case "drain":
			drained[l.id] = true
		case "post-start":
			delete(drained, l.id)
		}
		if len(drained) > c.atOnce {
			c.t.Errorf("%s: %d instances are down, not up to %d: %v; since %.6f:\n%v\n%v", title, len(drained), c.atOnce, drained, since, c.scripts(), c.moments())
			return
		}
	}
}

// guardSlack is longer than a look at the other instances takes.
const guardSlack = 15 * time.Second

// moment is when something happened to an instance.
type moment struct {
	at   time.Time
	id   string
	what string // a status, or "killed"
}

// moments returns what the last start of the command has reported, and what was killed
// since, sorted by time.
func (c *crowd) moments() []moment {
	c.t.Helper()
	ids := map[string]string{}
	for _, in := range c.recorded() {
		ids[fmt.Sprintf("web/%d", in.Index)] = in.ID
	}
	data, err := os.ReadFile(c.path("events"))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	list := slices.Clone(c.gone)
	for line := range strings.Lines(string(data)) {
		var e struct {
			Kind, Instance, Status string
			Time                   time.Time
		}
		if json.Unmarshal([]byte(line), &e) == nil && e.Kind == "instance" { // else it was killed while it wrote
			list = append(list, moment{e.Time, ids[e.Instance], e.Status})
		}
	}
	slices.SortStableFunc(list, func(a, b moment) int { return a.at.Compare(b.at) })
	return list
}

// checkGuard checks that no instance was started after the VM or the agent of another one
// was killed that had been running when the command began, or that was done since. The
// coordinator looks at the others before it starts one.
func (c *crowd) checkGuard(title string) {
	c.t.Helper()
	var awaited map[string]bool // must run when others are started; nil: none was started yet
	lost, stays := map[string]time.Time{}, map[string]bool{}
	for _, in := range c.recorded() {
		stays[in.ID] = in.Going == ""
	}
	for _, m := range c.moments() {
		switch m.what {
		case "killed":
			delete(c.up, m.id)
			if awaited[m.id] && stays[m.id] {
				lost[m.id] = m.at
			}
		case "done":
			c.up[m.id] = true
			if awaited != nil {
				awaited[m.id] = true
			}
		case "started":
			if awaited == nil { // the coordinator has found out which ones run
				awaited = maps.Clone(c.up)
			}
			delete(awaited, m.id)
			delete(lost, m.id)
			for id, at := range lost {
				if m.at.Sub(at) > guardSlack {
					c.t.Errorf("%s: web/%s was started %v after web/%s was killed", title, m.id, m.at.Sub(at), id)
				}
			}
		}
	}
}

// checkRepeated checks that an instance was stopped not more often than once and once
// again for each time that something of it was killed.
func (c *crowd) checkRepeated(title string) {
	c.t.Helper()
	drains := map[string]int{}
	for _, l := range c.scripts() {
		if l.script == "drain" {
			drains[l.id]++
		}
	}
	data, err := os.ReadFile(c.path(killedFile))
	if err != nil && !os.IsNotExist(err) {
		c.t.Fatal(err)
	}
	commands := strings.Count(string(data), "\n") // killed while they changed any instances
	for id, n := range drains {
		if killed := c.ends[id] + commands; n > 1+killed {
			c.t.Errorf("%s: web/%s was stopped %d times, and killed %d times", title, id, n, killed)
		}
	}
}
