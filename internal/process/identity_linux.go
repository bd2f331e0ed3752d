package process

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"time"
)

// ticks per second of the times in /proc, on every Linux that Go supports.
const userHz = 100

// look finds a process; ended: it is a zombie.
func look(pid int) (id Identity, ended, ok bool) {
	st, ok := readStat(pid)
	return Identity{PID: pid, start: st.start}, st.state == 'Z' || st.state == 'X', ok
}

// Started returns when the process started, by the machine's clock; zero if the
// system does not report it. The value changes with that clock, so it does not
// identify a process.
func (id Identity) Started() time.Time {
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

// birth returns the text for a start time, which counts from the boot with this id.
func (id Identity) birth() string {
	boot := kernelBoot()
	if boot == "" {
		return ""
	}
	return boot + "/" + strconv.FormatInt(id.start, 10)
}

// BootID returns a text that changes with each start of this machine or container.
func BootID() string {
	var first string // a container has its own first process
	if st, ok := readStat(1); ok {
		first = strconv.FormatInt(st.start, 10)
	}
	return kernelBoot() + "/" + first
}

// Realm returns a text that is equal for two processes only if they see the same process
// ids: the start of the machine, and the PID namespace. It is empty if these are unknown.
func Realm() string {
	boot := kernelBoot()
	self, err := os.Readlink("/proc/self")
	if boot == "" || err != nil || self != strconv.Itoa(os.Getpid()) { // the last case: /proc is that of another namespace
		return ""
	}
	// The BootID is not enough: containers that start in the same hundredth of a second
	// have the same one.
	namespace, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return BootID() + "/" + namespace
}

func kernelBoot() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	return strings.TrimSpace(string(id))
}

type stat struct {
	state byte
	start int64 // ticks since boot
	usage Usage
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
	return stat{state: f[0][0], start: num(19), usage: Usage{
		Parent:   int(num(1)),
		CPU:      time.Duration(num(11)+num(12)) * time.Second / userHz,
		MemoryKB: num(21) * int64(os.Getpagesize()) / 1024,
	}}, true
}

// pids returns all process ids.
func pids() ([]int, error) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	var all []int
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			all = append(all, pid)
		}
	}
	return all, err
}

// Usages returns the usage of every process of the machine.
func Usages() map[int]Usage {
	pids, _ := pids()
	all := make(map[int]Usage, len(pids))
	for _, pid := range pids {
		if st, ok := readStat(pid); ok {
			all[pid] = st.usage
		}
	}
	return all
}

// Family returns the usage of a process and of all its descendants. If the kernel does
// not list the children of a process, they are found by all, which returns the usage of
// every process. See proc_pid_task(5), children.
func Family(pid int, all func() map[int]Usage) map[int]Usage {
	family := map[int]Usage{}
	for todo := []int{pid}; len(todo) > 0; todo = todo[1:] {
		member := todo[0]
		if _, seen := family[member]; seen {
			continue
		}
		st, ok := readStat(member)
		if !ok {
			continue // it has ended
		}
		family[member] = st.usage
		children, err := childrenOf(member)
		if err != nil {
			return all()
		}
		todo = append(todo, children...)
	}
	return family
}

// childrenOf returns the children of all threads of a process. An error means that the
// kernel does not list them.
func childrenOf(pid int) ([]int, error) {
	tasks := "/proc/" + strconv.Itoa(pid) + "/task/"
	threads, _ := os.ReadDir(tasks)
	var children []int
	for _, thread := range threads {
		data, err := os.ReadFile(tasks + thread.Name() + "/children")
		if err != nil {
			if _, gone := os.Stat(tasks + thread.Name()); gone != nil {
				continue
			}
			return nil, err
		}
		for _, child := range strings.Fields(string(data)) {
			n, err := strconv.Atoi(child)
			if err != nil {
				return nil, err
			}
			children = append(children, n)
		}
	}
	return children, nil
}
