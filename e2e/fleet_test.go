//go:build unix

package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
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

// chaosFleet is how many members the fleet of TestFleetChaos has.
const chaosFleet = 30

// TestFleetChaos updates a fleet again and again while its coordinator and the processes
// of its members are killed at random, for FLEET seconds. Each time, repeating the
// command must bring every member to what the fleet file says: no member is left out,
// none is updated by two processes at once, and the totals are correct.
func TestFleetChaos(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("FLEET"))
	if err != nil {
		t.Skip("set FLEET to the number of seconds")
	}
	c := newChaos(t)
	t.Logf("seed %d", c.seed)
	c.update("first", false)
	rounds := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); rounds++ {
		c.update(fmt.Sprintf("round-%d", rounds), true)
	}
	t.Logf("%d rounds of %d members, %d coordinators and %d processes of members killed, %d starts of the command", rounds, chaosFleet, c.coordinators, c.children, c.starts)
	if c.coordinators == 0 || c.children == 0 {
		t.Error("nothing was killed")
	}
}

type chaos struct {
	t                              *testing.T
	bin, dir, home                 string
	ports                          []int // ports of the agents, then ports of the pages
	seed                           uint64
	rng                            *rand.Rand
	starts, coordinators, children int
	flags                          func(title string) []string // flags after the fleet file
	logs                           string                      // folder above the log folders of runs
	others                         []func()                    // other random disturbances
}

func newChaos(t *testing.T) *chaos {
	bin, cache := program(t)
	c := &chaos{t: t, bin: filepath.Join(bin, "bootstrap"), dir: t.TempDir(), seed: uint64(time.Now().UnixNano())}
	c.rng = rand.New(rand.NewPCG(c.seed, 0))
	c.home = filepath.Join(c.dir, "home")
	c.logs = c.home
	c.flags = func(title string) []string { return []string{"-v", "title=" + title} }
	check(t, os.MkdirAll(filepath.Join(c.home, ".bosh"), 0o700))
	check(t, os.Symlink(cache, filepath.Join(c.home, ".bosh", "cache")))
	source, err := filepath.Abs("../testdata/quickstart")
	check(t, err)
	check(t, exec.Command("cp", "-R", source, filepath.Join(c.dir, "files")).Run())
	var rows strings.Builder
	for i := range chaosFleet {
		mbus, err := freePort()
		check(t, err)
		page, err := freePort()
		check(t, err)
		c.ports = append(c.ports, page)
		fmt.Fprintf(&rows, "  - {name: m%d, vars: {agent_port: %d, page_port: %d}}\n", i, mbus, page)
	}
	text := "name: chaos\nmembers:\n- manifest: manifest.yml\n  table:\n" + rows.String() +
		"defaults: {ops_files: [fleet-ops.yml], vars: {title: ((title))}}\n" +
		"update: {canaries: 2, max_in_flight: 6, max_failures: 30, retry_busy: {rounds: 100, wait: 1s}}\n"
	check(t, os.WriteFile(c.path("fleet.yml"), []byte(text), 0o600))
	t.Cleanup(func() { endAll(func() []process { return ofVMs(c.dir) }) })
	return c
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (c *chaos) path(name string) string { return filepath.Join(c.dir, "files", name) }

func (c *chaos) command(what string, args ...string) *exec.Cmd {
	cmd := exec.Command(c.bin, append([]string{"fleet", what}, args...)...)
	cmd.Env = []string{"HOME=" + c.home, "PATH=" + os.Getenv("PATH")}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return cmd
}

// update updates the fleet to a title, while processes are killed, and checks the
// result.
func (c *chaos) update(title string, kills bool) {
	deadline := time.Now().Add(5 * time.Minute)
	left := c.rng.IntN(6)
	for {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s: the fleet does not get there", title)
		}
		var out bytes.Buffer
		cmd := c.command("deploy", append(c.flags(title), c.path("fleet.yml"))...)
		cmd.Stdout, cmd.Stderr = &out, &out
		check(c.t, cmd.Start())
		c.starts++
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		err, killed := c.disturb(cmd, done, kills, &left)
		if err == nil {
			break
		}
		if code := cmd.ProcessState.ExitCode(); !killed && code != 1 && code != 75 {
			c.t.Fatalf("%s: %v\n%s", title, err, out.String())
		}
	}
	c.checkAll(title)
}

// disturb kills the coordinator or a member's process from time to time until the
// command ends.
func (c *chaos) disturb(cmd *exec.Cmd, done chan error, kills bool, left *int) (err error, killed bool) {
	for {
		wait := time.Duration(100+c.rng.IntN(2500)) * time.Millisecond
		if !kills || *left == 0 {
			wait = 5 * time.Minute
		}
		select {
		case err := <-done:
			return err, killed
		case <-time.After(wait):
		}
		c.alone()
		if *left == 0 {
			c.t.Fatal("the command does not end")
		}
		*left--
		if n := c.rng.IntN(2 + len(c.others)); n >= 2 {
			c.others[n-2]()
			continue
		}
		if c.rng.IntN(3) == 0 {
			_ = cmd.Process.Kill()
			c.coordinators++
			killed = true
			continue
		}
		if list := c.members(); len(list) > 0 {
			_ = syscall.Kill(list[c.rng.IntN(len(list))].pid, syscall.SIGKILL)
			c.children++
		}
	}
}

// members returns the processes of members.
func (c *chaos) members() []process {
	var list []process
	for _, p := range allOf("--events=" + c.logs) {
		if strings.Contains(p.command, c.bin+" deploy ") {
			list = append(list, p)
		}
	}
	return list
}

// alone checks that no member has two processes that work at the same time: one must wait
// for the other.
func (c *chaos) alone() {
	holders := map[string]int{}
	for _, p := range c.members() {
		if !strings.Contains(p.command, "--lock-wait=") {
			_, state, _ := strings.Cut(p.command, "--state=")
			state, _, _ = strings.Cut(state, " ")
			holders[state]++
		}
	}
	for state, n := range holders {
		if n > 1 {
			c.t.Errorf("%d processes deploy %s", n, state)
		}
	}
}

// checkAll checks the served pages and the record, and that nothing is left to do.
func (c *chaos) checkAll(title string) {
	client := http.Client{Timeout: 10 * time.Second}
	defer client.CloseIdleConnections()
	for i, port := range c.ports {
		resp, err := client.Get(fmt.Sprintf("http://127.0.0.1:%d/", port))
		check(c.t, err)
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		check(c.t, err)
		if !strings.Contains(string(body), "<h1>"+title+"</h1>") {
			c.t.Errorf("%s: member m%d serves something else", title, i)
		}
	}
	data, err := os.ReadFile(c.path("fleet-run.json"))
	check(c.t, err)
	var record struct {
		Result  string
		Members []struct{ Name, Verdict string }
	}
	check(c.t, json.Unmarshal(data, &record))
	seen := map[string]bool{}
	for _, m := range record.Members {
		if m.Verdict != "done" && m.Verdict != "unchanged" || seen[m.Name] {
			c.t.Errorf("%s: the record has %s as %s", title, m.Name, m.Verdict)
		}
		seen[m.Name] = true
	}
	if record.Result != "done" || len(seen) != chaosFleet {
		c.t.Errorf("%s: the run ended %q with %d members", title, record.Result, len(seen))
	}
	if out, err := c.command("plan", append(slices.DeleteFunc(c.flags(title), func(f string) bool { return f == "--workers" }), c.path("fleet.yml"))...).CombinedOutput(); err != nil {
		c.t.Errorf("%s: something is left to do: %v\n%s", title, err, out)
	}
}
