package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"bootstrap/internal/atomicfile"
	"bootstrap/internal/guard"
	"bootstrap/local/machine"
	"bootstrap/local/monit"
)

// Limits of calls of monit in the VM.
const (
	monitTime  = 10 * time.Second // how long a call may take to send its arguments, and to get its answer
	monitBytes = 64 << 10         // size of the arguments
	monitReply = 4 << 20          // size of the answer
	monitCalls = 16               // calls at the same time
)

// monitSocket is the path of the socket at which the agent answers calls of monit. As on a real
// VM, only root of the VM may use it, which in a VM with one user is everybody.
func monitSocket(vm machine.VM) string { return vm.Path("monit", "control") }

// longestSocket is the length of a path that every system accepts for a socket.
const longestSocket = 100

// reach calls use with a path of a socket that is short enough for the system.
func reach(socket string, use func(path string) error) error {
	if len(socket) <= longestSocket {
		return use(socket)
	}
	if runtime.GOOS == "linux" {
		dir, err := os.Open(filepath.Dir(socket))
		if err != nil {
			return err
		}
		defer dir.Close()
		return use(fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(socket)))
	}
	temp, err := os.MkdirTemp("/tmp", "m") // $TMPDIR may be as long
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	link := filepath.Join(temp, "d")
	if err := os.Symlink(filepath.Dir(socket), link); err != nil {
		return err
	}
	return use(filepath.Join(link, filepath.Base(socket)))
}

// serveMonit answers calls of monit in the VM until ctx ends.
func (a *embeddedAgent) serveMonit(ctx context.Context) error {
	socket := monitSocket(a.vm)
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	var l net.Listener
	err := reach(socket, func(path string) (err error) {
		l, err = (&net.ListenConfig{}).Listen(ctx, "unix", path)
		return err
	})
	if err != nil {
		return err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // its path may have been a temporary one
	if err := os.Chmod(socket, 0o600); err != nil {
		return errors.Join(err, l.Close())
	}
	host, err := os.Hostname()
	if err != nil {
		host = a.boot.Name
	}
	commands := monit.Commands{Supervisor: a.jobs.supervisor, Host: host, Began: time.Now(), Reload: func() error {
		a.jobs.mu.Lock()
		defer a.jobs.mu.Unlock()
		return a.jobs.reload()
	}}
	guard.AfterDone(ctx, func() { _ = l.Close() })
	slots := make(chan struct{}, monitCalls)
	guard.Go(ctx, func() {
		for {
			slots <- struct{}{}
			conn, err := l.Accept()
			if err != nil {
				return
			}
			guard.Go(ctx, func() {
				defer func() { <-slots }()
				defer conn.Close()
				a.answerMonit(conn, commands)
			})
		}
	})
	return nil
}

func (a *embeddedAgent) answerMonit(conn net.Conn, commands monit.Commands) {
	_ = conn.SetDeadline(time.Now().Add(monitTime))
	var args []string
	if json.NewDecoder(io.LimitReader(conn, monitBytes)).Decode(&args) != nil {
		return
	}
	answer := commands.Run(args)
	a.jobs.recordHealth()
	_ = json.NewEncoder(conn).Encode(answer)
}

// MonitCall is a call of the program monit in a VM.
type MonitCall struct {
	Args           []string
	Root           string // $VCAP_ROOT; empty: /var/vcap
	Stdout, Stderr io.Writer
}

// Monit carries out a call of monit and returns its exit status.
func Monit(ctx context.Context, c MonitCall) int {
	vm := machine.Inside("/run/machine")
	if c.Root != "" && c.Root != vm.Root() {
		vm = machine.New(filepath.Dir(c.Root))
	}
	var answer monit.Answer
	err := reach(monitSocket(vm), func(path string) error {
		ctx, cancel := context.WithTimeout(ctx, monitTime)
		defer cancel()
		conn, err := (&net.Dialer{}).DialContext(ctx, "unix", path)
		if err != nil {
			return err
		}
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(monitTime))
		if c.Args == nil {
			c.Args = []string{}
		}
		if err := json.NewEncoder(conn).Encode(c.Args); err != nil {
			return err
		}
		return json.NewDecoder(io.LimitReader(conn, monitReply)).Decode(&answer)
	})
	if err != nil {
		fmt.Fprintf(c.Stderr, "monit: Cannot connect to the monit daemon: %v\n", err)
		return 1
	}
	_, _ = io.WriteString(c.Stdout, answer.Out)
	_, _ = io.WriteString(c.Stderr, answer.Err)
	return answer.Code
}

// provideStemcell writes the files of a stemcell that scripts use: the program monit, and what the
// stemcell is.
func provideStemcell(vm machine.VM) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program for monit: %w", err)
	}
	for _, dir := range []string{"bosh/bin", "bosh/etc"} {
		if err := makeFolder(vm.Path(dir), 0o755); err != nil {
			return err
		}
	}
	script := "#!/bin/sh\n# Written by the embedded agent, in place of the program of a stemcell.\n" +
		`VCAP_ROOT="${VCAP_ROOT:-` + vm.Root() + `}" exec '` + strings.ReplaceAll(self, "'", `'\''`) + `' plugin monit "$@"` + "\n"
	if err := atomicfile.WriteMode(vm.Path("bosh", "bin", "monit"), []byte(script), 0o755); err != nil {
		return err
	}
	for name, text := range map[string]string{
		"stemcell_version":    "1", // of embedded:local-stemcell
		"stemcell_git_sha1":   strings.Repeat("0", 40),
		"operating_system":    operatingSystem(),
		"infrastructure":      "warden", // no other one of real stemcells is a part of a machine
		"monitrc":             "set daemon 10\ninclude /var/vcap/monit/*.monitrc\ninclude /var/vcap/monit/job/*.monitrc\n",
		"dev_tools_file_list": "", "static_libraries_list": "",
	} {
		mode := fs.FileMode(0o644)
		if name == "monitrc" {
			mode = 0o700
		}
		if err := atomicfile.WriteMode(vm.Path("bosh", "etc", name), []byte(text), mode); err != nil {
			return err
		}
	}
	// Scripts include it and call its function before they call monit.
	helper := "permit_monit_access() { :; }\n"
	return atomicfile.WriteMode(vm.Path("bosh", "etc", "monit-access-helper.sh"), []byte(helper), 0o644)
}

// operatingSystem returns the word of a stemcell for systems like this one.
func operatingSystem() string {
	text, _ := os.ReadFile("/etc/os-release")
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if name == "ID" || name == "ID_LIKE" {
			switch {
			case strings.Contains(value, "rhel"), strings.Contains(value, "fedora"), strings.Contains(value, "centos"):
				return "centos"
			case strings.Contains(value, "suse"):
				return "opensuse"
			}
		}
	}
	if runtime.GOOS != "linux" {
		return runtime.GOOS
	}
	return "ubuntu"
}
