package tunnel

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
)

// admit returns the configuration of a server that accepts one key.
func admit(public ssh.PublicKey) *ssh.ServerConfig {
	return &ssh.ServerConfig{PublicKeyCallback: func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if conn.User() == "vcap" && bytes.Equal(key.Marshal(), public.Marshal()) {
			return nil, nil
		}
		return nil, errors.New("unknown key")
	}}
}

func admitPassword(password string) *ssh.ServerConfig {
	return &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, got []byte) (*ssh.Permissions, error) {
		if string(got) == password {
			return nil, nil
		}
		return nil, errors.New("wrong password")
	}}
}

// configFor returns a configuration with short time limits, so that tests are fast.
func configFor(t *testing.T, s *sshServer) Config {
	return Config{
		Host: "127.0.0.1", Port: s.port(), User: "vcap", HostName: "vm-1", Remote: "127.0.0.1:0",
		KnownHosts:     filepath.Join(t.TempDir(), "ssh", "known_hosts"),
		ConnectTimeout: 10 * time.Second, AuthTimeout: 10 * time.Second, ListenTimeout: 10 * time.Second, KeepAlive: 10 * time.Second,
		Report: func(text string) { t.Log(text) },
	}
}

// answering serves HTTP on each listener.
func answering(l net.Listener) error {
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s", r.URL.Path, body)
	}), ReadHeaderTimeout: time.Minute}
	return server.Serve(l)
}

func open(t *testing.T, cfg Config) *Tunnel {
	t.Helper()
	tun, err := Open(t.Context(), cfg, answering)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = tun.Close() })
	return tun
}

// fetch requests the answer of the VM's port twice on one connection, and returns it.
func fetch(t *testing.T, address string) {
	t.Helper()
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: 10 * time.Second}
	for _, path := range []string{"/one", "/two"} {
		var resp *http.Response
		var err error
		// The server reports that it listens shortly before the tunnel is ready, and
		// refuses connections until then.
		for range 100 {
			resp, err = client.Post("http://"+address+path, "text/plain", strings.NewReader(strings.Repeat("x", 100_000)))
			if err == nil {
				break
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || string(body) != path+" "+strings.Repeat("x", 100_000) {
			t.Fatalf("got %d bytes, %v", len(body), err)
		}
	}
}

func TestTunnel(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	tun := open(t, cfg)
	address := <-s.forwards
	fetch(t, address)
	if tun.Err() != nil {
		t.Error(tun.Err())
	}
	if info, err := os.Stat(cfg.KnownHosts); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	if err := tun.Close(); err != nil {
		t.Error(err)
	}
	if err := tun.Close(); err != nil {
		t.Error(err)
	}
	if tun.Err() == nil {
		t.Error("closed without an error")
	}
	eventually(t, "the VM's port is free", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
}

func TestWaysToLogIn(t *testing.T) {
	t.Parallel()
	plain, plainPublic := newKey(t, "")
	locked, lockedPublic := newKey(t, "open sesame")
	rsaText, rsaPublic := newRSAKey(t)
	rsaKey, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	pkcs1 := string(pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(rsaKey)}))
	pkcs1Public, _ := ssh.NewPublicKey(&rsaKey.PublicKey)
	pkcs8Bytes, err := x509.MarshalPKCS8PrivateKey(ecKey)
	if err != nil {
		t.Fatal(err)
	}
	pkcs8 := string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: pkcs8Bytes}))
	pkcs8Public, _ := ssh.NewPublicKey(&ecKey.PublicKey)
	interactive := &ssh.ServerConfig{KeyboardInteractiveCallback: func(_ ssh.ConnMetadata, ask ssh.KeyboardInteractiveChallenge) (*ssh.Permissions, error) {
		got, err := ask("", "", []string{"Password: "}, []bool{false})
		if err != nil || len(got) != 1 || got[0] != "secret" {
			return nil, errors.New("wrong answer")
		}
		return nil, nil
	}}
	for name, tc := range map[string]struct {
		server *ssh.ServerConfig
		cfg    Config
	}{
		"ed25519":              {admit(plainPublic), Config{PrivateKey: plain}},
		"passphrase":           {admit(lockedPublic), Config{PrivateKey: locked, Passphrase: "open sesame"}},
		"rsa openssh":          {admit(rsaPublic), Config{PrivateKey: rsaText}},
		"rsa pkcs1":            {admit(pkcs1Public), Config{PrivateKey: pkcs1}},
		"ecdsa pkcs8":          {admit(pkcs8Public), Config{PrivateKey: pkcs8}},
		"password":             {admitPassword("secret"), Config{Password: "secret"}},
		"interactive":          {interactive, Config{Password: "secret"}},
		"password after key":   {admitPassword("secret"), Config{PrivateKey: plain, Password: "secret"}},
		"unneeded passphrase":  {admit(plainPublic), Config{PrivateKey: plain, Passphrase: "none"}},
		"agent is not running": {admit(plainPublic), Config{PrivateKey: plain, AgentSocket: "/no/such/socket"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newServer(t, tc.server)
			cfg := configFor(t, s)
			cfg.PrivateKey, cfg.Passphrase, cfg.Password, cfg.AgentSocket = tc.cfg.PrivateKey, tc.cfg.Passphrase, tc.cfg.Password, tc.cfg.AgentSocket
			open(t, cfg)
			fetch(t, <-s.forwards)
		})
	}
}

func TestAgent(t *testing.T) {
	t.Parallel()
	ecKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	public, err := ssh.NewPublicKey(&ecKey.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: ecKey}); err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "agent") // t.TempDir can be too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Skip(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, conn); conn.Close() }()
		}
	}()
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.AgentSocket = l.Addr().String()
	open(t, cfg)
	fetch(t, <-s.forwards)
}

