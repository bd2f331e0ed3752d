package process

import "golang.org/x/sys/unix"

// awaitExit returns when a child has ended, for which somebody still has to wait.
func awaitExit(pid int) error {
	for {
		if err := unix.Waitid(unix.P_PID, pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != unix.EINTR {
			return err
		}
	}
}
