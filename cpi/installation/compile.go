package installation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"bootstrap/internal/removal"

	"bootstrap/artifact"
	"bootstrap/artifact/archive"
	"bootstrap/artifact/packaging"
	"bootstrap/internal/guard"

	"golang.org/x/sync/errgroup"
)

// compile compiles the packages that the cache lacks. Packages without missing
// dependencies are compiled in parallel, one per CPU.
func compile(ctx context.Context, cfg Config, g *graph) error {
	missing := map[*node]bool{}
	good := make([]bool, len(g.order))
	var checks errgroup.Group
	checks.SetLimit(runtime.NumCPU())
	for i, n := range g.order {
		checks.Go(guard.Func(func() error {
			good[i] = entry{cfg.Cache, n}.intact()
			return nil
		}))
	}
	if err := checks.Wait(); err != nil {
		return err
	}
	for i, n := range g.order {
		if good[i] {
			cfg.Stage(stage(n))(alreadyCompiled, nil)
			continue
		}
		missing[n] = true
	}

	group, ctx := errgroup.WithContext(ctx)
	turns := make(chan struct{}, runtime.NumCPU())
	done := map[string]chan struct{}{}
	for _, n := range g.order {
		done[n.key] = make(chan struct{})
		if !missing[n] {
			close(done[n.key])
		}
	}
	for n := range missing {
		group.Go(guard.Func(func() error {
			for _, dep := range n.deps {
				select {
				case <-done[dep.key]:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			}
			select {
			case turns <- struct{}{}:
				defer func() { <-turns }()
			case <-ctx.Done():
				return context.Cause(ctx)
			}
			end := cfg.Stage(stage(n))
			found, err := entry{cfg.Cache, n}.make(ctx, cfg.Env)
			skipped := ""
			if found || n.Compiled() {
				skipped = alreadyCompiled
			}
			end(skipped, err)
			if err == nil {
				close(done[n.key])
			}
			return err
		}))
	}
	if err := group.Wait(); err != nil {
		return err
	}
	// The time of last use of a folder is needed for pruning the cache.
	now := time.Now()
	for _, n := range g.order {
		_ = os.Chtimes(entry{cfg.Cache, n}.dir(), now, now)
	}
	return nil
}

func stage(n *node) string {
	return fmt.Sprintf("Compiling package '%s/%s'", n.Name, artifact.Short(n.Fingerprint))
}

// entry is the place of one compiled package in the cache:
//
//	<id>/packages/<name>/   the compiled files, at the path they were compiled for
//	<id>/packages/<dep>     a link for each package it depends on, transitively
//	<id>/compile.log        what the packaging script printed
//	<id>/done               written last: the list of the compiled files
//	<id>/build/             the folder of a compilation that runs, failed or was interrupted
//	<id>.lock
//
// Compiled files may contain their path, so they are used where they were made.
type entry struct {
	cache string
	node  *node
}

func (e entry) dir() string    { return filepath.Join(e.cache, e.node.id()) }
func (e entry) target() string { return filepath.Join(e.dir(), "packages", e.node.Name) }
func (e entry) log() string    { return filepath.Join(e.dir(), "compile.log") }
func (e entry) done() string   { return filepath.Join(e.dir(), "done") }
func (e entry) build() string  { return filepath.Join(e.dir(), "build") }
func (e entry) source() string { return filepath.Join(e.build(), "source") }

// intact reports whether the compiled package is complete and unchanged.
func (e entry) intact() bool { return intact(e.done(), e.target()) }

// make compiles the package, unless another process has done that in the
// meantime.
func (e entry) make(ctx context.Context, env []string) (found bool, err error) {
	unlock, err := lock(ctx, e.dir()+".lock")
	if err != nil {
		return false, fmt.Errorf("cannot compile %s: %w", e.node.title(), err)
	}
	defer unlock()
	if e.intact() {
		return true, nil
	}
	if err := removal.Tree(e.dir()); err != nil {
		return false, fmt.Errorf("cannot remove an unfinished compilation of %s: %w", e.node.title(), err)
	}
	if e.node.Compiled() {
		err = archive.Extract(ctx, e.node.Archive, e.target(), archive.Limits{AnyLinks: true})
	} else {
		err = e.compile(ctx, env)
	}
	if err == nil {
		err = record(e.done(), e.target())
	}
	var failed *packaging.Error
	switch {
	case errors.As(err, &failed) && failed.ExitStatus > 0:
		return false, fmt.Errorf("%w\nrelease '%s'; the folder it ran in was kept: %s", err, e.node.release, e.source())
	case err != nil:
		return false, fmt.Errorf("cannot install %s: %w", e.node.title(), err)
	}
	return false, nil
}

// compile runs the packaging script.
func (e entry) compile(ctx context.Context, env []string) error {
	if err := archive.Extract(ctx, e.node.Archive, e.source(), archive.Limits{}); err != nil {
		return err
	}
	packages := filepath.Dir(e.target())
	if err := os.MkdirAll(packages, 0o700); err != nil {
		return err
	}
	for name, dep := range e.node.all {
		if err := os.Symlink(entry{e.cache, dep}.target(), filepath.Join(packages, name)); err != nil {
			return err
		}
	}
	err := packaging.Run(ctx, packaging.Script{
		Name: e.node.Name, Version: e.node.Fingerprint,
		Source: e.source(), Target: e.target(), Packages: packages,
		Env: env, Log: e.log(), Temp: e.build(),
	})
	if err != nil {
		return err
	}
	return removal.Tree(e.build())
}

// link makes dir contain a link to each package, and nothing else.
func link(cache, dir string, packages map[string]*node) error {
	have, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("cannot install packages: %w", err)
	}
	for _, old := range have {
		if packages[old.Name()] != nil && old.Type() == os.ModeSymlink {
			continue
		}
		if err := removal.Tree(filepath.Join(dir, old.Name())); err != nil {
			return fmt.Errorf("cannot remove an old package: %w", err)
		}
	}
	for name, n := range packages {
		target, place := entry{cache, n}.target(), filepath.Join(dir, name)
		if now, err := os.Readlink(place); err == nil && now == target {
			continue
		}
		if err := os.Remove(place); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("cannot install package '%s': %w", name, err)
		}
		if err := os.Symlink(target, place); err != nil {
			return fmt.Errorf("cannot install package '%s': %w", name, err)
		}
	}
	return nil
}
