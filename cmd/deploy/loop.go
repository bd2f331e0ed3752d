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
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/internal/guard"
	"bootstrap/internal/watch"
	"bootstrap/manifest"
)

// remoteError says that the manifest's CPI is not the embedded one.
type remoteError struct{ release string }

func (e *remoteError) Error() string {
	return fmt.Sprintf("the CPI of the manifest is in release %s: dev deploys every change, and does that only to machines of the embedded CPI; to deploy every change to these VMs, add --any-cpi", e.release)
}

// loop deploys, waits until files change, and deploys again.
type loop struct {
	c       *cli.Console
	opts    deployer.Options
	anyCPI  bool               // deploy also to machines of other CPIs
	show    func(report.Event) // shows events to the person
	watcher *watch.Watcher
	named   []string // local files and folders of the last valid manifest
}

// run runs the loop until the context ends. Its errors are that of a deploy which the end
// of the context interrupted, a missing manifest, and a *remoteError.
func (l *loop) run(ctx context.Context) error {
	l.watcher = watch.New(skip)
	defer l.watcher.Close()
	show := l.show
	for {
		changed, err := l.round(ctx, show)
		if err != nil || ctx.Err() != nil {
			return err
		}
		l.info("Changed: " + shown(changed))
		show = condensed(l.show)
	}
}

func (l *loop) info(message string) {
	l.show(report.Event{Time: time.Now(), Kind: report.Info, Message: message})
}

// round deploys once and returns the files that have changed since.
func (l *loop) round(ctx context.Context, show func(report.Event)) (changed []string, err error) {
	deploying, giveUp := context.WithCancelCause(ctx)
	defer giveUp(nil)
	progress := &progress{giveUp: func() { giveUp(cli.ErrSaved) }, asking: l.c.Signals.Asking}
	before := l.watcher.Look(l.paths())
	watching, stop := context.WithCancel(ctx)
	defer stop()
	var done <-chan error
	begin := func() { // after this, only the goroutine uses the watcher
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
	err = l.deploy(deploying, func(m *manifest.Manifest) error {
		l.named = localFiles(m)
		begin()
		return l.refuse(m)
	}, func(e report.Event) {
		show(e)
		progress.event(e)
	})
	none := len(before) == 0 && done == nil // a mistyped name
	begin()
	if remote := (*remoteError)(nil); ctx.Err() != nil || none || errors.As(err, &remote) {
		stop()
		<-done
		return nil, err
	}
	if err == nil || context.Cause(deploying) != cli.ErrSaved {
		l.c.Ended(err)
		l.info(fmt.Sprintf("Watching %s; Ctrl-C ends", shown(l.paths())))
	}
	l.idle(true)
	defer l.idle(false)
	if err := <-done; err != nil && ctx.Err() == nil {
		return nil, err
	}
	return changed, nil
}

// deploy runs one deploy. accept gets the manifest, and show the events.
func (l *loop) deploy(ctx context.Context, accept func(*manifest.Manifest) error, show func(report.Event)) error {
	opts := l.opts
	opts.Accept = accept
	return l.c.OneOfMany(show, func() error { return l.c.Deployment(ctx, opts, deployer.Deploy) })
}

// idle records whether the loop waits for files, or deploys again.
func (l *loop) idle(waits bool) {
	l.c.Signals.End(waits)
	if !waits && !l.c.JSON() {
		l.c.Print(func(out *ui.Writer) { fmt.Fprintln(out) }) // between two deploys
	}
}

// refuse returns an error if the VM of the manifest is not on this machine.
func (l *loop) refuse(m *manifest.Manifest) error {
	for _, rel := range m.Releases {
		if !l.anyCPI && len(m.CPI.Templates) > 0 && rel.Name == m.CPI.Templates[0].Release && rel.URL != "embedded:local-cpi" {
			return &remoteError{rel.Name}
		}
	}
	return nil
}

// paths returns the watched files: those of the command line, and those of the manifest.
func (l *loop) paths() []string {
	in := l.opts.Inputs
	list := []string{l.opts.Manifest}
	if in.CloudProvider != "" {
		list = append(list, in.CloudProvider)
	}
	for _, files := range [][]string{in.Ops, in.CloudConfigs, in.RuntimeConfigs, in.VarsFiles} {
		list = append(list, files...)
	}
	for _, arg := range in.VarFiles {
		if _, path, found := strings.Cut(arg, "="); found {
			list = append(list, path)
		}
	}
	return append(list, l.named...)
}

// localFiles returns the local files and folders of a manifest's releases and stemcell.
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

// skip reports whether a file or folder in a release folder is not a source of the
// release: files of git and bosh, and temporary files of editors.
func skip(name string) bool {
	switch name {
	case ".git", ".dev_builds", ".final_builds", "dev_releases", "releases", "4913", ".DS_Store":
		return true
	}
	return strings.HasSuffix(name, "~") || strings.HasSuffix(name, ".swp") || strings.HasSuffix(name, ".swx") ||
		strings.HasPrefix(name, ".#") || strings.HasPrefix(name, "#") && strings.HasSuffix(name, "#")
}

// shown lists the first of some paths, relative to the working folder if they are in it,
// and the number of the others.
func shown(paths []string) string {
	const most = 3
	here, _ := filepath.Abs(".") // if this fails, paths stay absolute
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
