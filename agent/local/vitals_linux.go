package local

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func machineVitals(all *vitals) {
	if data, err := os.ReadFile("/proc/loadavg"); err == nil {
		if f := strings.Fields(string(data)); len(f) > 3 {
			all.Load = f[:3]
		}
	}
	if data, err := os.ReadFile("/proc/uptime"); err == nil {
		whole, _, _ := strings.Cut(string(data), ".")
		all.Uptime.Secs, _ = strconv.ParseUint(whole, 10, 64)
	}
	mem := map[string]uint64{}
	if data, err := os.ReadFile("/proc/meminfo"); err == nil {
		for line := range strings.Lines(string(data)) {
			if f := strings.Fields(line); len(f) >= 2 {
				mem[f[0]], _ = strconv.ParseUint(f[1], 10, 64)
			}
		}
	}
	all.Mem = memoryOf(mem["MemTotal:"]-min(mem["MemTotal:"], mem["MemAvailable:"]), mem["MemTotal:"])
	all.Swap = memoryOf(mem["SwapTotal:"]-min(mem["SwapTotal:"], mem["SwapFree:"]), mem["SwapTotal:"])
	cpuVitals(all)
}

// cpuVitals gives the shares since the machine started.
func cpuVitals(all *vitals) {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return
	}
	line, _, _ := strings.Cut(string(data), "\n")
	var ticks [8]float64 // user nice system idle iowait irq softirq steal
	var total float64
	for i, f := range strings.Fields(line) {
		if i == 0 || i > len(ticks) {
			continue
		}
		ticks[i-1], _ = strconv.ParseFloat(f, 64)
		total += ticks[i-1]
	}
	if total == 0 {
		return
	}
	share := func(n float64) string { return fmt.Sprintf("%.1f", 100*n/total) }
	all.CPU.User, all.CPU.Sys, all.CPU.Wait = share(ticks[0]+ticks[1]), share(ticks[2]), share(ticks[4])
}

func diskUse(place string) (diskVitals, bool) {
	var s unix.Statfs_t
	if unix.Statfs(place, &s) != nil || s.Blocks == 0 {
		return diskVitals{}, false
	}
	used := s.Blocks - s.Bfree
	return diskVitals{
		Percent:      percent(used, used+s.Bavail),
		InodePercent: percent(s.Files-s.Ffree, s.Files),
	}, true
}
