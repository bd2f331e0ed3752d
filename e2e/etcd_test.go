//go:build linux

package e2e

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// TestEtcdCluster deploys examples/etcd: the members themselves say which there are. A
// client writes and reads all the time, during a change of a property, another VM, and
// with five members and three again, and while a member that is down is repaired by the
// deploy that changes the others. A member stays the same one until its instance is
// deleted: its drain script knows which it is. From disks that delete --keep-disk kept, the
// same cluster starts with its data, and refuses the disk of another member.
func TestEtcdCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes minutes")
	}
	t.Parallel()
	c := newCluster(t, "etcd")
	takeProgram(t, filepath.Join(c.dir, "release", "src", "etcd"), "etcd", "etcdctl")
	c.must("deploy", "--yes")
	if _, err := c.command("plan"); err != nil {
		t.Fatalf("there is something to do after the deploy: %v", err)
	}
	first := etcdMembers(c, 3)
	log := c.must("ssh", "--instance", "etcd/0", "--", "cat", "/var/vcap/sys/log/etcd/post-deploy.stdout.log")
	for _, s := range etcdServers(3) {
		if !strings.Contains(log, s) {
			t.Errorf("when post-deploy ran, %s was not in the cluster:\n%s", s, log)
		}
	}

	client := etcdClient(c)
	written := 0
	writing := startClient(t, etcdServers(3), func(server string) error {
		written++
		return etcdWrite(client, server, fmt.Sprint(written))
	})
	c.change("etcd.yml", "quota_backend_bytes: 67108864", "quota_backend_bytes: 100000000")
	out := c.must("deploy", "--yes")
	if !strings.Contains(out, "etcd: serves all the time") {
		t.Errorf("the plan does not say that the cluster serves:\n%s", out)
	}
	for _, s := range etcdServers(3) {
		reply, err := client.Get(s + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(reply.Body)
		reply.Body.Close()
		if err != nil || !strings.Contains(string(text), "\netcd_server_quota_backend_bytes 1e+08\n") {
			t.Errorf("%s does not have the new quota: %v", s, err)
		}
	}
	c.must("recreate", "--yes", "--instance", "etcd/0")
	if got := etcdMembers(c, 3); !maps.Equal(got, first) {
		t.Errorf("after the changes the members are %v, before %v", got, first)
	}

	c.change("etcd.yml", "instances: 3", "instances: 5")
	c.must("deploy", "--yes")
	five := etcdMembers(c, 5)
	c.change("etcd.yml", "instances: 5", "instances: 3")
	c.must("deploy", "--yes")
	if got := etcdMembers(c, 3); !maps.Equal(got, first) {
		t.Errorf("with three members again they are %v, before %v, with five %v", got, first, five)
	}
	asked, failed := writing()
	t.Logf("%d values were written and read during the changes", asked)
	if asked < 50 || len(failed) > 0 {
		t.Errorf("%d of %d values were not written and read: %v", len(failed), asked, failed)
	}
	for _, s := range etcdServers(3) {
		if got, err := etcdRead(client, s); got != fmt.Sprint(written) {
			t.Errorf("%s has the value %q, want %d: %v", s, got, written, err)
		}
	}

	c.endVM("etcd/1")
	eventually(t, func() error { return etcdWrite(client, etcdServers(3)[0], fmt.Sprint(written)) })
	writing = startClient(t, etcdServers(3), func(server string) error {
		written++
		return etcdWrite(client, server, fmt.Sprint(written))
	})
	c.change("etcd.yml", "quota_backend_bytes: 100000000", "quota_backend_bytes: 67108864")
	out = c.must("deploy", "--fix", "--yes")
	if want := "etcd: first etcd/1, which does not run; then etcd/0; then etcd/2"; !strings.Contains(out, want) {
		t.Errorf("the plan does not have the order %q:\n%s", want, out)
	}
	asked, failed = writing()
	t.Logf("%d values were written and read while a member was repaired and the others were changed", asked)
	if asked < 50 || len(failed) > 0 {
		t.Errorf("%d of %d values were not written and read: %v", len(failed), asked, failed)
	}
	if got := etcdMembers(c, 3); !maps.Equal(got, first) {
		t.Errorf("after the repair the members are %v, before %v", got, first)
	}

	c.must("delete", "--keep-disk", "--yes")
	disks := etcdKeptDisks(c, 3)
	c.must("disks", "attach", "--instance", "etcd/0", disks["etcd/1"])
	if out, err := c.command("deploy", "--yes"); err == nil || !strings.Contains(out, "this disk has the data of etcd-1, not of etcd-0") {
		t.Fatalf("with the disk of etcd/1 at etcd/0, the deploy ends with %v:\n%s", err, out)
	}
	for i := range 3 { // etcd/0 first: it has the disk of etcd/1
		instance := fmt.Sprintf("etcd/%d", i)
		c.must("disks", "attach", "--instance", instance, disks[instance])
	}
	c.must("deploy", "--yes")
	if got := etcdMembers(c, 3); !maps.Equal(got, first) {
		t.Errorf("from the kept disks the members are %v, before %v", got, first)
	}
	for _, s := range etcdServers(3) {
		if got, err := etcdRead(client, s); got != fmt.Sprint(written) {
			t.Errorf("from the kept disks %s has the value %q, want %d: %v", s, got, written, err)
		}
	}

	// A member that left a cluster that served waits for the others, so that no further one
	// is stopped.
	postStart := []string{"ssh", "--instance", "etcd/0", "--", "timeout", "25", "/var/vcap/jobs/etcd/bin/post-start"}
	c.must("ssh", "--instance", "etcd/0", "--", "/var/vcap/jobs/etcd/bin/drain")
	c.must("stop", "--instance", "etcd/1", "--instance", "etcd/2", "--yes")
	if out, err := c.command(postStart...); err == nil || strings.Contains(out, "serves when more members are started") {
		t.Errorf("post-start of a member without the others ends with %v:\n%s", err, out)
	}
	c.must("start", "--instance", "etcd/1", "--instance", "etcd/2", "--yes")
	c.must(postStart...)
}

