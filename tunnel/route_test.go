package tunnel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// admitting returns the configuration of a server that accepts one user.
func admitting(user, password string) *ssh.ServerConfig {
	return &ssh.ServerConfig{PasswordCallback: func(c ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
		if c.User() != user || string(given) != password {
			return nil, errors.New("no")
		}
		return nil, nil
	}}
}

// via parses a list of machines as the command line gives it.
func via(t *testing.T, text string) []Config {
	t.Helper()
	machines, err := ParseVia(text, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	known := filepath.Join(t.TempDir(), "known_hosts")
	for i := range machines {
		machines[i].KnownHosts = known
	}
	return machines
}

// The route leads through two machines, and the tunnel to a third one behind them.
func TestRoute(t *testing.T) {
	t.Parallel()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello over there")
	}))
	defer web.Close()
	first, second := newServer(t, admitting("one", "pass-one")), newServer(t, admitting("two", "pass-two"))
	var mu sync.Mutex
	var reported []string
	machines := via(t, fmt.Sprintf("ssh://one:pass-one@127.0.0.1:%d, ssh://two:pass-two@127.0.0.1:%d", first.port(), second.port()))
	for i := range machines {
		machines[i].Report = func(text string) {
			mu.Lock()
			defer mu.Unlock()
			reported = append(reported, text)
		}
	}
	route := NewRoute(machines)
	defer route.Close()
	if err := route.Enter(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(reported) != 2 || !strings.Contains(reported[0], "The host key of the jumpbox 127.0.0.1:") {
		t.Errorf("reported %q", reported)
	}
	transport := &http.Transport{DialContext: route.DialContext, DisableKeepAlives: true}
	client := &http.Client{Transport: transport}
	for _, when := range []string{"at first", "after the first was cut", "after the second was cut"} {
		if strings.Contains(when, "first was") {
			first.disconnect()
		}
		if strings.Contains(when, "second was") {
			second.disconnect()
		}
		if body, err := getThrough(client, web.URL); err != nil || body != "hello over there" {
			t.Errorf("%s: %q, %v", when, body, err)
		}
	}

	key, public := newKey(t, "")
	vm := newServer(t, &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(public.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}})
	cfg := configFor(t, vm)
	cfg.PrivateKey, cfg.Dial = key, route.DialContext
	open(t, cfg)
	fetch(t, <-vm.forwards)

	if err := route.Close(); err != nil {
		t.Error(err)
	}
	if _, err := route.DialContext(t.Context(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a closed route connects")
	}
}

// The route does not log in to a machine whose host key has changed.
func TestRouteHostKey(t *testing.T) {
	t.Parallel()
	server := newServer(t, admitting("one", "pass-one"))
	machines := via(t, fmt.Sprintf("ssh://one:pass-one@127.0.0.1:%d", server.port()))
	line := strings.ReplaceAll(machines[0].HostName, " ", "+")
	line = strings.ReplaceAll(line, ":", "%3A") + " " + string(ssh.MarshalAuthorizedKey(newSigner(t).PublicKey()))
	if err := os.WriteFile(machines[0].KnownHosts, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	route := NewRoute(machines)
	defer route.Close()
	err := route.Enter(context.Background())
	var changed *HostKeyError
	if !errors.As(err, &changed) || !strings.Contains(err.Error(), "remove line 1 of") || strings.Contains(err.Error(), "pass-one") {
		t.Errorf("got %v", err)
	}
}

func TestParseVia(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".ssh")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	locked, _ := newKey(t, "a passphrase that nobody gave")
	plain, _ := newKey(t, "")
	for name, text := range map[string]string{"id_ed25519": locked, "id_rsa": plain, "other": "the other key"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	env := func(name string) string { return map[string]string{"HOME": home, "SSH_AUTH_SOCK": "/sock"}[name] }
	machines, err := ParseVia("ssh://a@first,ssh://b:s3cret@[::1]:2222/, ssh://c@third:22?private-key=~/.ssh/other", env)
	if err != nil || len(machines) != 3 {
		t.Fatalf("got %d machines, %v", len(machines), err)
	}
	for i, want := range []Config{
		{Host: "first", User: "a", PrivateKey: plain, HostName: "the jumpbox first"},
		{Host: "::1", Port: 2222, User: "b", Password: "s3cret", HostName: "the jumpbox [::1]:2222"},
		{Host: "third", Port: 22, User: "c", PrivateKey: "the other key", HostName: "the jumpbox third"},
	} {
		got := machines[i]
		if got.Host != want.Host || got.Port != want.Port || got.User != want.User || got.Password != want.Password ||
			got.PrivateKey != want.PrivateKey || got.HostName != want.HostName || got.AgentSocket != "/sock" {
			t.Errorf("machine %d: %+v", i, got)
		}
	}
	for _, text := range []string{"", "host", "ssh://host", "ssh://u:s3cret@host:x", "socks5://u@host", "ssh://u@host/path", "ssh://u@a,,ssh://u@b", "ssh://u@a?private-key=/no/such/key", "ssh://u@a b", "ssh://u@a]22", "ssh://u@a:0", "ssh://u@a"} {
		if _, err := ParseVia(text, noEnv); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseVia(%q): %v", text, err)
		}
	}
}
