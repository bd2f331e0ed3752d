package local

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// portHolder finds the process that listens on a TCP port; 0 if it belongs to
// another user, or is in another network namespace. Only the program's name
// and, for an embedded agent, its folder are told: the rest of a command line
// may hold secrets.
func portHolder(ctx context.Context, port string) (pid int, command string) {
	sockets := listeners(port)
	if len(sockets) == 0 {
		return 0, ""
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return 0, ""
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			return 0, ""
		}
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		fds := filepath.Join("/proc", entry.Name(), "fd")
		files, err := os.ReadDir(fds)
		if err != nil {
			continue
		}
		for _, f := range files {
			target, err := os.Readlink(filepath.Join(fds, f.Name()))
			if err == nil && slices.Contains(sockets, target) {
				return pid, commandOf(pid)
			}
		}
	}
	return 0, ""
}

// listeners are the sockets that listen on the port, as /proc/PID/fd names
// them. Columns of /proc/net/tcp: sl, local_address, rem_address, st, …, inode
// as the tenth; state 0A is LISTEN.
func listeners(port string) []string {
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil {
		return nil
	}
	suffix := fmt.Sprintf(":%04X", number)
	var sockets []string
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, err := os.ReadFile(table)
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			if len(f) > 9 && f[3] == "0A" && strings.HasSuffix(f[1], suffix) {
				sockets = append(sockets, "socket:["+f[9]+"]")
			}
		}
	}
	return sockets
}

func commandOf(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return "its command is not known"
	}
	return namedCommand(strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"))
}
