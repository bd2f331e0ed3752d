package artifact

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"bootstrap/artifact/archive"
	"bootstrap/internal/digest"
)

// listed returns the blob of config/blobs.yml for a file that is not in the folder. A file
// there that is not the listed one, for example because a download was interrupted, is
// treated as if it were not there.
func (b *releaseFolder) listed(ctx context.Context, from string) (bl blob, elsewhere bool, err error) {
	name, isBlob := strings.CutPrefix(from, "blobs/")
	bl, listed := b.blobs[name]
	if !isBlob || !listed {
		return blob{}, false, nil
	}
	if !slices.Contains(b.trees["blobs"], name) {
		return bl, true, nil
	}
	bl.other, err = b.otherThan(ctx, bl)
	return bl, bl.other != "", err
}

// otherThan says how a file in the folder differs from the blob that is listed; empty: it
// does not.
func (b *releaseFolder) otherThan(ctx context.Context, bl blob) (string, error) {
	if b.check(bl) {
		return "", nil
	}
	from := "blobs/" + bl.name
	info, err := fs.Stat(b.fsys, from)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %w", from, archive.Cause(err))
	case !info.Mode().IsRegular(): // opening a named pipe would block
		return "", fmt.Errorf("cannot pack %s: it is not a regular file", from)
	case b.lfs && isPointer(b.fsys, from):
		return "", nil // file reports it
	}
	in, err := b.fsys.Open(from)
	if err != nil {
		return "", fmt.Errorf("cannot read %s: %w", from, archive.Cause(err))
	}
	defer in.Close()
	sum := digest.NewSums(bl.want.Algorithm)
	if _, err := io.Copy(struct{ io.Writer }{sum}, &archive.Input{Ctx: ctx, R: in}); err != nil {
		return "", err
	}
	if is := sum.Hex()[bl.want.Algorithm]; bl.want.Check(is) != nil {
		listed := bl.want.Hex
		if bl.size > 0 {
			listed = fmt.Sprintf("%d bytes and %s", bl.size, listed)
		}
		return fmt.Sprintf("the file there has %d bytes and the %s %s, but config/blobs.yml lists %s", info.Size(), bl.want.Algorithm, is, listed), nil
	}
	return "", nil
}
