//go:build linux || darwin

package agent

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bootstrap/agent"

	"golang.org/x/crypto/ssh"
)

// registry serves settings like bosh-init's registry, and counts requests.
type registry struct {
	settings atomic.Pointer[agent.Settings]
	gets     atomic.Int32
}

func (r *registry) ServeHTTP(w http.ResponseWriter, request *http.Request) {
	r.gets.Add(1)
	user, password, _ := request.BasicAuth()
	s := r.settings.Load()
	if s == nil || request.URL.Path != "/instances/vm-1/settings" || user != "registry" || password != "hunter2" {
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"settings":"","status":"not_found"}`)
		return
	}
	data, _ := json.Marshal(s)
	_ = json.NewEncoder(w).Encode(map[string]string{"settings": string(data), "status": "ok"})
}

// tunneled returns a VM that gets its settings from a registry through a tunnel.
func tunneled(t *testing.T, change ...func(*agent.BootSSH)) (*testVM, *registry, *agent.BootSSH) {
	t.Helper()
	r := &registry{}
	boot := &agent.BootSSH{Address: freeAddress(t), User: "vcap", Password: "c1oudc0w"}
	for _, set := range change {
		set(boot)
	}
	m := newMachine(t, func(s *agent.Settings, b *agent.Boot) {
		fresh := *s
		r.settings.Store(&fresh)
		b.SettingsFile, b.Registry, b.SSH = "", "http://registry:hunter2@127.0.0.1:6901", boot
	})
	return m, r, boot
}

// connect opens an SSH connection as soon as the server listens.
func connect(t *testing.T, address string, config *ssh.ClientConfig) *ssh.Client {
	t.Helper()
	config.Timeout = patience
	if config.HostKeyCallback == nil {
		config.HostKeyCallback = ssh.InsecureIgnoreHostKey()
	}
	for deadline := time.Now().Add(patience); ; {
		client, err := ssh.Dial("tcp", address, config)
		if err == nil {
			t.Cleanup(func() { client.Close() })
			return client
		}
		var refused *net.OpError
		if !errors.As(err, &refused) || time.Now().After(deadline) {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// expose serves handler at a port of the VM.
func expose(t *testing.T, client *ssh.Client, address string, handler http.Handler) net.Listener {
	t.Helper()
	listener, err := client.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); client.Close(); <-done })
	return listener
}

func password(boot *agent.BootSSH) *ssh.ClientConfig {
	return &ssh.ClientConfig{User: boot.User, Auth: []ssh.AuthMethod{ssh.Password(boot.Password)}}
}

// TestRegistryThroughTheTunnel runs a VM of API version 1: it gets its settings through
// the tunnel, reads them again through it, and keeps them when the tunnel is closed.
func TestRegistryThroughTheTunnel(t *testing.T) {
	t.Parallel()
	m, r, boot := tunneled(t)
	m.run()
	client := connect(t, boot.Address, password(boot))
	if conn, err := net.Dial("tcp", strings.TrimPrefix(m.url, "https://")); err == nil {
		conn.Close()
		t.Error("the agent listens without settings")
	}
	expose(t, client, "127.0.0.1:6901", r)
	m.await()

	folder := filepath.Join(m.dir, "disk")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	changed := *r.settings.Load()
	changed.Disks.Persistent = map[string]any{"disk-1": folder}
	r.settings.Store(&changed)
	m.must("mount_disk", "disk-1")

	// The connection breaks and is opened again, as the tunnel does.
	client.Close()
	if got := m.must("list_disk"); got != `["disk-1"]` {
		t.Errorf("list_disk without the tunnel: %s", got)
	}
	before := r.gets.Load()
	expose(t, connect(t, boot.Address, password(boot)), "localhost:6901", r)
	m.must("list_disk")
	if r.gets.Load() == before {
		t.Error("after the tunnel came back the registry is not asked")
	}
	if all := m.log.String(); strings.Contains(all, "hunter2") || strings.Contains(all, boot.Password) {
		t.Error("a password is in the log")
	}
}

// TestRegistryAnswers: the agent tries again after any wrong answer of the registry.
func TestRegistryAnswers(t *testing.T) {
	t.Parallel()
	m, r, boot := tunneled(t)
	answers := []string{"", "garbage", `{"settings":"","status":"not_found"}`, `{"settings":"{}","status":"ok"}`, `{"settings":"[","status":"ok"}`}
	var asked atomic.Int32
	m.run()
	expose(t, connect(t, boot.Address, password(boot)), "127.0.0.1:6901", http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		if n := int(asked.Add(1)); n <= len(answers) {
			_, _ = io.WriteString(w, answers[n-1])
			return
		}
		r.ServeHTTP(w, request)
	}))
	m.await()
}

// TestForwardedPortIsTheVMsAlone: the forwarded port is not open on this machine.
func TestForwardedPortIsTheVMsAlone(t *testing.T) {
	t.Parallel()
	m, r, boot := tunneled(t)
	r.settings.Store(nil)
	m.run()
	address := freeAddress(t)
	expose(t, connect(t, boot.Address, password(boot)), address, r)
	if conn, err := net.Dial("tcp", address); err == nil {
		conn.Close()
		t.Errorf("%s is open on the host", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Errorf("the forwarded port is taken on the host: %v", err)
	} else {
		listener.Close()
	}
}

func TestForwards(t *testing.T) {
	t.Parallel()
	m, _, boot := tunneled(t)
	m.run()
	first := connect(t, boot.Address, password(boot))
	if _, err := first.Listen("tcp", "10.1.2.3:6901"); err == nil {
		t.Error("an address that is not the VM's was forwarded")
	}
	any, err := first.Listen("tcp", "127.0.0.1:0")
	if err != nil || any.Addr().(*net.TCPAddr).Port == 0 {
		t.Errorf("port 0: %v, %v", any, err)
	}
	if _, err := first.NewSession(); err == nil {
		t.Error("a session was opened")
	}
	if conn, err := first.Dial("tcp", boot.Address); err == nil {
		conn.Close()
		t.Error("the server connects to addresses for its clients")
	}
	if ok, _, err := first.SendRequest("keepalive@openssh.com", true, nil); err != nil {
		t.Errorf("keep-alive: %v %v", ok, err)
	}

	// The later client has the port; when the earlier one cancels its
	// forwarding, nothing changes.
	old := expose(t, first, "127.0.0.1:6901", text("old"))
	second := connect(t, boot.Address, password(boot))
	expose(t, second, "127.0.0.1:6901", text("new"))
	_ = old.Close()
	// The log shows the answer "new" as an invalid null.
	m.eventually("the second client is asked", func() bool { return strings.Contains(m.log.String(), "in literal null") })
}

type text string

func (s text) ServeHTTP(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, string(s)) }

func TestSSHAdmits(t *testing.T) {
	t.Parallel()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	_, otherKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := ssh.NewSignerFromKey(otherKey)
	if err != nil {
		t.Fatal(err)
	}
	m, _, boot := tunneled(t)
	boot.AuthorizedKeys = []string{string(ssh.MarshalAuthorizedKey(signer.PublicKey()))}
	var b agent.Boot
	if err := readJSON(filepath.Join(m.dir, "boot.json"), &b); err != nil {
		t.Fatal(err)
	}
	b.SSH = boot
	m.writeJSON(filepath.Join(m.dir, "boot.json"), b)
	m.run()
	var host ssh.PublicKey
	config := password(boot)
	config.HostKeyCallback = func(_ string, _ net.Addr, key ssh.PublicKey) error { host = key; return nil }
	connect(t, boot.Address, config)

	interactive := func(answer string) ssh.AuthMethod {
		return ssh.KeyboardInteractive(func(_, _ string, questions []string, _ []bool) ([]string, error) {
			answers := make([]string, len(questions))
			for i := range answers {
				answers[i] = answer
			}
			return answers, nil
		})
	}
	for _, c := range []struct {
		name, user string
		auth       ssh.AuthMethod
		admitted   bool
	}{
		{"password", "vcap", ssh.Password("c1oudc0w"), true},
		{"wrong password", "vcap", ssh.Password("c1oudc0"), false},
		{"no password", "vcap", ssh.Password(""), false},
		{"wrong user", "root", ssh.Password("c1oudc0w"), false},
		{"key", "vcap", ssh.PublicKeys(signer), true},
		{"wrong key", "vcap", ssh.PublicKeys(other), false},
		{"key of another user", "root", ssh.PublicKeys(signer), false},
		{"keyboard-interactive", "vcap", interactive("c1oudc0w"), true},
		{"wrong keyboard-interactive", "vcap", interactive("x"), false},
		{"none", "vcap", nil, false},
	} {
		config := &ssh.ClientConfig{User: c.user, HostKeyCallback: ssh.FixedHostKey(host), Timeout: patience}
		if c.auth != nil {
			config.Auth = []ssh.AuthMethod{c.auth}
		}
		client, err := ssh.Dial("tcp", boot.Address, config)
		if (err == nil) != c.admitted {
			t.Errorf("%s: %v", c.name, err)
		}
		if err == nil {
			client.Close()
		}
	}
	if info, err := os.Stat(filepath.Join(m.dir, "ssh_host_key")); err != nil || info.Mode() != 0o600 {
		t.Errorf("the host key: %v %v", info, err)
	}
	m.halt()
	m.run()
	config.HostKeyCallback = ssh.FixedHostKey(host)
	connect(t, boot.Address, config)
	m.halt()
}

// TestJumpbox: if the VM is a jumpbox, its user can open connections to what the VM
// reaches, in both directions until each is closed, and gets no session.
func TestJumpbox(t *testing.T) {
	t.Parallel()
	m, _, boot := tunneled(t, func(b *agent.BootSSH) { b.Jumpbox = true })
	m.run()
	behind, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer behind.Close()
	go func() {
		for {
			conn, err := behind.Accept()
			if err != nil {
				return
			}
			input, _ := io.ReadAll(conn) // It reads up to the end of the client's direction.
			_, _ = conn.Write(bytes.ToUpper(input))
			conn.Close()
		}
	}()
	client := connect(t, boot.Address, password(boot))
	for range 3 {
		conn, err := client.Dial("tcp", behind.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, "through the jumpbox"); err != nil {
			t.Fatal(err)
		}
		if err := conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != "THROUGH THE JUMPBOX" {
			t.Errorf("got %q, %v", got, err)
		}
		conn.Close()
	}
	closed := behind.Addr().String()
	behind.Close()
	if conn, err := client.Dial("tcp", closed); err == nil {
		conn.Close()
		t.Error("a port where nothing listens was reached")
	}
	if _, err := client.NewSession(); err == nil {
		t.Error("a session was opened")
	}
	// The agent can end while a connection is open.
	m.halt()
}

// TestSSHGarbage: clients that do not speak SSH do not disturb others.
func TestSSHGarbage(t *testing.T) {
	t.Parallel()
	m, r, boot := tunneled(t)
	m.run()
	client := connect(t, boot.Address, password(boot))
	for _, garbage := range []string{"", "GET / HTTP/1.0\r\n\r\n", "SSH-2.0-x\r\n\x00\x00\x00\x01garbage", strings.Repeat("x", 1<<16)} {
		conn, err := net.Dial("tcp", boot.Address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(conn, garbage)
		conn.Close()
	}
	for _, payload := range []string{"", "\x00", "\x00\x00\x00\xff", "\x00\x00\x00\x09127.0.0.1\xff\xff\xff\xff"} {
		if ok, _, err := client.SendRequest("tcpip-forward", true, []byte(payload)); ok || err != nil {
			t.Errorf("tcpip-forward %q: %v %v", payload, ok, err)
		}
		if ok, _, err := client.SendRequest("cancel-tcpip-forward", true, []byte(payload)); ok || err != nil {
			t.Errorf("cancel-tcpip-forward %q: %v %v", payload, ok, err)
		}
	}
	expose(t, client, "127.0.0.1:6901", r)
	m.await()
}

// TestSilentTunnel: the agent stops waiting for a silent registry after some time, and
// can be stopped before.
func TestSilentTunnel(t *testing.T) {
	t.Parallel()
	m, _, boot := tunneled(t)
	m.run()
	client := connect(t, boot.Address, password(boot))
	arrived := make(chan struct{}, 10)
	over, cancel := context.WithCancel(context.Background())
	defer cancel()
	expose(t, client, "127.0.0.1:6901", http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		select {
		case <-r.Context().Done():
		case <-over.Done():
		}
	}))
	<-arrived
	m.halt()
}
