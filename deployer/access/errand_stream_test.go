package access

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/programtest"
	"bootstrap/internal/wait"
	"bootstrap/tunnel"
)

// machine is an SSH server that runs commands on this machine, with a folder as the VM.
type machine struct {
	vm    *VM
	login sshLogin
	root  string
	path  string // PATH of the scripts
	// before is called with the script of a session, before it runs. If it returns false,
	// the connection is lost after the script.
	before func(script string) bool
}

func newMachine(t *testing.T, before func(script string) bool) *machine {
	t.Helper()
	for _, tool := range []string{"setsid", "flock", "tail"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skip("this machine has no program " + tool)
		}
	}
	if err := exec.Command("tail", "--pid="+strconv.Itoa(os.Getpid()), "-c", "1", os.DevNull).Run(); err != nil {
		t.Skip("tail of this machine has no --pid")
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	host, err := ssh.NewSignerFromSigner(private)
	if err != nil {
		t.Fatal(err)
	}
	key, _, err := tunnel.OneTimeKey()
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	m := &machine{root: t.TempDir(), path: os.Getenv("PATH"), before: before}
	m.vm = &VM{Instance: "web/0", Report: report.New(func(report.Event) {})}
	m.login = sshLogin{user: "vcap", key: key, host: "127.0.0.1", port: listener.Addr().(*net.TCPAddr).Port, hostKey: strings.TrimSpace(string(ssh.MarshalAuthorizedKey(host.PublicKey())))}
	config := &ssh.ServerConfig{PublicKeyCallback: func(ssh.ConnMetadata, ssh.PublicKey) (*ssh.Permissions, error) { return nil, nil }}
	config.AddHostKey(host)
	guard.Go(t.Context(), func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			guard.Go(t.Context(), func() { m.serve(conn, config) })
		}
	})
	return m
}

// serve runs the command of a connection.
func (m *machine) serve(conn net.Conn, config *ssh.ServerConfig) {
	defer conn.Close()
	_, channels, global, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	guard.Go(context.Background(), func() { ssh.DiscardRequests(global) })
	channel, requests, err := (<-channels).Accept()
	if err != nil {
		return
	}
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var command struct{ Text string }
		_ = ssh.Unmarshal(r.Payload, &command)
		_ = r.Reply(true, nil)
		script, err := io.ReadAll(channel)
		if err != nil {
			return
		}
		keep := m.before(string(script))
		cmd := exec.Command("sh", "-c", command.Text)
		cmd.Env = append(os.Environ(), "VCAP_ROOT="+m.root, "PATH="+m.path)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(script), channel, channel.Stderr()
		_ = cmd.Run()
		if !keep {
			return
		}
		var status struct{ Status uint32 }
		if status.Status = uint32(cmd.ProcessState.ExitCode()); !cmd.ProcessState.Exited() {
			status.Status = 137 // ended by a signal
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(&status))
		_ = channel.Close()
	}
}

// write writes a file of the VM.
func (m *machine) write(t *testing.T, name, text string) {
	t.Helper()
	path := filepath.Join(m.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	programtest.Write(t, path, text)
}

// find returns the path of a program of this machine.
func find(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// ended waits until the errand has ended: it writes into a folder of the test.
func (m *machine) ended(ctx context.Context, t *testing.T) {
	t.Helper()
	for ctx.Err() == nil {
		if _, err := os.Stat(filepath.Join(m.root, folder, "status")); err == nil {
			return
		}
		_ = wait.For(ctx, 20*time.Millisecond)
	}
	t.Error("the errand has not ended")
}

const folder = "data/errand-of-bootstrap-check/"

func TestStreamErrand(t *testing.T) {
	t.Parallel()
	m := newMachine(t, func(string) bool { return true })
	m.write(t, "jobs/check/bin/run", "#!/bin/sh\necho out\necho err >&2\nexit 3\n")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var stdout, stderr bytes.Buffer
	code, err := m.vm.streamErrand(ctx, m.login, ErrandOptions{Name: "check", Stdout: &stdout, Stderr: &stderr})
	if err != nil || code != 3 || stdout.String() != "out\n" || stderr.String() != "err\n" {
		t.Errorf("%d, %v, %q, %q", code, err, &stdout, &stderr)
	}
}

// If the connection is lost while an errand starts, it may run: it is not run by the agent.
func TestLostAtStart(t *testing.T) {
	t.Parallel()
	m := newMachine(t, func(string) bool { return false })
	m.write(t, "jobs/check/bin/run", "#!/bin/sh\necho once >>$VCAP_ROOT/ran\n")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	_, err := m.vm.streamErrand(ctx, m.login, ErrandOptions{Name: "check", Stdout: io.Discard, Stderr: io.Discard})
	var not *noStreamError
	if err == nil || errors.As(err, &not) || !strings.Contains(err.Error(), "the same command follows it") {
		t.Error(err)
	}
	m.ended(ctx, t)
}

// If the script that starts an errand is ended by a signal, the errand may run: it is not run
// by the agent. If it has not begun, as without sudo, the agent runs it.
func TestEndedAtStart(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		tools map[string]string
		not   bool // nothing was begun
	}{
		// The shell that waits for the errand's process kills itself.
		"killed in the middle": {tools: map[string]string{"sleep": "#!/bin/sh\nkill -9 $PPID\n", "setsid": "#!/bin/sh\nsleep=$(PATH=${PATH#*:} command -v sleep)\n$sleep 1\nPATH=${PATH#*:}\nexec setsid \"$@\"\n"}},
		"no shell":             {tools: map[string]string{"sh": "#!/bin/bash\nexit 126\n"}, not: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, func(string) bool { return true })
			m.write(t, "jobs/check/bin/run", "#!/bin/sh\nexit 0\n")
			for tool, text := range c.tools {
				m.write(t, "tools/"+tool, text)
			}
			m.path = filepath.Join(m.root, "tools") + ":" + m.path
			ctx, end := context.WithTimeout(t.Context(), time.Minute)
			defer end()
			_, err := m.vm.streamErrand(ctx, m.login, ErrandOptions{Name: "check", Stdout: io.Discard, Stderr: io.Discard})
			var not *noStreamError
			if err == nil || errors.As(err, &not) != c.not {
				t.Error(err)
			}
			if !c.not {
				m.ended(ctx, t)
			}
		})
	}
}

