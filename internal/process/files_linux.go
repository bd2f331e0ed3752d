package process

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Uses reports whether a process has a folder, or a file below it, open or as
// its working directory.
func Uses(pid int, folder string) bool {
	links := []string{fmt.Sprintf("/proc/%d/cwd", pid)}
	fds := fmt.Sprintf("/proc/%d/fd", pid)
	entries, _ := os.ReadDir(fds)
	for _, e := range entries {
		links = append(links, filepath.Join(fds, e.Name()))
	}
	return slices.ContainsFunc(links, func(link string) bool {
		target, err := os.Readlink(link)
		return err == nil && (target == folder || strings.HasPrefix(target, folder+"/"))
	})
}
