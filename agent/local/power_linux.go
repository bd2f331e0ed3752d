package local

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// environ is the environment a process began with; none if it may not be
// looked at or is gone.
func environ(pid int) []string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	if err != nil {
		return nil
	}
	return strings.Split(string(data), "\x00")
}

// members are the processes of the VM without this one.
func (v *vm) members() []int {
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

// usersOf are the processes of the VM that have files below a folder open, or
// are in it.
func (v *vm) usersOf(folder string) []int {
	var users []int
	for _, pid := range v.members() {
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

// machineBoot names the time since the machine, or the container, started.
func machineBoot() string {
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

func lives(pid int) bool { return pid > 0 && !zombie(pid) }

// zombie tells that a process has ended, collected or not.
func zombie(pid int) bool {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return true
	}
	i := bytes.LastIndexByte(data, ')')
	return i < 0 || i+2 >= len(data) || data[i+2] == 'Z'
}
