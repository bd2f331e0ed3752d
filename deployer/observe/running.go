package observe

import (
	"fmt"
	"os"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/state/file"
)

// InProgress describes another run that changes the deployment of the options, or the
// instance with the state, unless its path is empty. Empty: none does, or it cannot be found out.
func InProgress(from instance.Options, statePath string) string {
	if from.Of != nil {
		lock := record.LockPath(from.Of.Record.Dir())
		if locked, err := file.DeploymentLockedBy(lock, os.Getpid()); err == nil && locked != nil {
			return running(locked)
		}
	}
	if statePath == "" {
		return ""
	}
	locked, err := file.LockedBy(statePath)
	if err != nil || locked == nil {
		return ""
	}
	return running(locked)
}

// running describes the holder of a lock.
func running(locked *file.LockedError) string {
	h := locked.Holder
	if h.PID == 0 {
		return "a run is in progress"
	}
	return fmt.Sprintf("a run is in progress: bootstrap %s, by %s@%s, process %d, since %s", h.Command, h.User, h.Host, h.PID, report.Minute(h.Since))
}
