package local

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
)

// marked lists the other processes with the variable in their environment.
func marked(ctx context.Context, variable string) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		// Processes of other users and ended ones cannot be read.
		environ, err := os.ReadFile(filepath.Join("/proc", entry.Name(), "environ"))
		if err != nil {
			continue
		}
		for one := range bytes.SplitSeq(environ, []byte{0}) {
			if string(one) == variable {
				pids = append(pids, pid)
				break
			}
		}
	}
	return pids, ctx.Err()
}
