package deployment

import (
	"context"
	"fmt"
	"os"

	"bootstrap/deployment/record"
	"bootstrap/state/file"
)

// ForgetLost records in a store that the deployment is deleted, whose record the store has
// lost. This machine's copy of the record is kept with the ending .unsent, and so are the
// states of the instances, and the versions.
func ForgetLost(ctx context.Context, at Place) error {
	at.Opts.PutsBack = false
	send := func() error { return archivedOf(at.Dir(), at.Opts).sendLost(ctx) } // They can be restored.
	path, err := file.ForgetRecord(ctx, at.Opts.Team, record.LockPath(at.Dir()), at.Opts, send)
	if err == nil && path != "" && at.Opts.Warn != nil {
		at.Opts.Warn(fmt.Errorf("this machine's copy of the record is kept as %s", path))
	}
	_ = os.Remove(at.Dir()) // It stays if it contains anything.
	return err
}

// PushVersions writes the versions that this machine has kept of a deployment to the store,
// which has lost some. The run must hold no lock.
func PushVersions(ctx context.Context, at Place) (err error) {
	unlock, err := at.lock(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	return archivedOf(at.Dir(), at.Opts).sendLost(ctx)
}
