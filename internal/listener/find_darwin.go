package listener

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
)

func find(ctx context.Context, port string) Process {
	out, err := exec.CommandContext(ctx, "lsof", "-nP", "-t", "-iTCP:"+port, "-sTCP:LISTEN").Output()
	if err != nil {
		return Process{}
	}
	first, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	pid, err := strconv.Atoi(first)
	if err != nil {
		return Process{}
	}
	out, err = exec.CommandContext(ctx, "ps", "-ww", "-p", first, "-o", "command=").Output()
	if err != nil {
		return Process{PID: pid}
	}
	return about(pid, strings.Fields(string(out)))
}
