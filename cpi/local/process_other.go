//go:build !linux && !windows

package local

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
)

// marked lists the processes, other than this one, whose environment holds the
// variable, as ps shows it after the command line.
func marked(ctx context.Context, variable string) ([]int, error) {
	text, err := exec.CommandContext(ctx, "ps", "-axEww", "-o", "pid=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(text)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.Atoi(number)
		if err != nil || pid == os.Getpid() {
			continue
		}
		if strings.Contains(rest+" ", " "+variable+" ") {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
