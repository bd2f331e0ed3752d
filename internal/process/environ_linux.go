package process

import (
	"bytes"
	"context"
	"fmt"
	"os"
)

// WithVariable returns the running processes, other than this one, that were started with
// the variable "NAME=value" in their environment. The environments of other users'
// processes cannot be read.
func WithVariable(ctx context.Context, variable string) ([]int, error) {
	pids, err := pids()
	if err != nil {
		return nil, fmt.Errorf("cannot list processes: %w", err)
	}
	var found []int
	for _, pid := range pids {
		if pid == os.Getpid() {
			continue
		}
		environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
		if err != nil {
			continue // it has ended
		}
		for one := range bytes.SplitSeq(environ, []byte{0}) {
			if string(one) == variable {
				if _, runs := Identify(pid); runs {
					found = append(found, pid)
				}
				break
			}
		}
	}
	return found, ctx.Err()
}
