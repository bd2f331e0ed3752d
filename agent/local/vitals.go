package local

import (
	"fmt"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

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
	all.measureMachine()
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

// measureMachine fills in what the system reports.
func (all *vitals) measureMachine() {
	if avg, err := load.Avg(); err == nil {
		for _, n := range []float64{avg.Load1, avg.Load5, avg.Load15} {
			all.Load = append(all.Load, fmt.Sprintf("%.2f", n))
		}
	}
	all.Uptime.Secs, _ = host.Uptime()
	all.Mem, all.Swap = memoryOf(0, 0), memoryOf(0, 0)
	if memory, err := mem.VirtualMemory(); err == nil {
		all.Mem = memoryOf((memory.Total-min(memory.Total, memory.Available))/1024, memory.Total/1024)
	}
	if swap, err := mem.SwapMemory(); err == nil {
		all.Swap = memoryOf(swap.Used/1024, swap.Total/1024)
	}
	// The shares since the machine started.
	times, err := cpu.Times(false)
	if err != nil || len(times) == 0 {
		return
	}
	t := times[0]
	total := t.User + t.Nice + t.System + t.Idle + t.Iowait + t.Irq + t.Softirq + t.Steal
	if total == 0 {
		return
	}
	share := func(n float64) string { return fmt.Sprintf("%.1f", 100*n/total) }
	all.CPU.User, all.CPU.Sys, all.CPU.Wait = share(t.User+t.Nice), share(t.System), share(t.Iowait)
}

func diskUse(place string) (diskVitals, bool) {
	use, err := disk.Usage(place)
	if err != nil || use.Total == 0 {
		return diskVitals{}, false
	}
	return diskVitals{
		Percent:      percent(use.Used, use.Used+use.Free),
		InodePercent: percent(use.InodesTotal-use.InodesFree, use.InodesTotal),
	}, true
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
