package artifact

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/gofrs/flock"

	"bootstrap/internal/failure"
	"bootstrap/internal/lockfile"
)

// BusyError says that other runs use the cache, so that nothing can be removed from
// it.
type BusyError struct{ Dir string }

func (e *BusyError) Error() string {
	return fmt.Sprintf("cannot prune the cache in %s: another run of bootstrap is using it", e.Dir)
}

func (e *BusyError) Name() string { return "cache-in-use" }

func (e *BusyError) ExitCode() failure.Code { return failure.Locked }

func (e *BusyError) Hint() string {
	return "run the same command again when the other run has ended; --dry-run works at any time"
}

func (s *Store) useLock() *flock.Flock {
	return lockfile.New(s.dir.Path("use.lock"))
}

// use prevents other runs from pruning the cache, from the first use of the store
// until Close or the end of the process.
func (s *Store) use(ctx context.Context) error {
	s.inUse.Lock()
	defer s.inUse.Unlock()
	if s.inUse.lock != nil {
		return nil
	}
	if err := os.MkdirAll(s.dir.Path(), 0o700); err != nil {
		return nil // without a cache there is nothing to prune
	}
	lock := s.useLock()
	if _, err := lock.TryRLockContext(ctx, 10*time.Millisecond); err != nil {
		return fmt.Errorf("cannot lock %s: %w", lock.Path(), err)
	}
	s.inUse.lock = lock
	return nil
}

// Close allows other runs to prune the cache. The store may be used again after it.
func (s *Store) Close() error {
	s.inUse.Lock()
	defer s.inUse.Unlock()
	if s.inUse.lock == nil {
		return nil
	}
	err := s.inUse.lock.Close()
	s.inUse.lock = nil
	return err
}

// Alone locks the cache against all other runs, so that it can be pruned. The error is
// a *BusyError if another run uses it.
func (s *Store) Alone() (done func(), err error) {
	if err := os.MkdirAll(s.dir.Path(), 0o700); err != nil {
		return nil, err
	}
	lock := s.useLock()
	ok, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("cannot lock %s: %w", lock.Path(), err)
	}
	if !ok {
		_ = lock.Close()
		return nil, &BusyError{s.dir.Path()}
	}
	return func() { _ = lock.Unlock() }, nil
}