func TestBadConfig(t *testing.T) {
	t.Parallel()
	plain, _ := newKey(t, "")
	locked, _ := newKey(t, "open sesame")
	broken := strings.Replace(plain, "b3BlbnNzaC1rZXktdjE", "c3BlbnNzaC1rZXktdjE", 1)
	for name, tc := range map[string]struct {
		cfg  Config
		want string
	}{
		"no host":          {Config{User: "vcap", PrivateKey: plain}, "no host is given"},
		"no user":          {Config{Host: "x", PrivateKey: plain}, "no user is given"},
		"nothing":          {Config{Host: "x", User: "vcap"}, "there is no private key, no password and no ssh-agent"},
		"locked":           {Config{Host: "x", User: "vcap", PrivateKey: locked}, "set the environment variable BOOTSTRAP_SSH_PASSPHRASE"},
		"wrong passphrase": {Config{Host: "x", User: "vcap", PrivateKey: locked, Passphrase: "wrong"}, "BOOTSTRAP_SSH_PASSPHRASE does not belong to the private key"},
		"no key":           {Config{Host: "x", User: "vcap", PrivateKey: "top secret text"}, "cannot read the private key"},
		"broken key":       {Config{Host: "x", User: "vcap", PrivateKey: broken}, "cannot read the private key"},
		"no agent":         {Config{Host: "x", User: "vcap", AgentSocket: "/no/such/socket"}, "the ssh-agent does not answer"},
	} {
		_, err := Open(t.Context(), tc.cfg, answering)
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v", name, err)
			continue
		}
		for _, secret := range []string{"top secret text", "open sesame", strings.Split(plain, "\n")[1], strings.Split(locked, "\n")[1]} {
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows a secret: %v", name, err)
			}
		}
	}
}

func TestWrongKey(t *testing.T) {
	t.Parallel()
	_, public := newKey(t, "")
	other, _ := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	cfg.PrivateKey, cfg.Password, cfg.AuthTimeout = other, "hunter2", 700*time.Millisecond
	_, err := Open(t.Context(), cfg, answering)
	if err == nil || !strings.Contains(err.Error(), `this has lasted for 700ms: check user "vcap" and its private key or password`) || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(cfg.KnownHosts); err == nil {
		t.Error("the host key of a server that does not admit us was remembered")
	}
}

// The new VM gets the public key late.
func TestAdmittedAfterAWhile(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	var tries atomic.Int32
	config := admit(public)
	known := config.PublicKeyCallback
	config.PublicKeyCallback = func(conn ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if tries.Add(1) < 3 {
			return nil, errors.New("not yet")
		}
		return known(conn, key)
	}
	s := newServer(t, config)
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	open(t, cfg)
	fetch(t, <-s.forwards)
}

func TestNobodyThere(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	cfg := configFor(t, s)
	s.close()
	cfg.PrivateKey, cfg.ConnectTimeout = key, 700*time.Millisecond
	_, err := Open(t.Context(), cfg, answering)
	if err == nil || !strings.Contains(err.Error(), "this has lasted for 700ms: check address, port and firewall") || !strings.Contains(err.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}

func TestServerComesLate(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	var tries atomic.Int32
	s := newServer(t, admit(public))
	s.set(func() { s.banner = func(net.Conn) bool { return tries.Add(1) > 2 } }) // the server hangs up
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	open(t, cfg)
	fetch(t, <-s.forwards)
}

func TestSlowBanner(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	banner := func(conn net.Conn) bool {
		_, _ = io.WriteString(conn, "The VM is starting.\r\n")
		timer := time.NewTimer(time.Second)
		defer timer.Stop()
		<-timer.C
		_, err := io.WriteString(conn, "Just a moment.\r\n")
		return err == nil
	}
	s.set(func() { s.banner = banner })
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	open(t, cfg)
	fetch(t, <-s.forwards)
}

func TestContextEndsWait(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	release := make(chan struct{})
	defer close(release)
	silent := func(conn net.Conn) bool {
		_, _ = io.Copy(io.Discard, conn)
		<-release
		return false
	}
	s.set(func() { s.banner = silent })
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := Open(ctx, cfg, answering)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

func TestNoCommonAlgorithm(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	config := admit(public)
	config.Ciphers = []string{"aes128-cbc"}
	s := newServer(t, config)
	cfg := configFor(t, s)
	cfg.PrivateKey, cfg.ConnectTimeout = key, time.Hour
	_, err := Open(t.Context(), cfg, answering)
	if err == nil || !strings.Contains(err.Error(), "no algorithm in common") {
		t.Errorf("got %v", err)
	}
}

func TestForwardRefused(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	s.set(func() { s.refuseForward = func() bool { return true } })
	cfg := configFor(t, s)
	cfg.PrivateKey, cfg.ListenTimeout, cfg.Remote = key, 600*time.Millisecond, "127.0.0.1:6901"
	_, err := Open(t.Context(), cfg, answering)
	if err == nil || !strings.Contains(err.Error(), "does not listen on 127.0.0.1:6901") {
		t.Errorf("got %v", err)
	}
}

// The port of a lost tunnel becomes free only after a while.
func TestPortComesFree(t *testing.T) {
	t.Parallel()
	key, public := newKey(t, "")
	s := newServer(t, admit(public))
	var tries atomic.Int32
	s.set(func() { s.refuseForward = func() bool { return tries.Add(1) < 3 } })
	cfg := configFor(t, s)
	cfg.PrivateKey = key
	open(t, cfg)
	fetch(t, <-s.forwards)
}
