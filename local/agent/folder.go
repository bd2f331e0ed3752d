package agent

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"bootstrap/internal/guard"
	"bootstrap/internal/wait"
)

// folderPoll is the time between two checks that the folder of the VM still exists.
const folderPoll = time.Second

// watchFolder returns a context that ends with errFolderGone when the folder of the VM
// is removed or replaced: an agent without its folder would only block its port. stop
// ends the watch.
func watchFolder(ctx context.Context, dir string) (_ context.Context, stop func(), err error) {
	mine, err := os.Stat(dir)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := guard.Start(ctx, func() error {
		missed := 0
		for wait.For(ctx, folderPoll) == nil {
			if hasFolder(dir, mine) {
				missed = 0
				continue
			}
			// It must be missing twice, because a file system may be unavailable for a
			// moment.
			if missed++; missed == 2 {
				cancel(errFolderGone)
				break
			}
		}
		return nil
	})
	return ctx, func() { cancel(nil); <-done }, nil
}

// hasFolder reports whether the folder and its boot file still exist. It returns true
// after any error other than "does not exist".
func hasFolder(dir string, mine fs.FileInfo) bool {
	now, err := os.Stat(dir)
	if err == nil && !os.SameFile(mine, now) {
		return false
	}
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "boot.json"))
	}
	return !errors.Is(err, fs.ErrNotExist)
}
