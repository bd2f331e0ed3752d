package tunnel

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"
)

// jumpTo returns a Jump through server, and an HTTP client that uses it.
func jumpTo(t *testing.T, server *sshServer, cfg Config) (*Jump, *http.Client) {
	t.Helper()
	cfg.Host, cfg.Port = "127.0.0.1", server.port()
	j := NewJump(cfg)
	t.Cleanup(func() { j.Close() })
	transport := &http.Transport{DialContext: j.DialContext, DisableKeepAlives: true}
	t.Cleanup(transport.CloseIdleConnections)
	return j, &http.Client{Transport: transport}
}

func getThrough(client *http.Client, url string) (string, error) {
	resp, err := client.Get(url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return string(body), err
}

func noEnv(string) string { return "" }

func TestJump(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "hello over there")
	}))
	defer web.Close()
	text, public := newKey(t, "")
	server := newServer(t, &ssh.ServerConfig{PublicKeyCallback: func(_ ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
		if string(key.Marshal()) != string(public.Marshal()) {
			return nil, errors.New("unknown key")
		}
		return nil, nil
	}})
	file := filepath.Join(t.TempDir(), "id")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := ParseJump("ssh+socks5://jumper@ignored:1?private-key="+file, noEnv)
	if err != nil {
		t.Fatal(err)
	}
	j, client := jumpTo(t, server, cfg)
	for _, when := range []string{"at first", "again", "after the connection was cut"} {
		if strings.Contains(when, "cut") {
			server.disconnect()
		}
		if body, err := getThrough(client, web.URL); err != nil || body != "hello over there" {
			t.Errorf("%s: %q, %v", when, body, err)
		}
	}
	if _, err := getThrough(client, "http://127.0.0.1:1/"); err == nil || !strings.Contains(err.Error(), "cannot reach 127.0.0.1:1 from 127.0.0.1:") {
		t.Errorf("where nothing listens: %v", err)
	}
	if err := j.Close(); err != nil {
		t.Error(err)
	}
	if _, err := j.DialContext(context.Background(), "tcp", "127.0.0.1:1"); err == nil {
		t.Error("a closed jump connects")
	}
}

func TestJumpIsNotAdmitted(t *testing.T) {
	server := newServer(t, &ssh.ServerConfig{PasswordCallback: func(ssh.ConnMetadata, []byte) (*ssh.Permissions, error) {
		return nil, errors.New("no")
	}})
	_, client := jumpTo(t, server, Config{User: "jumper", Password: "wrong-password"})
	_, err := getThrough(client, "http://127.0.0.1:1/")
	if err == nil || !strings.Contains(err.Error(), "cannot log in to 127.0.0.1:") || strings.Contains(err.Error(), "wrong-password") {
		t.Errorf("error %v", err)
	}
}

func TestParseJump(t *testing.T) {
	for _, text := range []string{"", "ssh+socks5://host", "socks5://user@host", "ssh+socks5://user:s3cret@host:x", "ssh+socks5://user@host?private-key=/no/such/key", "ssh+socks5://user:s3cret@host]22", "ssh+socks5://user:s3cret@host:99999"} {
		if _, err := ParseJump(text, noEnv); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("ParseJump(%q): %v", text, err)
		}
	}
	cfg, err := ParseJump("ssh+socks5://user:pw@host:2222", noEnv)
	if err != nil || cfg.Host != "host" || cfg.Port != 2222 || cfg.User != "user" || cfg.Password != "pw" {
		t.Errorf("got %+v, %v", cfg, err)
	}
}
