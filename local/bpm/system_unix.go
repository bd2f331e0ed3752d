//go:build unix

package bpm

import (
	"fmt"
	"os/exec"
	"syscall"
)

// send sends a signal to one process.
func send(pid int, name string) error {
	signals := map[string]syscall.Signal{"TERM": syscall.SIGTERM, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT}
	return syscall.Kill(pid, signals[name])
}

// replaceThis executes a program in place of this one.
func replaceThis(argv, env []string) error {
	path, err := exec.LookPath(argv[0])
	if err == nil {
		err = syscall.Exec(path, argv, env) // #nosec G204 -- the program of bpm.yml is what bpm runs
	}
	return fmt.Errorf("cannot run %s: %w", argv[0], err)
}

// set sets the limits of a single process; the next child inherits them. It returns the
// limits that are not enforced.
func (l limits) set() (missing []string) {
	if l.OpenFiles != nil && !setLimit(syscall.RLIMIT_NOFILE, *l.OpenFiles) {
		missing = append(missing, "limits.open_files")
	}
	size := uint64(0) // the default of bpm-release
	if l.CoreFileSize != nil {
		size = *l.CoreFileSize
	}
	if !setLimit(syscall.RLIMIT_CORE, size) {
		missing = append(missing, "limits.core_file_size")
	}
	return missing
}

// setLimit sets both limits of a resource. Without the necessary privileges, it sets the
// largest possible value and returns false.
func setLimit(resource int, n uint64) bool {
	if syscall.Setrlimit(resource, &syscall.Rlimit{Cur: n, Max: n}) == nil {
		return true
	}
	var now syscall.Rlimit
	if syscall.Getrlimit(resource, &now) == nil {
		_ = syscall.Setrlimit(resource, &syscall.Rlimit{Cur: now.Max, Max: now.Max})
	}
	return false
}
