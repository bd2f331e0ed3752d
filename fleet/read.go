package fleet

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
)

// Read reads and checks the fleet file at path, and fills in its variables from
// opts. The operations, the cloud config and the vars store in opts are not used:
// members have their own. The error is a *document.Problems if the content of the
// file, or of a file with variables, is wrong.
func Read(ctx context.Context, path string, opts document.Options, outside Outside) (*Fleet, error) {
	if path == "-" {
		return nil, errors.New("cannot read a fleet file from standard input: write it to a file, because the command that continues an interrupted run reads it again")
	}
	absolute, err := locate(path)
	if err != nil {
		return nil, err
	}
	opts.Ops, opts.CloudConfigs, opts.CloudProvider, opts.RuntimeConfigs, opts.VarsStore, opts.Generate, opts.Find = nil, nil, "", nil, "", document.Refuse, nil
	opts.Kind = document.FleetKind
	f := &Fleet{Path: absolute, Name: nameOf(absolute), Update: defaults()}
	r := newReader(f, outside.Environment)
	r.doubt = outside.Doubt
	if outside.List != nil {
		r.list = func(l source.List, passed []string) ([]byte, error) { return outside.List(ctx, l, passed) }
	}
	d, err := document.Read(ctx, path, opts, r.read)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	f.Secrets, f.Names, f.Warnings = d.Secrets().Sorted(), f.publicNames(d.Names()), d.Warnings
	return f, nil
}

// locate returns the absolute path of the fleet file.
func locate(path string) (string, error) {
	expanded, err := document.ExpandHome(path)
	if err == nil {
		expanded, err = filepath.Abs(expanded)
	}
	if err != nil {
		return "", fmt.Errorf("cannot find the absolute path of the fleet file %s: %v", path, err)
	}
	info, err := os.Stat(expanded)
	switch {
	case err != nil:
		return "", &document.FileError{Err: fmt.Errorf("cannot read the fleet file %s: %w", path, document.Cause(err))}
	case info.Mode()&(fs.ModeNamedPipe|fs.ModeSocket) != 0:
		return "", &document.FileError{Err: fmt.Errorf("cannot read the fleet file %s: it is a pipe, and the command that continues an interrupted run reads it again: write a file", path)}
	case info.IsDir():
		return "", &document.FileError{Err: fmt.Errorf("cannot read the fleet file %s: it is a directory", path)}
	case info.Size() > document.MaxFileSize:
		return "", &document.FileError{Err: fmt.Errorf("cannot read the fleet file %s: it is larger than the limit of %d MiB; a glob needs less space than a list", path, document.MaxFileSize>>20)}
	}
	return expanded, nil
}

// publicNames adds the names of the fleet's members, labels and variables to those of
// its document.
func (f *Fleet) publicNames(document []string) []string {
	names := map[string]bool{f.Name: true}
	for _, name := range document {
		names[name] = true
	}
	for _, m := range f.Members {
		names[m.Name] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// longestName leaves space in a file name for the suffix after the member's name.
const longestName = 100

var plainName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// refuseName returns why a text cannot be the name of a member or of a fleet, or "".
// Names become parts of file names, and arguments of commands.
func refuseName(text string) string {
	switch {
	case len(text) > longestName:
		return fmt.Sprintf("must have at most %d characters", longestName)
	case text == outdated || text == failed:
		return "must not be " + text + ", which selects members by their state"
	case !plainName.MatchString(text):
		return "must begin with a letter or a digit, and have only letters, digits, dots, hyphens and underscores"
	}
	return ""
}

// nameOf returns a name made from that of a file.
func nameOf(path string) string {
	base := filepath.Base(path)
	name := regexp.MustCompile(`[^A-Za-z0-9._-]+`).ReplaceAllString(strings.TrimSuffix(base, filepath.Ext(base)), "-")
	name = strings.TrimLeft(name, "._-")
	name = name[:min(len(name), longestName)]
	if refuseName(name) != "" {
		return "fleet"
	}
	return name
}
