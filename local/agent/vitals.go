package agent

import (
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"github.com/shirou/gopsutil/v4/cpu"
	"github.com/shirou/gopsutil/v4/disk"
	"github.com/shirou/gopsutil/v4/host"
	"github.com/shirou/gopsutil/v4/load"
	"github.com/shirou/gopsutil/v4/mem"

	"bootstrap/agent"
	"bootstrap/internal/process"
	"bootstrap/local/machine"
)

// vitals are the resources that the VM uses, if it has a cgroup that counts them;
// otherwise those of this machine. The load is always the machine's. Numbers are texts,
// as in the real agent's replies.
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

// vitalsOf measures the machine or the VM, and the disks of the VM.
func vitalsOf(vm machine.VM, disks *disks) *vitals {
	all := &vitals{Disk: map[string]diskVitals{}}
	all.measureMachine()
	if use, ok := vm.Usage(); ok {
		all.measure(use, limitsOf(vm))
	}
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

// measureMachine fills in the machine's values.
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

// measure fills in the resources of the VM's processes, relative to their limits.
func (all *vitals) measure(use machine.Usage, limits agent.BootLimits) {
	first, ok := process.Identify(1)
	if !ok {
		return
	}
	up := time.Since(first.Started())
	all.Uptime.Secs = uint64(max(up, 0) / time.Second)
	whole := limits.Memory / 1024
	if memory, err := mem.VirtualMemory(); err == nil && whole == 0 {
		whole = memory.Total / 1024
	}
	all.Mem, all.Swap = memoryOf(use.MemoryKB, whole), memoryOf(use.SwapKB, 0)
	cores := limits.CPU
	if cores == 0 {
		cores = float64(runtime.NumCPU())
	}
	share := func(used time.Duration) string {
		return fmt.Sprintf("%.1f", min(100*used.Seconds()/max(up.Seconds()*cores, 0.01), 100))
	}
	all.CPU.User, all.CPU.Sys, all.CPU.Wait = share(use.User), share(use.System), ""
}

// limitsOf returns the limits of the VM.
func limitsOf(vm machine.VM) agent.BootLimits {
	var limits agent.BootLimits
	_ = readJSON(filepath.Join(vm.Dir(), agent.BootLimitsFile), &limits) // a VM of an earlier bootstrap has no such file
	return limits
}

// notesOf returns warnings about the VM's limits.
func notesOf(vm machine.VM) []string {
	limits := limitsOf(vm)
	notes := slices.Concat(limits.NotHeld, sizesOf(vm).NotHeld)
	use, ok := vm.Usage()
	if !ok {
		return notes
	}
	if use.Killed > 0 {
		notes = append(notes, fmt.Sprintf("the kernel killed %d of the VM's processes since the VM was started, because there was no more memory%s",
			use.Killed, ofMemory(limits.Memory)))
	}
	if most := uint64(max(limits.PIDs, 0)); most > 0 && use.PIDs >= most-most/10 { // #nosec G115 -- not negative
		notes = append(notes, fmt.Sprintf("the VM has %d of at most %d processes and threads (pids)", use.PIDs, limits.PIDs))
	}
	return notes
}

func ofMemory(limit uint64) string {
	if limit == 0 {
		return ""
	}
	return fmt.Sprintf(" for it: it has %d MiB (ram)", limit>>20)
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

// percent returns the used part in percent, rounded up as df does.
func percent(used, whole uint64) string {
	if whole == 0 {
		return "0"
	}
	return fmt.Sprintf("%d", (used*100+whole-1)/whole)
}

func memoryOf(usedKB, totalKB uint64) memVitals {
	return memVitals{KB: fmt.Sprint(usedKB), Percent: percent(usedKB, totalKB)}
}
