//go:build linux || darwin

package agent

import (
	"bytes"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh"
)

func newSSHKey(t *testing.T) ssh.Signer {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return signer
}

// logIn creates a user and logs in as that user.
func logIn(t *testing.T, m *testVM, user string) (client *ssh.Client, address string) {
	t.Helper()
	key := newSSHKey(t)
	var reply sshReply
	value := m.must("ssh", "setup", map[string]string{"user": user, "public_key": string(ssh.MarshalAuthorizedKey(key.PublicKey()))})
	if err := json.Unmarshal([]byte(value), &reply); err != nil {
		t.Fatal(err)
	}
	host, _, _, _, err := ssh.ParseAuthorizedKey([]byte(reply.HostPublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return connect(t, reply.IP, &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, HostKeyCallback: ssh.FixedHostKey(host)}), reply.IP
}

// TestLogin checks what a user may do, and that nothing of the user is left afterwards.
func TestLogin(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.run()
	m.await()
	client, address := logIn(t, m, "bosh_one")
	run := func(command, stdin string) (stdout, stderr string, status int) {
		t.Helper()
		s, err := client.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		var out, errs bytes.Buffer
		s.Stdin, s.Stdout, s.Stderr = strings.NewReader(stdin), &out, &errs
		err = s.Run(command)
		var exit *ssh.ExitError
		if errors.As(err, &exit) {
			return out.String(), errs.String(), exit.ExitStatus()
		}
		if err != nil {
			t.Errorf("%s: %v", command, err)
		}
		return out.String(), errs.String(), 0
	}
	if out, errs, status := run("cat; pwd; echo to stderr >&2; ls -d /var/vcap/sys/log; exit 7", "from stdin\n"); status != 7 || errs != "to stderr\n" ||
		out != "from stdin\n"+m.vcap()+"\n"+m.vcap("sys", "log")+"\n" {
		t.Errorf("got %q, %q, %d", out, errs, status)
	}
	if _, _, status := run("kill -9 $$", ""); status != 128+9 {
		t.Errorf("killed: %d", status)
	}
	// A background process does not keep the session open.
	if out, _, status := run("sleep 1000 & echo $!", ""); status != 0 || out == "" {
		t.Errorf("got %q, %d", out, status)
	}

	stranger := &ssh.ClientConfig{User: "bosh_one", Auth: []ssh.AuthMethod{ssh.PublicKeys(newSSHKey(t))}, HostKeyCallback: ssh.InsecureIgnoreHostKey(), Timeout: patience}
	if _, err := ssh.Dial("tcp", address, stranger); err == nil {
		t.Error("a stranger's key is admitted")
	}
	if _, reply := m.post("ssh", "setup", map[string]string{"user": "bosh_one", "public_key": ""}); !strings.Contains(reply, "exception") {
		t.Errorf("setup without a key: %s", reply)
	}
	if _, reply := m.post("ssh", "setup", map[string]string{"user": "../x", "public_key": "k"}); !strings.Contains(reply, "is no user name") {
		t.Errorf("setup of a bad name: %s", reply)
	}

	// Removing the user ends its sessions; with the last user, the server ends,
	// too.
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	pidfile := filepath.Join(m.dir, "pid")
	if err := s.Start("echo $$ >" + pidfile + "; exec sleep 1000"); err != nil {
		t.Fatal(err)
	}
	m.eventually("the command runs", func() bool {
		data, _ := os.ReadFile(pidfile)
		return strings.HasSuffix(string(data), "\n")
	})
	m.must("ssh", "cleanup", map[string]string{"user_regex": "^bosh_one$"})
	_ = s.Wait()
	m.eventually("the server goes", func() bool {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		return err != nil
	})
	data, _ := os.ReadFile(pidfile)
	pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil {
		t.Fatal(err)
	}
	m.eventually("the command goes", func() bool { return !alive(pid) })
}

// TestLoginTerminal runs a shell in a terminal.
func TestLoginTerminal(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.run()
	m.await()
	client, _ := logIn(t, m, "bosh_two")
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("dumb", 33, 111, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	s.Stdout = &out
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, "stty size; echo $TERM-$LOGNAME; tty | cut -c1-5; exit 3\n"); err != nil {
		t.Fatal(err)
	}
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 3 {
		t.Errorf("the shell ended with %v", err)
	}
	for _, want := range []string{"33 111", "dumb-bosh_two", "/dev/"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the terminal shows %q, want %q", out.String(), want)
		}
	}
}

// TestLoginReaderGone: a command gets SIGPIPE if the reader of its output has ended, as
// in a pipeline. The system's ssh uses the same request for that.
func TestLoginReaderGone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.run()
	m.await()
	client, _ := logIn(t, m, "bosh_three")
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("while echo line; do sleep 0.01; done"); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, len("line\n"))); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SendRequest("eow@openssh.com", false, nil); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	var exit *ssh.ExitError
	if err := s.Wait(); !errors.As(err, &exit) || exit.ExitStatus() != 128+int(syscall.SIGPIPE) {
		t.Errorf("the command ended with %v", err)
	}
}

// TestLoginBesideTunnel: the server of the VM's tunnel also admits temporary users, and
// keeps running when the last of them is removed. Each kind of user has only its own
// rights.
func TestLoginBesideTunnel(t *testing.T) {
	t.Parallel()
	m, r, boot := tunneled(t)
	m.run()
	tunnel := connect(t, boot.Address, password(boot))
	expose(t, tunnel, "127.0.0.1:6901", r)
	m.await()
	client, address := logIn(t, m, "bosh_four")
	if address != boot.Address {
		t.Errorf("the users' server is at %s, that of the VM at %s", address, boot.Address)
	}
	s, err := client.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := s.Output("echo hello"); string(out) != "hello\n" || err != nil {
		t.Errorf("got %q, %v", out, err)
	}
	if _, err := client.Listen("tcp", "127.0.0.1:6902"); err == nil {
		t.Error("a temporary user forwards a port")
	}
	if _, err := tunnel.NewSession(); err == nil {
		t.Error("the user of the image opens a session")
	}
	if _, reply := m.post("ssh", "setup", map[string]string{"user": boot.User, "public_key": string(ssh.MarshalAuthorizedKey(newSSHKey(t).PublicKey()))}); !strings.Contains(reply, "already exists") {
		t.Errorf("setup of the image's user: %s", reply)
	}
	m.must("ssh", "cleanup", map[string]string{"user_regex": "."})
	if _, err := client.NewSession(); err == nil {
		t.Error("the session of a removed user goes on")
	}
	connect(t, boot.Address, password(boot))
	before := r.gets.Load()
	m.must("list_disk")
	if r.gets.Load() == before {
		t.Error("the tunnel ended with the users")
	}
}
