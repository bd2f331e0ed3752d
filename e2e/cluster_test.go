//go:build linux

package e2e

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// cluster is a deployment of several instances in a folder, with its own home.
type cluster struct {
	t    *testing.T
	dir  string
	path string // of the program
	env  []string
}

// newCluster returns a cluster in a copy of a folder of examples, whose commands need no
// flags there.
func newCluster(t *testing.T, example string) *cluster {
	t.Helper()
	bin, cache := program(t)
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "env"), os.DirFS(filepath.Join("../examples", example))); err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: filepath.Join(dir, "env"), path: filepath.Join(bin, "bootstrap")}
	c.env = append(os.Environ(), "HOME="+home, "XDG_CACHE_HOME="+cache)
	t.Cleanup(func() {
		if out, err := c.command("delete", "--yes", "--skip-if-missing"); err != nil {
			t.Errorf("cannot delete the cluster: %v\n%s", err, out)
		}
	})
	return c
}

// command runs a command of the program.
func (c *cluster) command(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.path, args...)
	cmd.Dir, cmd.Env, cmd.WaitDelay = c.dir, c.env, 10*time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// must runs a command that has to succeed.
func (c *cluster) must(args ...string) string {
	c.t.Helper()
	start := time.Now()
	out, err := c.command(args...)
	if err != nil {
		c.t.Fatalf("bootstrap %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	c.t.Logf("bootstrap %s took %s", strings.Join(args, " "), time.Since(start).Round(time.Second/10))
	return out
}

// change replaces texts of a file: pairs of the old and the new one.
func (c *cluster) change(file string, pairs ...string) {
	c.t.Helper()
	path := filepath.Join(c.dir, file)
	data, err := os.ReadFile(path)
	text := string(data)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(text, pairs[i]) {
			c.t.Fatalf("%s has no %q: %v", file, pairs[i], err)
		}
		text = strings.ReplaceAll(text, pairs[i], pairs[i+1])
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
}

// endVM kills all processes of the VM of an instance.
func (c *cluster) endVM(instance string) {
	c.t.Helper()
	out := c.must("status", "--instance", instance, "--json")
	vm := regexp.MustCompile(`"vm":\{"cid":"([^"]+)"`).FindStringSubmatch(out)
	if vm == nil {
		c.t.Fatalf("the status of %s has no VM:\n%s", instance, out)
	}
	dir := filepath.Join(filepath.Dir(c.dir), "home", ".bosh", "local", "vms", vm[1])
	endAll(func() []process { return append(allOf("plugin agent "+dir), allOf("VCAP_ROOT="+dir)...) })
}

// eventually waits until the check succeeds.
func eventually(t *testing.T, check func() error) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		err := check()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// natsServer is the nats-server that the module .ci/nats pins, built once for the test.
func natsServer(t *testing.T, to string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		t.Fatal(err)
	}
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", to, "github.com/nats-io/nats-server/v2")
	build.Dir = filepath.Join("..", ".ci", "nats")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("cannot build nats-server: %v\n%s", err, out)
	}
}

// TestNATSCluster deploys examples/nats: the servers themselves say that each one knows
// all others by its link. A client that takes any of them is served during changes of a
// property, of all VMs and of the number of servers.
func TestNATSCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("builds nats-server")
	}
	t.Parallel()
	c := newCluster(t, "nats")
	natsServer(t, filepath.Join(c.dir, "release", "src", "nats-server", "nats-server"))
	c.must("deploy", "--yes")
	servers := natsServers(3)
	eventually(t, func() error { return meshed(servers) })
	if _, err := c.command("plan"); err != nil {
		t.Fatalf("there is something to do after the deploy: %v", err)
	}

	password := natsPassword(c)
	client := startClient(t, servers, func(server string) error { return natsEcho(server, password) })
	c.change("nats.yml", "max_payload: 1048576", "max_payload: 2097152")
	out := c.must("deploy", "--yes")
	if !strings.Contains(out, "nats: serves all the time") {
		t.Errorf("the plan does not say that the cluster serves:\n%s", out)
	}
	for _, s := range servers {
		if got, err := natsStatus(s, "varz"); err != nil || got["max_payload"] != 2097152.0 {
			t.Errorf("%s has the max_payload %v: %v", s, got["max_payload"], err)
		}
	}
	eventually(t, func() error { return meshed(servers) })

	c.must("recreate", "--yes")
	eventually(t, func() error { return meshed(servers) })

	c.change("nats.yml", "instances: 3", "instances: 5")
	c.must("deploy", "--yes")
	eventually(t, func() error { return meshed(natsServers(5)) })
	c.change("nats.yml", "instances: 5", "instances: 3")
	c.must("deploy", "--yes")
	eventually(t, func() error { return meshed(servers) })

	asked, failed := client()
	t.Logf("%d requests during the changes", asked)
	if asked < 50 || len(failed) > 0 {
		t.Errorf("%d of %d requests had no answer: %v", len(failed), asked, failed)
	}
	out = c.must("status")
	if got := regexp.MustCompile(`(?m)^nats/\d\*?.*running`).FindAllString(out, -1); len(got) != 3 {
		t.Errorf("the status is:\n%s", out)
	}
}

