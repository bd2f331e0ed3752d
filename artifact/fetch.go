package artifact

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/artifact/download"
	"bootstrap/internal/failure"
)

// Fetch downloads and verifies an http or https source, unless it is in the cache. For
// a local file it only checks that the file exists; Release and Stemcell verify it. An
// interrupted download is resumed, even by a later run.
func (s *Store) Fetch(ctx context.Context, src Source, p archive.Progress) (File, error) {
	f := File{Source: src}
	err := s.use(ctx)
	if err != nil {
		return File{}, fmt.Errorf("cannot fetch %s: %w", src, err)
	}
	switch scheme, rest, _ := strings.Cut(src.URL, ":"); {
	case scheme == "http" || scheme == "https":
		f.Remote = true
		f.Path, f.Cached, err = s.download(ctx, src, p)
	case scheme == "embedded":
		f.Folder = true
		if f.fsys = s.embedded[rest]; f.fsys == nil {
			err = fmt.Errorf("%s does not exist; there are embedded:%s", src.URL, strings.Join(slices.Sorted(maps.Keys(s.embedded)), " and embedded:"))
		}
	case strings.HasPrefix(scheme, "git+"):
		err = s.checkout(ctx, &f)
	default:
		err = s.local(&f)
	}
	if err == nil && f.Folder && src.Digest != "" {
		err = errors.New("it is a folder, which has no digest: remove sha1 from the manifest")
	}
	if err != nil {
		return File{}, fmt.Errorf("cannot fetch %s: %w", src, err)
	}
	return f, nil
}

func (s *Store) local(f *File) error {
	p, err := s.localPath(f.URL)
	if err != nil {
		return err
	}
	info, err := os.Stat(p)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no file %s", p)
	}
	if err != nil {
		return err
	}
	f.Path = p
	switch {
	case info.IsDir():
		f.Folder, f.fsys = true, os.DirFS(p)
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is neither a file nor a folder", p)
	}
	return nil
}

// MaxDownload is the limit, in bytes, for files whose size the source does not give. The largest
// stemcells have about 20 GiB.
const MaxDownload = 64 << 30

// download returns the verified file of a remote source. The file is named by its
// digest, so that all URLs of one file share it.
func (s *Store) download(ctx context.Context, src Source, p archive.Progress) (path string, cached bool, err error) {
	u, err := url.Parse(src.URL)
	if err != nil || u.Host == "" {
		return "", false, fmt.Errorf("not a valid URL: %s", download.PublicURL(src.URL))
	}
	if src.Digest == "" {
		return "", false, fmt.Errorf("its url %s is remote, so it needs a digest (sha1): without one the download cannot be checked", download.PublicURL(src.URL))
	}
	want, err := wanted(src.Digest)
	if err != nil {
		return "", false, err
	}
	name := want.Algorithm + "-" + strings.ToLower(want.Hex)
	path = filepath.Join(s.dir.Downloads(), name)
	if s.dir.Known(path, want) {
		cache.Touch(s.dir.RecordPath(path))
		return path, true, nil
	}
	if err := os.MkdirAll(s.dir.Downloads(), 0o700); err != nil {
		return "", false, err
	}
	unlock, err := s.dir.Lock(ctx, name)
	if err != nil {
		return "", false, err
	}
	defer unlock()
	if ok, err := s.dir.Verified(ctx, path, want, p); ok || err != nil {
		return path, ok, err
	}
	// create-env names its downloads by the digest of the URL and the digest of the
	// checksum's text.
	sum := sha1.Sum([]byte(src.URL))
	if theirs := filepath.Join(s.dir.Downloads(), hex.EncodeToString(sum[:])+"-"+src.Digest); plainName(filepath.Base(theirs)) {
		if ok, err := s.dir.Verified(ctx, theirs, want, p); ok || err != nil {
			return theirs, ok, err
		}
	}
	if s.offline {
		return "", false, ErrOffline
	}
	if err := s.client.Fetch(ctx, download.File{URL: u, Limit: s.maxDownload}, path, want, p); err != nil {
		return "", false, failure.Named("download-failed", fmt.Errorf("cannot download %s: %w", download.PublicURL(src.URL), err))
	}
	return path, false, nil
}
