//go:build unix && !linux

package process

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

const listTimeout = 10 * time.Second

// WithVariable returns the running processes, other than this one, that were started with
// the variable "NAME=value" in their environment. ps shows the environment, after the
// command line, only for processes of the same user.
func WithVariable(ctx context.Context, variable string) ([]int, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	text, err := exec.CommandContext(ctx, "ps", "-axEww", "-o", "pid=,stat=,command=").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var found []int
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || strings.HasPrefix(fields[1], "Z") {
			continue
		}
		pid, err := strconv.Atoi(fields[0])
		if err == nil && pid != os.Getpid() && strings.Contains(strings.TrimRight(line, "\n")+" ", " "+variable+" ") {
			found = append(found, pid)
		}
	}
	return found, nil
}
