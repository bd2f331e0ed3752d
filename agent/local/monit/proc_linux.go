package monit

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"bootstrap/internal/guard"
)

// ticks per second of the times in /proc, on every Linux that Go supports.
const userHz = 100

// identify returns the identity of a process that has not ended; a zombie has.
func identify(pid int) (identity, bool) {
	st, ok := readStat(pid)
	if !ok || st.state == 'Z' || st.state == 'X' {
		return identity{}, false
	}
	return identity{pid: pid, start: st.start}, true
}

// started returns when a process began by the machine's clock, zero if unknown.
func (id identity) started() time.Time {
	data, err := os.ReadFile("/proc/stat")
	if err != nil {
		return time.Time{}
	}
	for line := range bytes.Lines(data) {
		if boot, ok := bytes.CutPrefix(line, []byte("btime ")); ok {
			secs, err := strconv.ParseInt(string(bytes.TrimSpace(boot)), 10, 64)
			if err != nil {
				return time.Time{}
			}
			return time.Unix(secs, 0).Add(time.Duration(id.start) * time.Second / userHz)
		}
	}
	return time.Time{}
}

type stat struct {
	state byte
	start int64 // ticks since boot
	usage usage
}

func readStat(pid int) (stat, bool) {
	data, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return stat{}, false
	}
	// The name in parentheses can contain anything, parentheses too.
	end := bytes.LastIndexByte(data, ')')
	if end < 0 {
		return stat{}, false
	}
	f := strings.Fields(string(data[end+1:]))
	if len(f) < 22 {
		return stat{}, false
	}
	num := func(i int) int64 {
		n, _ := strconv.ParseInt(f[i], 10, 64)
		return n
	}
	return stat{state: f[0][0], start: num(19), usage: usage{
		parent: int(num(1)),
		cpu:    time.Duration(num(11)+num(12)) * time.Second / userHz,
		memKB:  num(21) * int64(os.Getpagesize()) / 1024,
	}}, true
}

// usages returns what every process of the machine uses.
func usages() map[int]usage {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	all := make(map[int]usage, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			if st, ok := readStat(pid); ok {
				all[pid] = st.usage
			}
		}
	}
	return all
}

func machineMemoryKB() int64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	return int64(uint64(info.Totalram) * uint64(info.Unit) / 1024)
}

// watchExit calls gone once when the process has ended, unless the returned
// function is called before. It returns false if this kernel does not support
// it.
func watchExit(ctx context.Context, pid int, gone func()) (cancel func(), ok bool) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if err != nil {
		return nil, false
	}
	f := os.NewFile(uintptr(fd), "pidfd")
	conn, err := f.SyscallConn()
	if err != nil {
		f.Close()
		return nil, false
	}
	done := guard.Start(ctx, func() error {
		err := conn.Read(func(fd uintptr) bool {
			poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			n, err := unix.Poll(poll, 0)
			return err == nil && n > 0
		})
		if err == nil {
			gone()
		}
		return err
	})
	return func() { f.Close(); <-done }, true
}