// An errand that starts late on a busy VM may run: it is not run by the agent, too.
func TestSlowStart(t *testing.T) {
	t.Parallel()
	m := newMachine(t, func(string) bool { return true })
	m.write(t, "jobs/check/bin/run", "#!/bin/sh\nexit 0\n")
	sleep, setsid := find(t, "sleep"), find(t, "setsid")
	m.write(t, "tools/sleep", "#!/bin/sh\n") // the script does not wait long
	m.write(t, "tools/setsid", "#!/bin/sh\nuntil [ -e \"$VCAP_ROOT/go\" ]; do "+sleep+" 0.02; done\nexec "+setsid+" \"$@\"\n")
	m.path = filepath.Join(m.root, "tools") + ":" + m.path
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	_, err := m.vm.streamErrand(ctx, m.login, ErrandOptions{Name: "check", Stdout: io.Discard, Stderr: io.Discard})
	var not *noStreamError
	if err == nil || errors.As(err, &not) || !strings.Contains(err.Error(), "the same command follows it") {
		t.Error(err)
	}
	m.write(t, "go", "")
	m.ended(ctx, t)
}

// After a restart of the VM, another process may have the number of the errand's process:
// the command neither waits for that one nor kills it.
func TestRestartedVM(t *testing.T) {
	t.Parallel()
	m := newMachine(t, func(string) bool { return true })
	other := exec.Command("setsid", "sleep", "600") // the process that was started is the one of the group
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = other.Process.Kill()
		if err := other.Wait(); err == nil || strings.Contains(err.Error(), "terminated") {
			t.Errorf("the other process: %v", err)
		}
	}()
	for name, text := range map[string]string{"pid": strconv.Itoa(other.Process.Pid), "run": strconv.Itoa(other.Process.Pid), "out": "kept\n", "err": ""} {
		m.write(t, folder+name, text)
	}
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var stdout bytes.Buffer
	out, problems := &counter{to: &stdout}, &counter{to: io.Discard}
	if err := m.vm.follow(ctx, &m.login, "check", out, problems); err != nil || stdout.String() != "kept\n" {
		t.Errorf("%v, %q", err, &stdout)
	}
	if err := m.vm.cancelErrand(ctx, m.login, "check", out, problems); err != nil {
		t.Error(err)
	}
	if err := m.vm.follow(ctx, &m.login, "check", out, problems); err != nil { // its folder is gone
		t.Error(err)
	}
}

// After a restart, an embedded agent has another SSH server: the output comes from there.
func TestRestartedAgent(t *testing.T) {
	t.Parallel()
	var lost atomic.Bool
	old := newMachine(t, func(script string) bool { lost.Store(lost.Load() || script == followErrand); return !lost.Load() })
	renewed := newMachine(t, func(string) bool { return true })
	renewed.root = old.root
	old.login.renew = func(context.Context) (sshLogin, error) { return renewed.login, nil }
	old.write(t, "jobs/check/bin/run", "#!/bin/sh\necho out\nexit 3\n")
	ctx, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	var stdout bytes.Buffer
	code, err := old.vm.streamErrand(ctx, old.login, ErrandOptions{Name: "check", Stdout: &stdout, Stderr: io.Discard})
	if err != nil || code != 3 || stdout.String() != "out\n" {
		t.Errorf("%d, %v, %q", code, err, &stdout)
	}
}

// A command that was interrupted does not say that an errand was canceled which may run.
func TestCancelFails(t *testing.T) {
	t.Parallel()
	limited, end := context.WithTimeout(t.Context(), time.Minute)
	defer end()
	ctx, interrupt := context.WithCancel(limited)
	defer interrupt()
	m := newMachine(t, func(script string) bool {
		if script == followErrand {
			interrupt()
		}
		return script != cancelErrand
	})
	m.write(t, "jobs/check/bin/run", "#!/bin/sh\nsleep 5\n")
	_, err := m.vm.streamErrand(ctx, m.login, ErrandOptions{Name: "check", Stdout: io.Discard, Stderr: io.Discard})
	canceled, ok := errors.AsType[*ErrandCanceledError](err)
	if !ok || canceled.Running == nil || strings.Contains(err.Error(), "was canceled") {
		t.Error(err)
	}
	m.ended(limited, t)
}

// A VM cannot make a failed errand a success: exit codes have eight bits.
func TestExitCode(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"0": 0, "3": 3, "255": 255, "": -1, "256": -1, "-1": -1, "0x0": -1, "+0": -1, "done": -1} {
		code, err := exitCode(text, "check")
		if err == nil != (want >= 0) || err == nil && code != want {
			t.Errorf("%q: %d, %v", text, code, err)
		}
	}
}
