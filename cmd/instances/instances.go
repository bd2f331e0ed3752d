// Package instances has the common parts of commands about several instances of a
// deployment: it selects instances, and runs a command for all of them at the same time.
package instances

import (
	"cmp"
	"context"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/state/file"
)

// Selection has the instances of a deployment that a command is about.
type Selection struct {
	Record *record.Record
	List   []*record.Instance // in the order of the record
	Names  string             // as they were given with --instance; empty: all

	width int // number of instances at the same time; 0: atOnce
}

// Looks reports whether the options name a deployment with several instances, and returns
// the folder for its record.
// A state in the store of a team must be open.
func Looks(ctx context.Context, from *instance.Options) (dir string, several bool) {
	if from.Manifest == "-" || from.Manifest == "" && from.StateFile == "" {
		return "", false
	}
	dir = from.RecordFolder()
	return dir, record.Exists(dir) || from.Manifest != "" && manifest.LooksSeveral(ctx, from.Manifest, from.Inputs)
}

// Select returns the deployed instances that the options select; nil if the options are
// about one instance, or the manifest has only one. If none was deployed, the error is an
// *instance.NoInstancesError.
func Select(ctx context.Context, c *cli.Console, opts *deployer.Options) (*Selection, error) {
	from := &opts.Options
	c.NameTarget(opts) // for errors
	if err := c.OpenStateStore(ctx, opts); err != nil {
		return nil, err
	}
	dir, several := Looks(ctx, from)
	if !several {
		return nil, nil
	}
	if !record.Exists(dir) {
		path, err := file.Path(from.Manifest, from.StateFile)
		if alone, _ := file.Exists(path); err == nil && alone {
			return nil, nil // it was deployed with one instance
		}
	}
	all, list, err := from.Selected()
	switch {
	case err != nil:
		return nil, err
	case from.Instance != "" && len(list) == 1:
		return nil, nil
	case len(list) == 0:
		return nil, &instance.NoInstancesError{Manifest: from.Manifest, Dir: dir}
	}
	s := &Selection{Record: all, List: list, Names: from.Instance}
	from.Instance = ""
	from.Inputs.Pipes = &document.Pipes{} // each instance reads all inputs
	return s, nil
}

// Reload reads the record again: another run may have changed it before the lock.
func (s *Selection) Reload(opts deployer.Options) error {
	dir := s.Record.Dir()
	all, err := opts.LoadRecord(dir)
	if err != nil {
		return err
	}
	list, unknown := all.Select(s.Names)
	switch {
	case unknown != "":
		return &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(all.Instances), Dir: dir}
	case len(list) == 0:
		return &instance.NoInstancesError{Manifest: opts.Manifest, Dir: dir}
	}
	s.Record, s.List = all, list
	return nil
}

// atOnce is the number of instances for which a command works at the same time. It is large
// because a command mostly waits: for agents, and with logs --follow for the user.
const atOnce = 256

// Each calls do for each selected instance, many at the same time, with the options for
// the instance, and returns the errors in the order of the instances.
func (s *Selection) Each(ctx context.Context, opts deployer.Options, do func(ctx context.Context, i int, opts deployer.Options) error) []error {
	errs := make([]error, len(s.List))
	panicked := guard.Each(ctx, cmp.Or(s.width, atOnce), len(s.List), func(i int) {
		if errs[i] = context.Cause(ctx); errs[i] == nil {
			var one deployer.Options
			if one, errs[i] = s.Options(opts, i); errs[i] == nil {
				errs[i] = do(ctx, i, one)
			}
		}
	})
	if panicked != nil {
		errs = append(errs, panicked)
	}
	return errs
}

// Options returns the options for a selected instance.
func (s *Selection) Options(opts deployer.Options, i int) (deployer.Options, error) {
	opts.Instance = s.List[i].Name()
	err := opts.Select(s.Record, s.List[i])
	opts.Report = withName(opts.Instance, opts.Report)
	return opts, err
}
