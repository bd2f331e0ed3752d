package access

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"bootstrap/agent"
	"bootstrap/tunnel"
)

// SSHOptions has the command for the VM, and its streams.
type SSHOptions struct {
	Command        []string // like the arguments of ssh; none: a login shell
	OwnClient      bool     // do not use the system's ssh
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Terminal       *tunnel.Terminal // nil: no terminal
}

// ExitStatusError contains the exit status of a command that ended on the VM; the
// status may be 0.
type ExitStatusError struct{ Status int }

func (e *ExitStatusError) Error() string {
	return fmt.Sprintf("the command on the VM ended with exit status %d", e.Status)
}

// cleanupTimeout limits how long removing the user from the VM may take, also
// after an interrupted session.
const cleanupTimeout = 30 * time.Second

// SSH logs in to the VM as a user that the agent creates for this session, with a
// new key, and runs a command or a shell. When that has ended, the error is an
// *ExitStatusError.
func (v *VM) SSH(ctx context.Context, what SSHOptions) error {
	return v.logIn(ctx, func(login sshLogin) error {
		status, err := v.session(ctx, login, what)
		if err != nil {
			return err
		}
		return &ExitStatusError{Status: status}
	})
}

// sshLogin is a user on the VM for one session.
type sshLogin struct {
	user    string
	key     string // private key in PEM
	host    string
	port    int
	hostKey string // line of authorized_keys, as the agent reported it
	alias   string // name of the host in messages
	dir     string // temporary, for the system's ssh
	// renew asks the agent for the login again, which has another port after a restart of an
	// embedded agent; nil: it cannot be asked.
	renew func(context.Context) (sshLogin, error)
}

// logIn creates a user, calls fn and removes the user, even after an error.
func (v *VM) logIn(ctx context.Context, fn func(sshLogin) error) error {
	name := make([]byte, 8)
	_, _ = rand.Read(name) // Read never fails.
	login := sshLogin{user: "bosh_" + hex.EncodeToString(name)}
	login.dir = filepath.Join(os.TempDir(), loginDirPrefix+hex.EncodeToString(name))
	var public string
	var err error
	if login.key, public, err = tunnel.OneTimeKey(); err != nil {
		return err
	}
	done := v.recordLogin(loginRecord{VM: v.CID, User: login.user, Dir: login.dir})
	// Also after an error: the user may have been created.
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanupTimeout)
		defer cancel()
		err := v.Agent.CleanupSSH(ctx, "^"+login.user+"$")
		gone := err == nil || agent.UnknownMessage(err)
		if !gone {
			v.Report.Warning(fmt.Sprintf("the user %s may still be on the VM, but nobody has its key; the next run removes it: %v", login.user, err))
		}
		done(gone)
	}()
	login.alias = v.Instance
	login.renew = func(ctx context.Context) (sshLogin, error) { return v.setUpLogin(ctx, login, public) }
	ready, err := login.renew(ctx)
	if err != nil {
		return err
	}
	return fn(ready)
}

// setUpLogin makes the user of a login on the VM, and adds how its SSH server is reached.
func (v *VM) setUpLogin(ctx context.Context, login sshLogin, public string) (sshLogin, error) {
	answer, err := v.Agent.SetupSSH(ctx, login.user, public)
	if err != nil {
		return login, err
	}
	if login.host, login.port, err = answer.Address(); err != nil {
		return login, err
	}
	login.hostKey = strings.TrimSpace(answer.HostPublicKey)
	if login.hostKey == "" || strings.ContainsAny(login.hostKey, "\r\n") {
		return login, errors.New("cannot log in to the VM: the agent does not report the host key of its SSH server")
	}
	return login, nil
}

