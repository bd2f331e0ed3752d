package namespace

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"bootstrap/internal/process"
)

// firstFile is a file in the VM's folder that names the first process. Processes in the
// VM cannot write to it, but they may change the memory of the first process, and with it
// the environment that others see.
const firstFile = "first"

// recordFirst records the first process of the VM in dir.
func recordFirst(dir string, pid int) error {
	text := fmt.Sprintf("%d %s", pid, process.Birth(pid))
	if err := os.WriteFile(filepath.Join(dir, firstFile), []byte(text), 0o600); err != nil {
		return fmt.Errorf("cannot record the VM's first process: %w", err)
	}
	return nil
}

// First returns the first process of the VM in dir, if it is running.
func First(dir string) (pid int, runs bool) {
	text, _ := os.ReadFile(filepath.Join(dir, firstFile))
	number, birth, _ := strings.Cut(string(text), " ")
	pid, err := strconv.Atoi(number)
	return pid, err == nil && birth != "" && process.Birth(pid) == birth
}
