package bpm

import (
	"os"
	"os/exec"
	"strconv"
)

// confine makes a cgroup in which the command starts, with the limits for all processes
// of a container together. done removes it. The result lists the limits that are not
// enforced.
func (p process) confine(cmd *exec.Cmd, l limits) (done func(), missing []string, err error) {
	done = func() {}
	files := map[string]string{}
	if l.Memory != "" {
		size, err := parseSize(l.Memory)
		if err != nil {
			return done, nil, err
		}
		files["memory.max"], files["memory.swap.max"] = strconv.FormatUint(size, 10), "0"
		missing = append(missing, "limits.memory")
	}
	if l.Processes != nil && *l.Processes > 0 { // otherwise there is no limit
		files["pids.max"] = strconv.FormatInt(*l.Processes, 10)
		missing = append(missing, "limits.processes")
	}
	if len(files) == 0 {
		return done, nil, nil
	}
	dir, err := p.vm.MakeCgroup(p.cgroup(), files)
	if err != nil {
		p.log.Warn("the process has no cgroup", "cause", err)
	}
	if dir == "" {
		return done, missing, nil
	}
	folder, err := os.Open(dir)
	if err != nil {
		return done, nil, err
	}
	cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(folder.Fd()) // #nosec G115 -- a descriptor
	return func() { _ = folder.Close() }, nil, nil
}
