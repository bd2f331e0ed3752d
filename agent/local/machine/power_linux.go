package machine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// environ returns the environment that a process started with; nothing if the
// process is gone or its environment may not be read.
func environ(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\x00")
}

// Members returns the processes of the VM without this one.
func (v VM) Members() []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err == nil && pid != os.Getpid() && v.owns(pid) && !zombie(pid) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// UsersOf returns the processes of the VM that have a folder, or a file below it,
// open or as their working directory.
func (v VM) UsersOf(folder string) []int {
	var users []int
	for _, pid := range v.Members() {
		links := []string{fmt.Sprintf("/proc/%d/cwd", pid)}
		fds := fmt.Sprintf("/proc/%d/fd", pid)
		entries, _ := os.ReadDir(fds)
		for _, e := range entries {
			links = append(links, filepath.Join(fds, e.Name()))
		}
		if slices.ContainsFunc(links, func(link string) bool {
			target, err := os.Readlink(link)
			return err == nil && (target == folder || strings.HasPrefix(target, folder+"/"))
		}) {
			users = append(users, pid)
		}
	}
	return users
}

// BootID is another text after each start of this machine or container.
func BootID() string {
	id, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	first, _ := os.ReadFile("/proc/1/stat")
	var started string
	if i := bytes.LastIndexByte(first, ')'); i >= 0 {
		if f := strings.Fields(string(first[i+1:])); len(f) > 19 {
			started = f[19]
		}
	}
	return strings.TrimSpace(string(id)) + "/" + started
}

// Lives reports whether a process exists and has not ended.
func Lives(pid int) bool { return pid > 0 && !zombie(pid) }

// zombie reports whether a process has ended, also when its parent has not asked
// for its status.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(data, ')')
	return i < 0 || i+2 >= len(data) || data[i+2] == 'Z'
}
