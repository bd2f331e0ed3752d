package rollout

import (
	"context"
	"fmt"
	"os"
	"time"

	"bootstrap/fleet/schedule"
	"bootstrap/internal/lockfile"
	"bootstrap/internal/wait"
)

// Running reports whether a process runs this fleet; also true if that is unknown.
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

// currentWait is how long a record that was just written may take to appear on another
// machine, on a shared folder.
const currentWait = time.Minute

// Current returns an error unless the record of a fleet file says that the run is
// running and has started the member.
func Current(ctx context.Context, fleetFile, run, member string) error {
	ctx, cancel := context.WithTimeout(ctx, currentWait)
	defer cancel()
	var why error
	err := wait.Poll(ctx, time.Second, func() (bool, error) {
		r, err := Load(fleetFile)
		if err != nil {
			return false, err
		}
		m := r.Find(member)
		switch {
		case r == nil:
			why = fmt.Errorf("there is no record of a run beside %s", fleetFile)
		case r.ID != run || r.Ended != nil:
			why = fmt.Errorf("the run %s is not running, according to %s", run, Path(fleetFile))
		case m == nil || m.Verdict != schedule.Running:
			why = fmt.Errorf("the run %s has not started it, according to %s", run, Path(fleetFile))
		default:
			why = nil
		}
		return why == nil, nil
	})
	if why != nil {
		return why
	}
	return err
}
