package artifact

import (
	"context"
	"errors"
	"time"
)

type retry struct {
	tries          int
	pause, longest time.Duration
	silence        time.Duration
}

func (s *Store) download(ctx context.Context, src Source, p Progress) (path string, cached bool, err error) {
	return "", false, errors.ErrUnsupported
}

// Release verifies.
func (s *Store) Release(ctx context.Context, f File, p Progress) (*Release, error) {
	return nil, errors.ErrUnsupported
}
