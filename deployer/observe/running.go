package observe

import (
	"context"
	"fmt"
	"os"

	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// InProgress describes another run that changes the deployment of the options, or the
// instance with the state, unless its path is empty: on this machine, or on another one that
// has locked the store of the state. Empty: none does, or it cannot be found out.
func InProgress(ctx context.Context, from instance.Options, statePath string) string {
	if from.Of != nil {
		lock := record.LockPath(from.Of.Record.Dir())
		if locked, err := file.DeploymentLockedBy(lock, os.Getpid()); err == nil && locked != nil {
			return running(locked.Holder)
		}
	}
	if statePath != "" {
		if locked, err := file.LockedBy(statePath); err == nil && locked != nil {
			return running(locked.Holder)
		}
	}
	locks := []*team.Copy{}
	if from.Of != nil {
		locks = append(locks, from.Team.Record())
	}
	if statePath != "" {
		locks = append(locks, from.Team)
	}
	for _, lock := range locks {
		if held, err := lock.HeldByOther(ctx, os.Getpid()); err == nil && held != nil {
			return running(held.Holder)
		}
	}
	return ""
}

// running describes the holder of a lock.
func running(h state.Holder) string {
	if h.PID == 0 {
		return "a run is in progress"
	}
	return fmt.Sprintf("a run is in progress: bootstrap %s, by %s@%s, process %d, since %s", h.Command, h.User, h.Host, h.PID, report.Minute(h.Since))
}
