//go:build unix

package places

import (
	"os"
	"os/signal"
	"syscall"

	"bootstrap/state"
	"bootstrap/state/file"
)

// writeFull writes the state while no file can grow beyond a few bytes.
func writeFull(s *file.Store) int {
	defer s.Close()
	signal.Ignore(syscall.SIGXFSZ)
	var was syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was)
	if err == nil {
		err = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64, Max: was.Max})
	}
	if err != nil {
		os.Stdout.WriteString(err.Error())
		return 1
	}
	err = s.Update(func(st *state.State) error { return toVM("vm-full")(st) })
	if err == nil {
		os.Stdout.WriteString("no error")
		return 1
	}
	os.Stdout.WriteString(err.Error())
	return 0
}
