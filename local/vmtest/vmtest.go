// Package vmtest finds processes that embedded VMs left running.
package vmtest

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Process is a process in a VM.
type Process struct {
	PID     int
	VM      string // name of the VM's folder
	Command string
}

// Processes returns the processes in VMs of namespaces whose folder is below a folder
// vms. end is the last part of that folder's path: for most processes, the folder is
// visible only in their mounts, whose paths begin at the root of its file system.
func Processes(end string) []Process {
	here, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return nil // only Linux has namespaces
	}
	var list []Process
	all, _ := filepath.Glob("/proc/[0-9]*")
	for _, proc := range all {
		if there, err := os.Readlink(proc + "/ns/mnt"); err != nil || there == here {
			continue
		}
		mounts, _ := os.ReadFile(proc + "/mountinfo")
		_, vm, found := strings.Cut(string(mounts), "/"+end+"/vms/")
		pid, err := strconv.Atoi(filepath.Base(proc))
		if !found || err != nil {
			continue
		}
		if end := strings.IndexAny(vm, "/ "); end >= 0 { // index of the folder in the path, or of its field
			vm = vm[:end]
		}
		command, _ := os.ReadFile(proc + "/cmdline")
		list = append(list, Process{pid, vm, strings.TrimSpace(strings.ReplaceAll(string(command), "\x00", " "))})
	}
	return list
}
