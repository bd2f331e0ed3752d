package instance

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"bootstrap/catalog"
	"bootstrap/internal/proxy"
	"bootstrap/manifest/document"
)

// Catalog returns the Finder for the releases and stemcells of a manifest that have no URL.
func (e *Env) Catalog(path string, in document.Options) *catalog.Finder {
	return &catalog.Finder{
		Manifest: path, LockFile: in.Sources.LockFile, Releases: in.Sources.Releases, Stemcells: in.Sources.Stemcells,
		Offline: e.Offline, Getenv: e.Getenv,
		Dial: func(ctx context.Context) (proxy.Dial, error) {
			err := e.OpenRoute(ctx)
			return e.Route.Dial, err
		},
	}
}

// useCatalog lets the inputs find releases and stemcells in their sources.
func (req *Request) useCatalog() {
	in := &req.From.Inputs
	if in.Sources.LockFile == "" {
		in.Sources.LockFile = catalog.LockPath(req.From.Manifest)
	}
	req.catalog = req.Env.Catalog(req.From.Manifest, *in)
	in.Find = req.catalog.Find
}

// SaveLock makes a run that deploys write the versions that it finds into the lock file.
func (req *Request) SaveLock(generate document.Mode) {
	req.catalog.Save = generate == document.Write
}

// Found says which versions of releases and stemcells the manifest gets from its sources;
// empty: none.
func (req *Request) Found() []string {
	var locked, found []string
	for _, u := range req.catalog.Used {
		switch {
		case u.Locked:
			locked = append(locked, u.String())
		case u.Pinned():
			found = append(found, u.String())
		}
	}
	var list []string
	lock := filepath.Base(req.From.Inputs.Sources.LockFile)
	if len(locked) > 0 {
		list = append(list, fmt.Sprintf("Locked versions, from %s: %s", lock, strings.Join(locked, ", ")))
	}
	switch {
	case len(found) == 0:
	case req.catalog.Save:
		list = append(list, fmt.Sprintf("Versions found, and written to %s: %s", lock, strings.Join(found, ", ")))
	default:
		list = append(list, fmt.Sprintf("Versions found, which a deploy writes to %s: %s", lock, strings.Join(found, ", ")))
	}
	return list
}

// LockedError says that a release or stemcell differs from its entry in the lock file.
type LockedError struct {
	Err  error
	Name string // as the manifest has it
	Lock string // path of the lock file
}

func (e *LockedError) Error() string {
	return fmt.Sprintf("%v; the lock file %s says where it is, and its digest: if another file is right, write that one there with: bootstrap update-lock MANIFEST %s", e.Err, e.Lock, e.Name)
}

func (e *LockedError) Unwrap() error { return e.Err }

// locked returns the error about a release or stemcell, with what to do if the lock file
// has its URL.
func locked(err error, name, lock string) error {
	if lock == "" {
		return err
	}
	return &LockedError{Err: err, Name: name, Lock: lock}
}
