package agenttest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"bootstrap/agent"
)

// Target is an agent under test, to which no spec was applied yet.
type Target struct {
	URL  string // mbus, with user and password
	CA   string // PEM
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Root is the VM's base folder in the agent's error texts; default /var/vcap.
	Root string
	// Networks are the networks of the agent's settings, for the specs; may be
	// nil.
	Networks map[string]map[string]any
	// Disk creates and attaches a new persistent disk; nil skips the tests of
	// disks.
	Disk func(t testing.TB) (cid string, hint any)
	// Restart ends the agent's process and starts it again; nil skips that test.
	Restart func(t testing.TB)
	// Listen is an address of this machine with port 0 at which the agent reaches servers
	// of the tests; empty skips the tests of signed URLs.
	Listen string
	// Unsupported are messages that the agent must answer with "unknown
	// message".
	Unsupported []string
}

// FromEnv returns the target that variables of the environment describe, for a run
// against a real agent on a VM that may be destroyed:
//
//	BOOTSTRAP_AGENT_URL      https://user:password@host:port
//	BOOTSTRAP_AGENT_CA       file with the PEM of its CA
//	BOOTSTRAP_AGENT_DISK     optional: shell command that makes and attaches a
//	                         disk and prints its CID and its path on the VM
//	BOOTSTRAP_AGENT_RESTART  optional: shell command that restarts the agent
//	BOOTSTRAP_AGENT_LISTEN   optional: address of this machine, as the VM reaches it,
//	                         with port 0
//	BOOTSTRAP_AGENT_RECORD   optional: PART=FILE writes the exchanges of a part of the suite
//	                         to a file for testdata, with BOOTSTRAP_AGENT_SOURCE as the
//	                         version of the agent
//
// ok is false when BOOTSTRAP_AGENT_URL is not set.
func FromEnv(t testing.TB) (target Target, ok bool) {
	t.Helper()
	target.URL, ok = os.LookupEnv("BOOTSTRAP_AGENT_URL")
	if !ok {
		return target, false
	}
	ca, err := os.ReadFile(os.Getenv("BOOTSTRAP_AGENT_CA"))
	if err != nil {
		t.Fatalf("BOOTSTRAP_AGENT_CA: %v", err)
	}
	target.CA = string(ca)
	if command := os.Getenv("BOOTSTRAP_AGENT_DISK"); command != "" {
		target.Disk = func(t testing.TB) (string, any) {
			fields := strings.Fields(shell(t, command))
			if len(fields) != 2 {
				t.Fatalf("BOOTSTRAP_AGENT_DISK printed %q, want a CID and a path", fields)
			}
			return fields[0], fields[1]
		}
	}
	if command := os.Getenv("BOOTSTRAP_AGENT_RESTART"); command != "" {
		target.Restart = func(t testing.TB) { shell(t, command) }
	}
	target.Listen = os.Getenv("BOOTSTRAP_AGENT_LISTEN")
	return target, true
}

func shell(t testing.TB, command string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return string(out)
}

func (target Target) supports(method string) bool {
	return !slices.Contains(target.Unsupported, method)
}

// client is the project's own, straight to the agent.
func (target Target) client(t testing.TB) *agent.Client {
	t.Helper()
	c, err := agent.New(agent.Config{URL: target.URL, CA: target.CA, ReplyTo: "agenttest", Dial: target.Dial})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// transport sends plain HTTP requests to the agent that no client sends.
func (target Target) transport(t testing.TB) *http.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(target.CA)) {
		t.Fatal("the target's CA is no PEM")
	}
	transport := &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, DialContext: target.Dial,
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: 5 * time.Second,
	}
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

// base returns the URL without credentials, and the credentials.
func (target Target) base(t testing.TB) (base, user, password string) {
	t.Helper()
	u, err := url.Parse(target.URL)
	if err != nil {
		t.Fatal("the target's URL is none")
	}
	user = u.User.Username()
	password, _ = u.User.Password()
	return "https://" + u.Host, user, password
}
