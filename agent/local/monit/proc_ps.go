//go:build unix && !linux

package monit

import (
	"context"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// usages returns what every process of the machine uses.
func usages() map[int]usage {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	out, err := exec.CommandContext(ctx, "/bin/ps", "-axo", "pid=,ppid=,rss=,time=").Output()
	if err != nil {
		return nil
	}
	all := map[int]usage{}
	for line := range strings.Lines(string(out)) {
		f := strings.Fields(line)
		if len(f) != 4 {
			continue
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil {
			continue
		}
		parent, _ := strconv.Atoi(f[1])
		mem, _ := strconv.ParseInt(f[2], 10, 64)
		all[pid] = usage{parent: parent, memKB: mem, cpu: cpuTime(f[3])}
	}
	return all
}

// cpuTime reads [[days-]hours:]minutes:seconds.hundredths.
func cpuTime(s string) time.Duration {
	var total float64
	days, rest, found := strings.Cut(s, "-")
	if !found {
		days, rest = "0", s
	}
	for _, part := range strings.Split(rest, ":") {
		n, err := strconv.ParseFloat(part, 64)
		if err != nil {
			return 0
		}
		total = total*60 + n
	}
	d, _ := strconv.Atoi(days)
	return time.Duration(total*float64(time.Second)) + time.Duration(d)*24*time.Hour
}

// watchExit is not supported here; the next look at the process notices its
// end.
func watchExit(context.Context, int, func()) (cancel func(), ok bool) { return nil, false }
