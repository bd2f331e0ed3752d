//go:build !linux

package bpm

import "os/exec"

// confine returns all limits that need a cgroup: they are not enforced.
func (p process) confine(_ *exec.Cmd, l limits) (done func(), missing []string, err error) {
	if l.Memory != "" {
		missing = append(missing, "limits.memory")
	}
	if l.Processes != nil {
		missing = append(missing, "limits.processes")
	}
	return func() {}, missing, nil
}
