// Package dev deploys a manifest again whenever it, or a release folder that it names,
// changes: the loop of somebody who writes a release.
package deploy

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bootstrap/cmd/cli"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/watch"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
)

// RemoteError says that the manifest's CPI is not the embedded one.
type RemoteError struct{ Release string }

func (e *RemoteError) Error() string {
	return fmt.Sprintf("the CPI of the manifest is in release %s: dev deploys every change, and does that only to machines of the embedded CPI; to deploy every change to these VMs, add --any-cpi", e.Release)
}

// Loop deploys, waits until files change, and deploys again.
type Loop struct {
	Manifest string
	Inputs   document.Options
	AnyCPI   bool // deploy not only to machines of the embedded CPI
	// Deploy runs one deploy. It passes the manifest that it has read to accept, and
	// its events to show.
	Deploy func(ctx context.Context, accept func(*manifest.Manifest) error, show func(report.Event)) error
	Asking func() bool        // a deploy asks the person
	Ended  func(error)        // a deploy has ended
	Show   func(report.Event) // for the person
	Idle   func(idle bool)    // the loop waits for files, or deploys again

	watcher *watch.Watcher
	named   []string // local files and folders that the last readable manifest names
}

// Run runs the loop until the context ends. Its errors are that of a deploy which the
// end of the context interrupted, that there is no manifest, and a *RemoteError.
func (l *Loop) Run(ctx context.Context) error {
	l.watcher = watch.New(skip)
	defer l.watcher.Close()
	show := l.Show
	for {
		changed, err := l.round(ctx, show)
		if err != nil || ctx.Err() != nil {
			return err
		}
		l.info("Changed: " + shown(changed))
		show = condensed(l.Show)
	}
}

func (l *Loop) info(message string) {
	l.Show(report.Event{Time: time.Now(), Kind: report.Info, Message: message})
}

// round deploys once and returns the files that have changed since.
func (l *Loop) round(ctx context.Context, show func(report.Event)) (changed []string, err error) {
	deploying, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	progress := &progress{giveUp: func() { giveUp(cli.ErrSaved) }, asking: l.Asking}
	before := l.watcher.Look(l.paths())
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var done <-chan error
	begin := func() { // after which only the goroutine uses the watcher
		if done != nil {
			return
		}
		paths := l.paths()
		from := before.Or(l.watcher.Look(paths))
		done = guard.Start(watching, func() (err error) {
			if _, changed, err = l.watcher.Changed(watching, paths, from); err == nil {
				progress.saved()
			}
			return err
		})
	}
	err = l.Deploy(deploying, func(m *manifest.Manifest) error {
		l.named = localFiles(m)
		begin()
		return l.refuse(m)
	}, func(e report.Event) {
		show(e)
		progress.event(e)
	})
	none := len(before) == 0 && done == nil // a mistyped name
	begin()
	if remote := (*RemoteError)(nil); ctx.Err() != nil || none || errors.As(err, &remote) {
		stop()
		<-done
		return nil, err
	}
	if err == nil || context.Cause(deploying) != cli.ErrSaved {
		l.Ended(err)
		l.info(fmt.Sprintf("Watching %s; Ctrl-C ends", shown(l.paths())))
	}
	l.Idle(true)
	defer l.Idle(false)
	if err := <-done; err != nil && ctx.Err() == nil {
		return nil, err
	}
	return changed, nil
}

// refuse refuses a manifest whose VM is not one of this machine.
func (l *Loop) refuse(m *manifest.Manifest) error {
	for _, rel := range m.Releases {
		if !l.AnyCPI && len(m.CPI.Templates) > 0 && rel.Name == m.CPI.Templates[0].Release && rel.URL != "embedded:local-cpi" {
			return &RemoteError{rel.Name}
		}
	}
	return nil
}

// paths returns what the loop watches: the files of the command line, and what the
// manifest names.
func (l *Loop) paths() []string {
	in := l.Inputs
	list := []string{l.Manifest}
	for _, files := range [][]string{in.Ops, in.CloudConfigs, in.VarsFiles} {
		list = append(list, files...)
	}
	for _, arg := range in.VarFiles {
		if _, path, found := strings.Cut(arg, "="); found {
			list = append(list, path)
		}
	}
	return append(list, l.named...)
}

// localFiles returns the files and folders of this machine from which a manifest's
// releases and stemcell are made.
func localFiles(m *manifest.Manifest) []string {
	list := slices.Clone(m.CloudConfigs)
	urls := []string{m.ResourcePool.Stemcell.URL}
	for _, rel := range m.Releases {
		urls = append(urls, rel.URL)
	}
	for _, url := range urls {
		if path, local := strings.CutPrefix(url, "file://"); local {
			list = append(list, path)
		}
	}
	return list
}

// skip reports whether a file or folder of a release folder is not part of what a
// release is built from: what git and bosh keep there, and temporary files of editors.
func skip(name string) bool {
	switch name {
	case ".git", ".dev_builds", ".final_builds", "dev_releases", "releases", "4913", ".DS_Store":
		return true
	}
	return strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".swp") || strings.HasSuffix(name, ".swx") ||
		strings.HasPrefix(name, ".#") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// shown returns the first of some paths, from the working folder if they are in it, and
// how many more there are.
func shown(paths []string) string {
	const most = 3
	here, _ := filepath.Abs(".") // without it, paths are absolute
	var names []string
	for _, p := range paths[:min(most, len(paths))] {
		if rel, err := filepath.Rel(here, p); err == nil && filepath.IsLocal(rel) {
			p = rel
		}
		names = append(names, p)
	}
	text := strings.Join(names, ", ")
	if more := len(paths) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
