package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bootstrap/catalog"
	"bootstrap/deployer/instance"
	"bootstrap/internal/failure"
	"bootstrap/internal/spelling"
	"bootstrap/manifest/document"
)

// Relocked is a release or a stemcell after its lock was updated. Was is its version
// before; empty: it was not in the lock file.
type Relocked struct {
	catalog.Entry
	Was string
}

// NoSourcesError says that a manifest has no sources of releases and stemcells.
type NoSourcesError struct{}

func (*NoSourcesError) Error() string {
	return "there are no sources of releases and stemcells: name them with --release NAME=SOURCE and --stemcell OS=SOURCE, or in release_sources and stemcell_sources of bootstrap.yml"
}

func (*NoSourcesError) ExitCode() failure.Code { return failure.Usage }

// UpdateLock looks for the newest versions of the named releases and stemcells of a
// manifest, of all if there are no names, and writes them into the lock file.
func UpdateLock(ctx context.Context, opts Options, names []string) ([]Relocked, error) {
	env := instance.NewEnv(opts.Config)
	defer env.Close()
	find := env.Catalog(opts.Manifest, opts.Inputs)
	switch {
	case opts.Manifest == "-" && opts.Inputs.Sources.LockFile == "":
		return nil, errors.New("a manifest from standard input has no lock file beside it: name one with --lock-file FILE")
	}
	find.Save, find.Newer = true, func(name string) bool { return len(names) == 0 || slices.Contains(names, name) }
	inputs := env.Inputs(opts.Inputs)
	inputs.Generate = document.Refuse
	d, err := document.Evaluate(ctx, opts.Manifest, inputs)
	if err != nil {
		return nil, err
	}
	err = d.Check(func(top document.Value) error {
		known := find.Names(top)
		if len(known) == 0 && len(opts.Inputs.Sources.Releases)+len(opts.Inputs.Sources.Stemcells) == 0 {
			return &NoSourcesError{}
		}
		if err := unknownNames(known, names); err != nil {
			return err
		}
		return find.Find(ctx, top, true)
	})
	if err != nil {
		return nil, err
	}
	var list []Relocked
	for _, u := range find.Used {
		if !u.Pinned() {
			continue
		}
		r := Relocked{Entry: u.Entry}
		for _, old := range find.Old {
			if old.Kind == u.Kind && old.Name == u.Name && old.Wanted == u.Wanted {
				r.Was = old.Version
			}
		}
		list = append(list, r)
	}
	return list, nil
}

// UnknownSourceError says that a manifest looks for no release or stemcell with a name.
type UnknownSourceError struct {
	Name  string
	Known []string // those that it looks for
}

func (e *UnknownSourceError) Error() string {
	return fmt.Sprintf("the manifest has no release or stemcell %q that comes from a source%s", e.Name, spelling.Suggest(e.Name, e.Known))
}

func (*UnknownSourceError) ExitCode() failure.Code { return failure.Usage }

func (e *UnknownSourceError) Hint() string {
	if len(e.Known) == 0 {
		return "all of its releases and stemcells have URLs, so there is nothing to look for"
	}
	return "name one or more of " + strings.Join(e.Known, ", ") + ", or none for all"
}

// unknownNames refuses names that the manifest does not look for.
func unknownNames(known, names []string) error {
	for _, name := range names {
		if !slices.Contains(known, name) {
			return &UnknownSourceError{Name: name, Known: known}
		}
	}
	return nil
}
