package process

import (
	"context"
	"os"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
)

// Watch calls gone once when the process has ended, unless the returned function
// is called before. It returns false if this kernel does not support that.
func Watch(ctx context.Context, pid int, gone func()) (cancel func(), ok bool) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, false
	}
	done := guard.Start(ctx, func() error {
		err := conn.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, 0)
			return err == nil && n > 0
		})
		if err == nil {
			gone()
		}
		return err
	})
	return func() { f.Close(); <-done }, true
}
