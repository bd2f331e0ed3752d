//go:build !linux

package local

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// ps lists processes with their environments, which ps shows of one's own.
func ps(args ...string) string {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	out, _ := exec.CommandContext(ctx, "ps", append([]string{"-wwE"}, args...)...).Output()
	return string(out)
}

// environ is the environment a process began with; none if it may not be
// looked at or is gone.
func environ(pid int) []string { return strings.Fields(ps("-p", strconv.Itoa(pid), "-o", "command=")) }

// members are the processes of the VM without this one.
func (v *vm) members() []int {
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

func lives(pid int) bool {
	return pid > 0 && strings.TrimSpace(ps("-p", strconv.Itoa(pid), "-o", "pid=")) != ""
}

// usersOf would be the processes that use a folder: only tools that take
// seconds know them here.
func (v *vm) usersOf(string) []int { return nil }
