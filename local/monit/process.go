package monit

import (
	"errors"
	"io"
	"strconv"
	"strings"
	"time"

	"bootstrap/internal/process"
	"bootstrap/internal/regular"
)

// runsSince returns when the process began; if that is unknown, the present time.
func runsSince(id process.Identity) time.Time {
	now := time.Now()
	if at := id.Started(); !at.IsZero() && at.Before(now) {
		return at
	}
	return now
}

// family adds up the values of a process and its descendants; children is the number of
// descendants.
func family(all map[int]process.Usage, pid int) (sum process.Usage, children int) {
	below := map[int][]int{}
	for child, u := range all {
		below[u.Parent] = append(below[u.Parent], child)
	}
	sum = all[pid]
	todo, seen := below[pid], map[int]bool{pid: true}
	for len(todo) > 0 {
		child := todo[0]
		todo = todo[1:]
		if seen[child] {
			continue
		}
		seen[child] = true
		children++
		sum.MemoryKB += all[child].MemoryKB
		sum.CPU += all[child].CPU
		todo = append(todo, below[child]...)
	}
	return sum, children
}

// staleSlack allows for the rounding of file times and process starts.
const staleSlack = 2 * time.Second

// readPidFile returns the process in a pid file. If a process began after the file was
// written, it has only got the same id, and is not returned.
func readPidFile(path string) (process.Identity, bool) {
	pid, written, err := readPid(path)
	if err != nil {
		return process.Identity{}, false
	}
	id, ok := process.Identify(pid)
	if !ok {
		return process.Identity{}, false
	}
	if start := id.Started(); !start.IsZero() && start.After(written.Add(staleSlack)) {
		return process.Identity{}, false
	}
	return id, true
}

func readPid(path string) (pid int, written time.Time, err error) {
	f, info, err := regular.Open(path)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return 0, time.Time{}, err
	}
	word, _, _ := strings.Cut(strings.TrimSpace(string(data)), "\n")
	pid, err = strconv.Atoi(strings.TrimSpace(word))
	if err != nil || pid <= 0 || pid > 1<<30 {
		return 0, time.Time{}, errors.New("no process id")
	}
	return pid, info.ModTime(), nil
}
