package rollout

import (
	"os"

	"bootstrap/internal/lockfile"
)

// Running reports whether a process runs a run of the fleet, or that cannot be found
// out.
func Running(fleetFile string) bool {
	path := lockPath(fleetFile)
	if _, err := os.Lstat(path); os.IsNotExist(err) {
		return false
	}
	lock, err := lockfile.Try(path)
	if err != nil || lock == nil {
		return true
	}
	lock.Close()
	return false
}
