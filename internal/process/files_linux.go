package process

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// Use returns the path that a process uses in the folder: a file that it has open, or its
// working directory; empty: it uses none.
func Use(pid int, folder string) string {
	links := []string{fmt.Sprintf("/proc/%d/cwd", pid)}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		links = append(links, filepath.Join(fds, e.Name()))
	}
	for _, link := range links {
		if target, err := os.Readlink(link); err == nil && (target == folder || strings.HasPrefix(target, folder+"/")) {
			return target
		}
	}
	return ""
}

// Name returns the name of the program that a process runs; empty if it is unknown.
func Name(pid int) string {
	name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	return strings.TrimSpace(string(name))
}
