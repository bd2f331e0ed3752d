package instance

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"bootstrap/artifact"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
)

// earlyFetches limits how many downloads run at the same time before they are requested.
const earlyFetches = 4

// earlyFetch is a download that was started before it was requested.
type earlyFetch struct {
	ended    <-chan error
	progress atomic.Pointer[func(done, total int64)] // set by the stage that waits for the download
	file     artifact.File
}

// artifactSource identifies a download: URL and digest.
type artifactSource struct{ url, digest string }

// downloads are the started downloads that were not requested yet.
type downloads struct {
	mu    sync.Mutex // guards begun
	begun map[artifactSource]*earlyFetch
}

// begin starts to download the files that a manifest names, while the keys of its
// variables are generated. It reports nothing, because the secrets of the manifest are
// not known yet.
func (req *Request) begin(ctx context.Context, list []manifest.Download) {
	ctx, cancel := context.WithCancel(ctx)
	slots := make(chan struct{}, earlyFetches)
	req.early.begun = map[artifactSource]*earlyFetch{}
	for _, d := range list {
		e, at := &earlyFetch{}, artifactSource{d.URL, d.SHA1}
		if req.early.begun[at] != nil {
			continue
		}
		req.early.begun[at] = e
		src := artifact.Source{Kind: artifact.KindRelease, Name: d.Release, URL: d.URL, Digest: d.SHA1}
		if d.Release == "" {
			src.Kind, src.Name = artifact.KindStemcell, "stemcell"
		}
		e.ended = guard.Start(ctx, func() (err error) {
			select {
			case slots <- struct{}{}:
				defer func() { <-slots }()
			case <-ctx.Done():
				return ctx.Err()
			}
			e.file, err = req.Env.Store.Fetch(ctx, src, func(done, total int64) {
				if p := e.progress.Load(); p != nil {
					(*p)(done, total)
				}
			})
			return err
		})
	}
	begun := slices.Collect(maps.Values(req.early.begun))
	req.AtEnd(func() {
		cancel()
		for _, e := range begun {
			<-e.ended
		}
	})
}

// fetch fetches src, or waits for the download that was started already.
func (req *Request) fetch(ctx context.Context, src artifact.Source, progress func(done, total int64)) (artifact.File, error) {
	req.early.mu.Lock()
	at := artifactSource{src.URL, src.Digest}
	e := req.early.begun[at]
	delete(req.early.begun, at) // a second request finds the file in the cache
	req.early.mu.Unlock()
	if e == nil {
		return req.Env.Store.Fetch(ctx, src, progress)
	}
	if progress != nil {
		e.progress.Store(&progress)
	}
	select {
	case err := <-e.ended:
		if err != nil {
			return artifact.File{}, err
		}
	case <-ctx.Done():
		return artifact.File{}, context.Cause(ctx)
	}
	file := e.file
	file.Source = src
	return file, nil
}
