package listener

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func find(ctx context.Context, port string) Process {
	sockets := listeners(port)
	if len(sockets) == 0 {
		return Process{}
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return Process{}
	}
	for _, entry := range entries {
		if ctx.Err() != nil {
			return Process{}
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
				return named(pid)
			}
		}
	}
	return Process{}
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

func named(pid int) Process {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
	if err != nil {
		return Process{PID: pid}
	}
	return about(pid, strings.Split(strings.TrimRight(string(text), "\x00"), "\x00"))
}
