package machine

import (
	"fmt"
	"slices"
	"time"
)

// powerOffGrace is the time between TERM and KILL.
const powerOffGrace = 5 * time.Second

// owns reports whether the environment of a process names this VM.
func (v VM) owns(pid int) bool { return slices.Contains(environ(pid), "VCAP_ROOT="+v.root) }

// PowerOff ends every process of the VM but this one: those whose environment
// names the VM, and the supervised ones.
func (v VM) PowerOff(supervised []int) error {
	told := map[int]bool{}
	begun := time.Now()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids := v.Members()
		for _, pid := range supervised {
			if Lives(pid) && !slices.Contains(pids, pid) {
				pids = append(pids, pid)
			}
		}
		if len(pids) == 0 {
			return nil
		}
		past := time.Since(begun)
		for _, pid := range pids {
			if past > powerOffGrace {
				signalProcess(pid, true)
			} else if !told[pid] {
				told[pid] = true
				signalProcess(pid, false)
			}
		}
		if past > 4*powerOffGrace {
			return fmt.Errorf("cannot power the VM off: processes %v do not end", pids)
		}
		<-ticker.C
	}
}
