package local

import (
	"fmt"
	"slices"
	"time"
)

// powerOffGrace is the time between TERM and KILL.
const powerOffGrace = 5 * time.Second

// owns tells whether a process carries this VM's mark.
func (v *vm) owns(pid int) bool { return slices.Contains(environ(pid), "VCAP_ROOT="+v.root) }

// powerOff ends every process of the VM but this one, which ends by itself:
// those that carry its mark, and those that were supervised.
func (v *vm) powerOff(supervised []int) error {
	told := map[int]bool{}
	begun := time.Now()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		pids := v.members()
		for _, pid := range supervised {
			if lives(pid) && !slices.Contains(pids, pid) {
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