// natsServers returns the addresses of the first servers: those of examples/nats.
func natsServers(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("127.44.0.%d", 2+i))
	}
	return list
}

// natsStatus asks a server how it is.
func natsStatus(server, what string) (map[string]any, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	reply, err := client.Get("http://" + net.JoinHostPort(server, "8222") + "/" + what)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	var got map[string]any
	return got, json.NewDecoder(io.LimitReader(reply.Body, 1<<20)).Decode(&got)
}

// meshed reports which server does not have routes to exactly the others, or another
// name than its index.
func meshed(servers []string) error {
	for i, s := range servers {
		status, err := natsStatus(s, "routez")
		if err != nil {
			return err
		}
		if want := fmt.Sprintf("nats-%d", i); status["server_name"] != want {
			return fmt.Errorf("%s is %v, want %s", s, status["server_name"], want)
		}
		var want, got []string
		for k := range servers {
			if k != i {
				want = append(want, fmt.Sprintf("nats-%d", k))
			}
		}
		routes, _ := status["routes"].([]any)
		for _, r := range routes {
			name, _ := r.(map[string]any)["remote_name"].(string)
			got = append(got, name)
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) { // several connections for each
			return fmt.Errorf("%s has routes to %v, want %v", s, got, want)
		}
	}
	return nil
}

// natsPassword returns the generated password of the servers.
func natsPassword(c *cluster) string {
	c.t.Helper()
	var secrets struct {
		Password string `yaml:"nats_password"`
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "creds.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &secrets)
	}
	if err != nil || secrets.Password == "" {
		c.t.Fatalf("no password of nats: %v", err)
	}
	return secrets.Password
}

// startClient asks any of the servers again and again, the next one if one does not
// answer, until the returned function is called. That returns how often it asked, and
// what happened where no server answered.
func startClient(t *testing.T, servers []string, ask func(server string) error) func() (int, []error) {
	t.Helper()
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var asked int
	var failed []error
	wg.Go(func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(50 * time.Millisecond):
			}
			asked++
			var errs []error
			for i := range servers {
				server := servers[(asked+i)%len(servers)]
				err := ask(server)
				if err == nil {
					errs = nil
					break
				}
				if lost := (&lostError{}); errors.As(err, &lost) {
					failed = append(failed, fmt.Errorf("%s: %w", server, err))
				}
				errs = append(errs, fmt.Errorf("%s: %w", server, err))
			}
			if err := errors.Join(errs...); err != nil {
				failed = append(failed, err)
			}
		}
	})
	end := sync.OnceFunc(func() {
		close(stop)
		wg.Wait()
	})
	t.Cleanup(end)
	return func() (int, []error) {
		end()
		return asked, failed
	}
}

// lostError is the error of a request that a server has accepted and not answered.
type lostError struct{ error }

