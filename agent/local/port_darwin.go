package local

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

// portHolder finds the process that listens on a TCP port; 0 if it belongs to
// another user. Only the program's name and, for an embedded agent, its folder
// are told: the rest of a command line may hold secrets.
func portHolder(ctx context.Context, port string) (pid int, command string) {
	out, err := exec.CommandContext(ctx, "lsof", "-nP", "-t", "-iTCP:"+port, "-sTCP:LISTEN").Output()
	if err != nil {
		return 0, ""
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if pid, err = strconv.Atoi(first); err != nil {
		return 0, ""
	}
	out, err = exec.CommandContext(ctx, "ps", "-ww", "-p", first, "-o", "command=").Output()
	if err != nil {
		return pid, "its command is not known"
	}
	return pid, namedCommand(strings.Fields(string(out)))
}
