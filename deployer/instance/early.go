package instance

import (
	"context"
	"maps"
	"slices"
	"sync/atomic"

	"bootstrap/artifact"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
)

// earlyFetches limits how many downloads run at a time before they are asked for.
const earlyFetches = 4

// earlyFetch is a download that has begun before it was asked for.
type earlyFetch struct {
	ended    <-chan error
	progress atomic.Pointer[func(done, total int64)] // of the stage that waits for it
	file     artifact.File
}

// artifactSource identifies a download: URL and digest.
type artifactSource struct{ url, digest string }

// begin begins to download what a manifest names, while the keys of its variables
// are generated. Nothing is reported before it is asked for: the secrets of the
// manifest are not known yet.
func (a *Artifacts) begin(ctx context.Context, list []manifest.Download) {
	ctx, cancel := context.WithCancel(ctx)
	slots := make(chan struct{}, earlyFetches)
	a.early = map[artifactSource]*earlyFetch{}
	for _, d := range list {
		e, at := &earlyFetch{}, artifactSource{d.URL, d.SHA1}
		if a.early[at] != nil {
			continue
		}
		a.early[at] = e
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
			e.file, err = a.in.Env.Store.Fetch(ctx, src, func(done, total int64) {
				if p := e.progress.Load(); p != nil {
					(*p)(done, total)
				}
			})
			return err
		})
	}
	begun := slices.Collect(maps.Values(a.early))
	a.in.AtEnd(func() {
		cancel()
		for _, e := range begun {
			<-e.ended
		}
	})
}

// fetch fetches src, or waits for its download that has begun.
func (a *Artifacts) fetch(ctx context.Context, src artifact.Source, progress func(done, total int64)) (artifact.File, error) {
	a.mu.Lock()
	at := artifactSource{src.URL, src.Digest}
	e := a.early[at]
	delete(a.early, at) // a second one finds it in the cache
	a.mu.Unlock()
	if e == nil {
		return a.in.Env.Store.Fetch(ctx, src, progress)
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
