//go:build !linux

package machine

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ps lists processes with their environments, which it shows for processes of the
// same user.
func ps(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "ps", append([]string{"-wwE"}, args...)...).Output()
	return string(out)
}

// environ returns the environment that a process started with; nothing if the
// process is gone or its environment may not be read.
func environ(pid int) []string { return strings.Fields(ps("-p", strconv.Itoa(pid), "-o", "command=")) }

// Members returns the processes of the VM without this one.
func (v VM) Members() []int {
	var pids []int
	for line := range strings.Lines(ps("-ax", "-o", "pid=,stat=,command=")) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[1], "Z") {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err == nil && pid != os.Getpid() && strings.Contains(line+" ", " VCAP_ROOT="+v.root+" ") {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Lives reports whether a process exists and has not ended.
func Lives(pid int) bool {
	return pid > 0 && strings.TrimSpace(ps("-p", strconv.Itoa(pid), "-o", "pid=")) != ""
}

// UsersOf returns nothing: here only tools that take seconds know who uses a
// folder.
func (v VM) UsersOf(string) []int { return nil }