// session runs the command with the system's ssh. It uses the built-in client if there is
// no ssh, or if ssh cannot reach the VM directly or cannot get the key.
func (v *VM) session(ctx context.Context, login sshLogin, what SSHOptions) (status int, err error) {
	program, err := exec.LookPath("ssh")
	if err == nil && !what.OwnClient && v.Dial == nil && runtime.GOOS != "windows" {
		if err := os.Mkdir(login.dir, 0o700); err != nil {
			return 0, fmt.Errorf("cannot make a temporary folder for ssh: %w", err)
		}
		defer os.RemoveAll(login.dir)
		socket := filepath.Join(login.dir, "agent")
		// The name of a socket has a limit, which a long folder exceeds.
		if end, err := tunnel.ServeKey(ctx, login.key, socket); err == nil {
			defer end()
			return systemSSH(ctx, program, socket, login, what)
		}
	}
	return tunnel.Run(ctx, v.config(login), tunnel.Session{
		Command:  strings.Join(what.Command, " "),
		Stdin:    what.Stdin,
		Stdout:   what.Stdout,
		Stderr:   what.Stderr,
		Terminal: what.Terminal,
	})
}

// config returns how the built-in client logs in.
func (v *VM) config(login sshLogin) tunnel.Config {
	return tunnel.Config{
		Host:       login.host,
		Port:       login.port,
		User:       login.user,
		PrivateKey: login.key,
		HostKey:    login.hostKey,
		HostName:   login.alias,
		Dial:       v.Dial,
	}
}

// systemSSH runs the program ssh without the settings of this machine: it gets the key
// from a socket, like that of an ssh-agent, and the host key from a file.
func systemSSH(ctx context.Context, program, socket string, login sshLogin, what SSHOptions) (status int, err error) {
	known := filepath.Join(login.dir, "known_hosts")
	alias := "vm-of-" + strconv.Itoa(os.Getpid())
	if err := os.WriteFile(known, []byte(alias+" "+login.hostKey+"\n"), 0o600); err != nil {
		return 0, fmt.Errorf("cannot write the VM's host key: %w", err)
	}
	// In options of ssh, a percent sign is special, and a space ends a name.
	quote := func(path string) string { return `"` + strings.ReplaceAll(path, "%", "%%") + `"` }
	args := []string{"-F", "none", "-l", login.user, "-p", strconv.Itoa(login.port)}
	for _, option := range []string{
		"IdentityFile=none", "IdentityAgent=" + quote(socket), "BatchMode=yes", "LogLevel=ERROR", "ServerAliveInterval=15", "ConnectTimeout=30",
		"StrictHostKeyChecking=yes", "UserKnownHostsFile=" + quote(known), "GlobalKnownHostsFile=none", "HostKeyAlias=" + alias, "UpdateHostKeys=no",
	} {
		args = append(args, "-o", option)
	}
	if what.Terminal != nil {
		args = append(args, "-t")
	} else {
		args = append(args, "-T")
	}
	args = append(append(args, "--", login.host), what.Command...)
	cmd := exec.CommandContext(ctx, program, args...) // #nosec G204 -- the ssh of this machine; no shell reads the arguments
	cmd.Stdin, cmd.Stdout, cmd.Stderr = what.Stdin, what.Stdout, what.Stderr
	cmd.Env = forSSH(os.Environ())
	// After SIGTERM, ssh restores the terminal.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	err = cmd.Run()
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		return 0, ctx.Err()
	case errors.As(err, &exit) && exit.ExitCode() >= 0:
		return exit.ExitCode(), nil
	case err != nil:
		return 0, fmt.Errorf("cannot run %s: %w", program, err)
	}
	return 0, nil
}

// forSSH returns the variables that the program ssh needs. Others may contain secrets,
// such as those of --vars-env.
func forSSH(env []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(setting string) bool {
		name, _, _ := strings.Cut(setting, "=")
		switch strings.ToUpper(name) {
		case "PATH", "HOME", "USER", "LOGNAME", "LANG", "LANGUAGE", "TERM", "COLORTERM", "TMPDIR", "TZ",
			"SYSTEMROOT", "WINDIR", "USERPROFILE", "TEMP", "TMP", "PATHEXT", "COMSPEC":
			return false
		}
		return !strings.HasPrefix(name, "LC_")
	})
}
