//go:build unix

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"bootstrap/internal/postgrestest"
)

// TestWorkersChaos is TestFleetChaos with three workers, of which some are killed,
// and a PostgreSQL server that stops from time to time.
func TestWorkersChaos(t *testing.T) {
	seconds, err := strconv.Atoi(os.Getenv("FLEET"))
	if err != nil {
		t.Skip("set FLEET to the number of seconds")
	}
	server := postgrestest.Start(t)
	c := newChaos(t)
	t.Logf("seed %d", c.seed)
	text, err := os.ReadFile(c.path("fleet.yml"))
	check(t, err)
	check(t, os.WriteFile(c.path("fleet.yml"), []byte(strings.Replace(string(text), "vars: {title: ((title))}", "vars_files: [title.yml]", 1)), 0o600))
	url := server.URL()
	c.logs = c.dir
	c.flags = func(string) []string { return []string{"--workers", "--database", url} }
	var workers [3]*exec.Cmd
	start := func(i int) {
		cmd := c.command("worker", "--database", url)
		out, err := os.OpenFile(filepath.Join(c.dir, fmt.Sprintf("worker%d.out", i)), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		check(t, err)
		defer out.Close()
		cmd.Stdout, cmd.Stderr = out, out
		check(t, cmd.Start())
		workers[i] = cmd
	}
	end := func(i int) {
		_ = workers[i].Process.Kill()
		_ = workers[i].Wait()
	}
	defer func() {
		for i := range workers {
			end(i)
			if out, err := os.ReadFile(filepath.Join(c.dir, fmt.Sprintf("worker%d.out", i))); err == nil && t.Failed() {
				t.Logf("worker %d:\n%s", i, out)
			}
		}
	}()
	for i := range workers {
		start(i)
	}
	killed, stopped := 0, 0
	c.others = []func(){
		func() { i := c.rng.IntN(len(workers)); end(i); start(i); killed++ },
		func() {
			server.Stop()
			time.Sleep(time.Duration(c.rng.IntN(4000)) * time.Millisecond) // a length of the outage, not a wait for something
			server.Restart(t)
			stopped++
		},
	}
	update := func(title string, kills bool) {
		check(t, os.WriteFile(c.path("title.yml"), []byte("title: "+title+"\n"), 0o600))
		began := time.Now()
		c.update(title, kills)
		t.Logf("%s took %s", title, time.Since(began).Round(time.Second))
	}
	update("first", false)
	rounds := 0
	for end := time.Now().Add(time.Duration(seconds) * time.Second); time.Now().Before(end); rounds++ {
		update(fmt.Sprintf("round-%d", rounds), true)
	}
	t.Logf("%d rounds of %d members, %d coordinators, %d processes of members and %d workers killed, %d stops of the server, %d starts of the command",
		rounds, chaosFleet, c.coordinators, c.children, killed, stopped, c.starts)
	if killed == 0 || stopped == 0 {
		t.Error("nothing was killed")
	}
}
