package archive

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// UnsafeError says that an archive was refused because of one of its entries.
type UnsafeError struct {
	Archive string // path or URL without credentials
	Entry   string // the name as in the archive
	Reason  string
}

func (e *UnsafeError) Error() string {
	return fmt.Sprintf("cannot extract %s: entry %q is refused: %s", e.Archive, e.Entry, e.Reason)
}

func (e *UnsafeError) Name() string { return "archive-refused" }

// Entries calls each for every entry of the tar in u, with its cleaned name ("." for
// the folder itself), until the end or until each returns ErrStop.
func (u *Tar) Entries(archive string, each func(name string, h *tar.Header, r io.Reader) error) error {
	buffered := bufio.NewReaderSize(u, tarBlock)
	head, _ := buffered.Peek(tarBlock) // the tar's reader reports the error
	tr := tar.NewReader(buffered)
	last := ""
	for count := 1; ; count++ {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			if what := mistaken(head, err); what != "" && last == "" {
				return &noArchiveError{archive, what}
			}
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
			if errors.Is(err, ErrStop) {
				return err
			}
			return archiveError(archive, h.Name, err)
		}
	}
	if last == "" {
		return fmt.Errorf("cannot extract %s: it has no files", archive)
	}
	return archiveError(archive, last, u.finish())
}

// noArchiveError says that a file is not an archive, and what kind of file it is.
type noArchiveError struct{ archive, what string }

func (e *noArchiveError) Error() string {
	return fmt.Sprintf("cannot extract %s: it is %s", e.archive, e.what)
}

// Unverified returns the error for a file with a wrong digest. If reading the file showed
// a reason, such as an HTML page, the error includes it.
func Unverified(name string, wrong, reading error) error {
	var no *noArchiveError
	if errors.As(reading, &no) {
		return fmt.Errorf("cannot verify %s: %w; it is %s", name, wrong, no.what)
	}
	return fmt.Errorf("cannot verify %s: %w", name, wrong)
}

// tarBlock is the size of a tar's header.
const tarBlock = 512

// mistaken says what kind of file does not begin with a tar header; empty: the file may
// be a damaged tar.
func mistaken(head []byte, err error) string {
	text := bytes.ToLower(bytes.TrimLeft(bytes.TrimPrefix(head, []byte("\xEF\xBB\xBF")), " \t\r\n"))
	switch {
	case bytes.HasPrefix(text, []byte("<!doctype")), bytes.HasPrefix(text, []byte("<html")), bytes.HasPrefix(text, []byte("<?xml")):
		return "a web page and not an archive: the server probably sent an error or a login page; open the URL in a browser"
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		return "a ZIP file; use a tar, plain or compressed with gzip, zstd or bzip2"
	case len(head) > 0 && !bytes.ContainsFunc(head, func(r rune) bool { return r == utf8.RuneError || r < ' ' && !unicode.IsSpace(r) }):
		return fmt.Sprintf("text and not an archive; it begins with %q", excerpt(string(head)))
	case errors.Is(err, tar.ErrHeader):
		return "not an archive: its contents are not a tar, plain or compressed with gzip, zstd or bzip2"
	}
	return ""
}

// excerpt returns the first line of a text, or the beginning of it.
func excerpt(text string) string {
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	if r := []rune(text); len(r) > 60 {
		text = string(r[:60]) + "…"
	}
	return strings.TrimSpace(text)
}

// ErrStop ends Entries early, when the entry was found.
var ErrStop = errors.New("stop")

// archiveError adds archive and entry to an error of reading the tar.
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
		return fmt.Errorf("cannot extract %s: it ends too early%s: the file is incomplete, get it again", archive, after(entry))
	case errors.Is(err, gzip.ErrChecksum), errors.Is(err, zstd.ErrCRCMismatch):
		return fmt.Errorf("cannot extract %s%s: it is damaged (%w), get it again", archive, after(entry), err)
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

// entryName returns the cleaned name with slashes, or why it is refused.
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
		return "", "its name is not a path within a folder"
	}
	return name, ""
}
