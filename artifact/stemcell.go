package artifact

import (
	"context"
	"errors"
)

// Stemcell is a stemcell whose stemcell.MF was read; its image still stands in
// the archive.
type Stemcell struct {
	Name            string
	Version         string // as written, "1.10" stays "1.10"
	OS              string
	APIVersion      int // 1 if none is given
	Formats         []string
	Protocol        string // bosh_protocol
	CloudProperties map[string]any
	// Digest is "sha256:<hex>" of the file that was verified; empty when the
	// manifest gives no digest.
	Digest string
	// ImageDigest is the multi-digest of the image, from stemcell.MF; may be
	// empty.
	ImageDigest string

	file File
}

// Stemcell verifies a stemcell's digest, if it has one, and reads its
// stemcell.MF.
func (s *Store) Stemcell(ctx context.Context, f File, p Progress) (*Stemcell, error) {
	return nil, errors.ErrUnsupported
}

// Extract unpacks the whole stemcell into dir and returns the path of its
// image, which is compared with its digest in stemcell.MF.
func (st *Stemcell) Extract(ctx context.Context, dir string, p Progress) (image string, err error) {
	return "", errors.ErrUnsupported
}
