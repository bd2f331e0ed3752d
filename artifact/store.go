package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gofrs/flock"

	"bootstrap/artifact/archive"
	"bootstrap/artifact/cache"
	"bootstrap/artifact/download"
	"bootstrap/internal/proxy"
)

// Config configures a Store.
type Config struct {
	// Dir is the folder of downloads/ and cache/, usually ~/.bosh.
	Dir string
	// Embedded has the folders that "embedded:NAME" refers to.
	Embedded map[string]fs.FS
	// Getenv reads HOME and the proxies; nil: os.Getenv.
	Getenv func(string) string
	// Dial connects to servers and HTTP proxies; nil: directly.
	Dial proxy.Dial
	// Offline forbids downloads; a missing file is then an ErrOffline.
	Offline bool
	// Once makes the store read each local release without a digest once, for runs that must
	// all use the same one, whoever changes its files meanwhile.
	Once bool
}

// ErrOffline says that an offline store lacks a file.
var ErrOffline = errors.New("it is not on this machine yet")

// Kind is the kind of a Source.
type Kind int

// The kinds of sources.
const (
	KindRelease Kind = iota
	KindStemcell
	KindFile // any other file
)

func (k Kind) String() string {
	switch k {
	case KindStemcell:
		return "stemcell"
	case KindFile:
		return "file"
	}
	return "release"
}

// Source refers to a release or a stemcell as a manifest does.
type Source struct {
	Kind   Kind
	Name   string // name of a release; stemcells have no name in a manifest
	URL    string // file://, http://, https://, embedded:NAME or a path
	Digest string // multi-digest; may be empty unless the URL is http or https
	Needs  Needs  // the needed parts of a release that is a folder
}

// Needs selects the needed packages of a release folder; the zero value: all.
// Missing files of other packages are ignored.
type Needs struct {
	// Only: only the packages of Jobs and their dependencies are needed; if there are
	// no Jobs, no package is.
	Only bool
	Jobs []string
	// Try skips packages that cannot be built. With Try, packages are only checked and
	// not packed: they have no Archive.
	Try bool
}

// String returns for example: release "nginx".
func (s Source) String() string {
	if s.Name == "" {
		return s.Kind.String()
	}
	return fmt.Sprintf("%s %q", s.Kind, s.Name)
}

// File is a Source on this machine.
type File struct {
	Source
	// Path is the file or folder; empty for an embedded one.
	Path string
	// Remote is true if the URL is http or https.
	Remote bool
	// Cached is true if a remote file was in the cache and not downloaded.
	Cached bool
	// Folder is true for a folder in release or stemcell layout instead of an
	// archive.
	Folder bool

	fsys fs.FS // contents of a Folder
}

// Store fetches, verifies and reads releases and stemcells. It may be used
// concurrently, and by several processes on one folder.
type Store struct {
	dir      cache.Dir
	embedded map[string]fs.FS
	client   download.Client
	offline  bool
	// maxDownload is the constant, except in tests.
	maxDownload int64
	// blobSlots limits the number of blobs that are fetched at the same time.
	blobSlots chan struct{}

	inUse struct {
		sync.Mutex
		lock *flock.Flock // held from the first use
	}

	once  bool // Config.Once
	reads localReleases
}

// Open returns the store in cfg.Dir; folders are created when they are needed.
func Open(cfg Config) *Store {
	if cfg.Getenv == nil {
		cfg.Getenv = os.Getenv
	}
	dir := cache.Dir(cfg.Dir)
	return &Store{
		dir:         dir,
		embedded:    cfg.Embedded,
		client:      download.New(dir, download.Network{Getenv: cfg.Getenv, Dial: cfg.Dial}),
		offline:     cfg.Offline,
		once:        cfg.Once,
		maxDownload: MaxDownload,
		blobSlots:   make(chan struct{}, 4),
	}
}

// UnwritableError says that the cache cannot be written to.
type UnwritableError struct {
	Dir string
	Err error
}

func (e *UnwritableError) Error() string {
	return fmt.Sprintf("cannot write to %s, where bootstrap keeps downloads and compiled files: %v; make the folder writable to you, or set HOME to a folder that is", e.Dir, e.Err)
}

func (e *UnwritableError) Name() string { return "home-unwritable" }

func (e *UnwritableError) Unwrap() error { return e.Err }

// Writable returns an *UnwritableError if the cache cannot be written to.
func (s *Store) Writable(ctx context.Context) error {
	_, done, err := s.dir.Work(ctx)
	if err != nil {
		return &UnwritableError{s.dir.Path(), archive.Cause(err)}
	}
	done()
	return nil
}

// localPath returns the path of a URL without a remote scheme.
func (s *Store) localPath(url string) (string, error) {
	p, isURL := strings.CutPrefix(url, "file://")
	if !isURL && strings.Contains(url, "://") {
		scheme, _, _ := strings.Cut(url, "://")
		return "", fmt.Errorf("its url has the scheme %q; want file, http, https or embedded:NAME", scheme)
	}
	if p == "" {
		return "", fmt.Errorf("its url is empty")
	}
	if rest, ok := strings.CutPrefix(p, "~"); ok && (rest == "" || rest[0] == '/' || rest[0] == filepath.Separator) {
		home := s.client.Network.Getenv("HOME")
		if home == "" {
			return "", fmt.Errorf("its url begins with ~, but HOME is not set")
		}
		p = home + rest
	}
	if filepath.Separator == '\\' && len(p) > 2 && p[0] == '/' && p[2] == ':' {
		p = p[1:] // file:///C:/x
	}
	return filepath.Abs(filepath.FromSlash(p))
}
