package local

import (
	"fmt"

	"bootstrap/agent/local/machine"
)

// vitals are those of this machine: an embedded VM has none of its own. Numbers
// are texts, as in the real agent's replies.
type vitals struct {
	CPU struct {
		Sys  string `json:"sys,omitempty"`
		User string `json:"user,omitempty"`
		Wait string `json:"wait,omitempty"`
	} `json:"cpu"`
	Disk   map[string]diskVitals `json:"disk,omitempty"`
	Load   []string              `json:"load,omitempty"`
	Mem    memVitals             `json:"mem"`
	Swap   memVitals             `json:"swap"`
	Uptime struct {
		Secs uint64 `json:"secs,omitempty"`
	} `json:"uptime"`
}

type diskVitals struct {
	InodePercent string `json:"inode_percent,omitempty"`
	Percent      string `json:"percent,omitempty"`
}

type memVitals struct {
	KB      string `json:"kb,omitempty"`
	Percent string `json:"percent,omitempty"`
}

// vitalsOf measures the machine and the places of the VM.
func vitalsOf(vm machine.VM, disks *disks) *vitals {
	all := &vitals{Disk: map[string]diskVitals{}}
	machineVitals(all)
	places := map[string]string{"system": vm.Dir(), "ephemeral": vm.Path("data")}
	if at := disks.mountedAt(storeName); at != "" {
		places["persistent"] = at
	}
	for name, place := range places {
		if d, ok := diskUse(place); ok {
			all.Disk[name] = d
		}
	}
	return all
}

// percent is the used part of the whole in percent, rounded up as df does.
func percent(used, whole uint64) string {
	if whole == 0 {
		return "0"
	}
	return fmt.Sprintf("%d", (used*100+whole-1)/whole)
}

func memoryOf(usedKB, totalKB uint64) memVitals {
	return memVitals{KB: fmt.Sprint(usedKB), Percent: percent(usedKB, totalKB)}
}
