//go:build unix

package tunnel

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/pem"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/crypto/ssh"
)

// These tests use OpenSSH's own server if the machine has one.
func TestOpenSSH(t *testing.T) {
	t.Parallel()
	sshd, err := exec.LookPath("sshd")
	if err != nil {
		sshd = "/usr/sbin/sshd"
	}
	if _, err := os.Stat(sshd); err != nil {
		t.Skip("no sshd here")
	}
	if os.Getuid() == 0 {
		t.Skip("sshd is only tried without root, where it needs no accounts and folders of its own")
	}
	me, err := user.Current()
	if err != nil {
		t.Skip(err)
	}
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	_, hostKey, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	block, err := ssh.MarshalPrivateKey(hostKey, "")
	if err != nil {
		t.Fatal(err)
	}
	key, public := newRSAKey(t)
	port, remote := freePort(t), freePort(t)
	config := write("config", fmt.Sprintf(`ListenAddress 127.0.0.1:%d
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
GatewayPorts no
`, port, write("host_key", string(pem.EncodeToMemory(block))), write("authorized_keys", string(ssh.MarshalAuthorizedKey(public)))))

	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	cmd := exec.CommandContext(t.Context(), sshd, "-D", "-e", "-f", config)
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if text, err := os.ReadFile(log.Name()); err == nil && t.Failed() {
			t.Log(string(text))
		}
	}()
	line := newRelay(t, fmt.Sprintf("127.0.0.1:%d", port))
	cfg := configFor(t, &sshServer{listener: line.listener})
	cfg.User, cfg.PrivateKey, cfg.Remote = me.Username, key, fmt.Sprintf("127.0.0.1:%d", remote)
	tun := open(t, cfg)
	fetch(t, cfg.Remote)

	line.disconnect()
	eventually(t, "the loss is seen", func() bool { return tun.Err() != nil })
	eventually(t, "it is open again", func() bool { return tun.Err() == nil })
	fetch(t, cfg.Remote)
	_ = tun.Close()

	// A port in use is refused, with the reason.
	var l net.Listener
	eventually(t, "the port comes free", func() bool {
		l, err = net.Listen("tcp", cfg.Remote)
		return err == nil
	})
	defer l.Close()
	cfg.ListenTimeout = 1
	if _, err := Open(t.Context(), cfg, answering); err == nil || !strings.Contains(err.Error(), "does not listen on "+cfg.Remote) {
		t.Errorf("got %v", err)
	}
}

// A relay forwards connections between the tunnel and the server, and can break them.
type relay struct {
	listener net.Listener
	mu       sync.Mutex
	conns    []net.Conn
}

func newRelay(t *testing.T, to string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: l}
	var done sync.WaitGroup
	done.Go(func() {
		for {
			near, err := l.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", to)
			if err != nil {
				near.Close()
				continue
			}
			r.mu.Lock()
			r.conns = append(r.conns, near, far)
			r.mu.Unlock()
			done.Go(func() { _, _ = io.Copy(near, far); near.Close(); far.Close() })
			done.Go(func() { _, _ = io.Copy(far, near); near.Close(); far.Close() })
		}
	})
	t.Cleanup(func() { l.Close(); r.disconnect(); done.Wait() })
	return r
}

func (r *relay) disconnect() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, conn := range r.conns {
		conn.Close()
	}
	r.conns = nil
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}
