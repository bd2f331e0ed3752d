package namespace

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// listenForLogins opens the socket for SSH connections to a VM of a stemcell. The
// stemcell's own SSH server cannot log in users, because it could not change its user.
func listenForLogins(spec Spec) (*net.UnixListener, error) {
	if spec.Image == "" {
		return nil, nil
	}
	// The path is relative, because the name of a socket must be short and the VM's owner
	// may have no access to the folders above.
	name := filepath.Join("..", LoginSocket)
	_ = os.Remove(name) // left by an earlier start of the VM
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix", Name: name})
	if err != nil {
		return nil, fmt.Errorf("cannot listen for logins: %w", err)
	}
	l.SetUnlinkOnClose(false) // the file has another path inside of the VM
	return l, nil
}

// serveLogins starts a process for each connection, until ctx ends. The VM's first
// process collects these processes.
func (i *initProcess) serveLogins(ctx context.Context, l *net.UnixListener) {
	if l == nil {
		return
	}
	defer guard.AfterDone(ctx, func() { _ = l.Close() })()
	for {
		conn, err := l.AcceptUnix()
		if errors.Is(err, net.ErrClosed) || ctx.Err() != nil {
			return
		}
		if err == nil {
			err = i.login(ctx, conn)
		}
		if err != nil {
			fmt.Fprintf(i.log, "cannot serve a login: %v\n", err)
			_ = wait.For(ctx, endPause) // for example, too many files are open
		}
	}
}

func (i *initProcess) login(ctx context.Context, conn *net.UnixConn) error {
	defer conn.Close()
	f, err := conn.File()
	if err != nil {
		return err
	}
	defer f.Close()
	return i.inside(ctx, func() error {
		process, err := os.StartProcess(GuestProgram, []string{GuestProgram, "plugin", "login-inside"}, &os.ProcAttr{
			Dir:   "/",
			Env:   guestEnv(),
			Files: []*os.File{f, i.log, i.log},
			Sys:   &syscall.SysProcAttr{Setsid: true},
		})
		if err != nil {
			return err
		}
		i.place(process.Pid)
		return process.Release()
	})
}

// guestEnv returns the environment of the first programs of a VM.
func guestEnv() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8"}
}