// natsEcho sends a message through a server and waits until it comes back: a few lines
// of NATS' protocol (docs.nats.io, client protocol). A server that ends must do so without a
// lostError.
func natsEcho(server, password string) error {
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(server, "4222"), 10*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(10 * time.Second)); err != nil {
		return err
	}
	login, err := json.Marshal(map[string]any{"verbose": false, "user": "nats", "pass": password})
	if err != nil {
		return err
	}
	lines := bufio.NewScanner(conn)
	if !lines.Scan() || !strings.HasPrefix(lines.Text(), "INFO ") {
		return errors.Join(errors.New("no client is accepted"), lines.Err())
	}
	if _, err := fmt.Fprintf(conn, "CONNECT %s\r\nSUB echo 1\r\n", login); err != nil {
		return &lostError{err}
	}
	// As a client whose requests take a while.
	time.Sleep(300 * time.Millisecond)
	if _, err := fmt.Fprint(conn, "PUB echo 5\r\nhello\r\n"); err != nil {
		return &lostError{err}
	}
	for lines.Scan() {
		switch line := lines.Text(); {
		case line == "hello":
			return nil
		case strings.HasPrefix(line, "-ERR"):
			return &lostError{errors.New(line)}
		}
	}
	return &lostError{errors.Join(lines.Err(), io.ErrUnexpectedEOF)}
}

// TestRollingPage updates two instances of a page, of which one always answers: with
// another property, another stemcell, and other disks, whose data moves.
func TestRollingPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes a minute")
	}
	t.Parallel()
	c := newCluster(t, "nats")
	if err := os.CopyFS(filepath.Join(c.dir, "page"), os.DirFS("../testdata/quickstart/page-release")); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1", "2"} {
		script := `mkdir s && : >s/image && printf 'name: local\nversion: "` + version + `"\napi_version: 3\noperating_system: local\nstemcell_formats: [local]\ncloud_properties: {}\n' >s/stemcell.MF && tar -C s -czf stemcell-` + version + `.tgz . && rm -r s`
		cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
		cmd.Dir = c.dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	c.change("cloud.yml", "127.44.", "127.45.", "vm_types:", "disk_types: [{name: small, disk_size: 64}]\n\nvm_types:")
	c.change("bootstrap.yml", "nats: release", "page: page", "embedded:local-stemcell", "stemcell-1.tgz")
	c.change("nats.yml", "name: nats", "name: page", "release: nats", "release: page", "instances: 3", "instances: 2\n  persistent_disk_type: small",
		"azs: [z1, z2, z3]", "azs: [z1, z2]", "      nats:\n        password: ((nats_password))\n        max_payload: 1048576", "      page: {title: first, port: 8787}")
	c.must("deploy", "--yes")
	servers := []string{"127.45.0.2", "127.45.0.3"}
	get := func(server string) (string, error) {
		client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
		reply, err := client.Get("http://" + net.JoinHostPort(server, "8787") + "/")
		if err != nil {
			return "", err
		}
		defer reply.Body.Close()
		text, err := io.ReadAll(reply.Body)
		if err == nil && reply.StatusCode != http.StatusOK {
			err = errors.New(reply.Status)
		}
		return string(text), err
	}
	client := startClient(t, servers, func(server string) error {
		_, err := get(server)
		return err
	})
	for _, change := range []struct{ file, from, to, want string }{
		{"nats.yml", "title: first", "title: second", "update in place jobs"},
		{"bootstrap.yml", "stemcell-1.tgz", "stemcell-2.tgz", "replace vm"},
		{"cloud.yml", "disk_size: 64", "disk_size: 96", "disk"},
	} {
		c.change(change.file, change.from, change.to)
		if change.file == "bootstrap.yml" {
			c.must("update-lock")
		}
		out := c.must("deploy", "--yes")
		if !strings.Contains(out, change.want) || !strings.Contains(out, "page: serves all the time") {
			t.Errorf("after %s, the plan is:\n%s", change.to, out)
		}
	}
	asked, failed := client()
	t.Logf("%d requests during the changes", asked)
	if asked < 50 || len(failed) > 0 {
		t.Errorf("%d of %d requests had no answer: %v", len(failed), asked, failed)
	}
	for _, server := range servers {
		text, err := get(server)
		if err != nil || !strings.Contains(text, "second") || strings.Contains(text, "visited 1 times") {
			t.Errorf("%s answers %q, %v", server, text, err)
		}
	}
}
