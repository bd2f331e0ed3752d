package artifact

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
)

// UnsafeError says that an archive was refused because of one of its entries.
type UnsafeError struct {
	Archive string // path or URL without credentials
	Entry   string // as it stands in the archive
	Reason  string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("cannot extract %s: entry %q is refused: %s", e.Archive, e.Entry, e.Reason)
}

// entries calls each for every entry of the tar in u, with its cleaned name
// ("." for the folder itself), until the end or until each returns stop.
func entries(u *unpacked, archive string, each func(name string, h *tar.Header, r io.Reader) error) error {
	tr := tar.NewReader(u)
	last := ""
	for count := 1; ; count++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return archiveError(archive, last, err)
		}
		last = h.Name
		if count > u.lim.Entries {
			return &UnsafeError{archive, h.Name, fmt.Sprintf("the archive has more than %d entries", u.lim.Entries)}
		}
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		name, reason := entryName(h.Name)
		if reason != "" {
			return &UnsafeError{archive, h.Name, reason}
		}
		if err := each(name, h, tr); err != nil {
			if errors.Is(err, errStop) {
				return err
			}
			return archiveError(archive, h.Name, err)
		}
	}
	if last == "" {
		return fmt.Errorf("cannot extract %s: it holds no files", archive)
	}
	return archiveError(archive, last, u.finish())
}

// errStop ends entries early: what was looked for is found.
var errStop = errors.New("stop")

// archiveError names archive and entry in what reading the tar met.
func archiveError(archive, entry string, err error) error {
	var bomb *bombError
	var unsafe *UnsafeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &bomb):
		return &UnsafeError{archive, entry, bomb.reason}
	case errors.As(err, &unsafe):
		return err
	case errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return fmt.Errorf("cannot extract %s: it ends too early%s", archive, after(entry))
	default:
		return fmt.Errorf("cannot extract %s%s: %w", archive, after(entry), err)
	}
}

func after(entry string) string {
	if entry == "" {
		return ""
	}
	return fmt.Sprintf(", at entry %q", entry)
}

// entryName returns the cleaned, slash-separated name, or why it is refused.
func entryName(raw string) (name, reason string) {
	if raw == "" {
		return "", "it has no name"
	}
	if strings.HasPrefix(raw, "/") {
		return "", "its name is an absolute path"
	}
	for part := range strings.SplitSeq(raw, "/") {
		if part == ".." {
			return "", "its name leads out of the folder"
		}
	}
	name = path.Clean(raw)
	if !filepath.IsLocal(filepath.FromSlash(name)) || strings.ContainsRune(name, 0) {
		return "", "its name is no path within a folder"
	}
	return name, ""
}