// etcdKeptDisks returns the CIDs of the orphaned disks of n instances.
func etcdKeptDisks(c *cluster, n int) map[string]string {
	c.t.Helper()
	found := map[string]string{}
	for line := range strings.Lines(c.must("disks", "--orphaned", "--json")) {
		var disk struct{ Kind, Instance, CID, Why string }
		if err := json.Unmarshal([]byte(line), &disk); err != nil {
			c.t.Fatalf("%v in %s", err, line)
		}
		if disk.Kind == "disk" && disk.Why == "kept by delete --keep-disk" {
			found[disk.Instance] = disk.CID
		}
	}
	if len(found) != n {
		c.t.Fatalf("there are the kept disks %v, want %d", found, n)
	}
	return found
}

// takeProgram copies programs of this machine into a folder, or skips the test.
func takeProgram(t *testing.T, to string, names ...string) {
	t.Helper()
	for _, name := range names {
		path, err := exec.LookPath(name)
		if err != nil {
			t.Skipf("%s is not installed; .ci/install does that", name)
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.MkdirAll(to, 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(to, name), data, 0o755)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// etcdServers returns the URLs of the first servers: those of examples/etcd.
func etcdServers(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("https://127.51.0.%d:2379", 2+i))
	}
	return list
}

// etcdMembers returns the ids of the members by name. All n instances have to agree on
// them, and are healthy.
func etcdMembers(c *cluster, n int) map[string]string {
	c.t.Helper()
	var all map[string]string
	for i := range n {
		instance := fmt.Sprintf("etcd/%d", i)
		out := c.must("ssh", "--instance", instance, "--", "/var/vcap/jobs/etcd/bin/etcdctl", "--endpoints", etcdServers(n)[i], "member", "list")
		members := map[string]string{}
		for line := range strings.Lines(out) {
			fields := strings.Split(strings.TrimSpace(line), ", ")
			if len(fields) != 6 || fields[1] != "started" {
				c.t.Fatalf("%s has the members:\n%s", instance, out)
			}
			members[fields[2]] = fields[0]
			if want := fmt.Sprintf("https://127.51.0.%d", 2+i); fields[2] == fmt.Sprintf("etcd-%d", i) && (fields[3] != want+":2380" || fields[4] != want+":2379") {
				c.t.Errorf("the member %s has the URLs %s and %s", fields[2], fields[3], fields[4])
			}
		}
		if len(members) != n || all != nil && !maps.Equal(members, all) {
			c.t.Fatalf("%s has the members %v, etcd/0 has %v", instance, members, all)
		}
		all = members
	}
	out := c.must("ssh", "--instance", "etcd/0", "--", "/var/vcap/jobs/etcd/bin/etcdctl", "endpoint", "health", "2>&1")
	if strings.Count(out, "is healthy") != n {
		c.t.Fatalf("the members are not healthy:\n%s", out)
	}
	return all
}

// etcdClient returns a client with the certificate of the cluster.
func etcdClient(c *cluster) *http.Client {
	c.t.Helper()
	var secrets struct {
		TLS struct {
			CA, Certificate string
			PrivateKey      string `yaml:"private_key"`
		} `yaml:"etcd_tls"`
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "creds.yml"))
	if err == nil {
		err = yaml.Unmarshal(text, &secrets)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair([]byte(secrets.TLS.Certificate), []byte(secrets.TLS.PrivateKey))
	if err != nil {
		c.t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM([]byte(secrets.TLS.CA))
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}, DisableKeepAlives: true}
	return &http.Client{Timeout: 20 * time.Second, Transport: transport}
}

// etcdWrite writes a value through a server, and reads it again: both need a quorum.
func etcdWrite(client *http.Client, server, value string) error {
	if _, err := etcdCall(client, server+"/v3/kv/put", map[string]string{"key": encoded("key"), "value": encoded(value)}); err != nil {
		return err
	}
	got, err := etcdRead(client, server)
	if err == nil && got != value {
		err = fmt.Errorf("read %q after %q was written", got, value)
	}
	return err
}

// etcdRead reads the value through a server.
func etcdRead(client *http.Client, server string) (string, error) {
	reply, err := etcdCall(client, server+"/v3/kv/range", map[string]string{"key": encoded("key")})
	if err != nil {
		return "", err
	}
	var found struct {
		KVs []struct {
			Value []byte `json:"value"`
		} `json:"kvs"`
	}
	if err := json.Unmarshal(reply, &found); err != nil || len(found.KVs) == 0 {
		return "", fmt.Errorf("there is no value in %s: %w", reply, err)
	}
	return string(found.KVs[0].Value), nil
}

func encoded(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }

// etcdCall sends a request to etcd's JSON gateway.
func etcdCall(client *http.Client, url string, request map[string]string) ([]byte, error) {
	data, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	reply, err := client.Post(url, "application/json", bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err == nil && reply.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", reply.Status, text)
	}
	return text, err
}
