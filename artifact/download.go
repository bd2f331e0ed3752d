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

func publicURL(raw string) string { return raw }

func (s *Store) folderRelease(ctx context.Context, f File) (*index, error) {
	return nil, errors.ErrUnsupported
}
