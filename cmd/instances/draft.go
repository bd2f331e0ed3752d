package instances

import (
	"context"
	"errors"
	"os"
	"strings"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/templates"
)

// Drafted reports whether the command is about the planned instances of a deployment with
// several, and not about one recorded instance. names are the planned instances that the
// person has selected; empty: all. It opens the store of a team that the options name.
func Drafted(ctx context.Context, c *cli.Console, opts *deployer.Options) (names string, several bool, err error) {
	names = opts.Instance
	c.NameTarget(opts) // for errors
	if err := c.OpenStateStore(ctx, opts); err != nil {
		return names, false, err
	}
	if strings.Contains(names, "/") && !strings.Contains(names, ",") {
		if all, err := record.Load(opts.RecordFolder()); err != nil {
			return names, false, nil // The command reports it.
		} else if _, found := all.Find(names); found {
			return names, false, nil
		}
	}
	if _, several = Looks(ctx, &opts.Options); several {
		opts.Instance = ""
	}
	return names, several, nil
}

// renderers is for how many instances templates are rendered at the same time.
const renderers = 8

// OnDraft calls do with the planned instances of a deployment, including those that are
// not created yet, with its manifest, and with the options for finding them. It changes
// nothing.
func OnDraft(ctx context.Context, c *cli.Console, opts deployer.Options, names string, do func(*Selection, *manifest.Deployment, deployer.Options) error) error {
	opts.Inputs.Generate = document.Plan
	defer ShareRuby(ctx, c, &opts)()
	dir := opts.RecordFolder()
	old, err := deployment.Load(dir, opts)
	if err != nil {
		return err
	}
	return deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) error {
		draft, err := deployment.Make(ctx, of, old, deployment.Recorded(old, opts.Home), nil, "")
		if err != nil {
			return err
		}
		list, unknown := draft.Record.Select(names)
		if names != "" && len(list) == 0 {
			return &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(draft.Record.Instances), Dir: dir}
		}
		s := &Selection{Record: draft.Record, width: renderers}
		for _, in := range list {
			if in.Going == "" {
				s.List = append(s.List, in)
			}
		}
		if len(s.List) == 0 {
			return errors.New("the manifest describes no instances, or only ones that are to be deleted are selected")
		}
		opts.Deployment = of.Deployment
		return do(s, of.Deployment, opts)
	})
}

// ShareRuby makes the runs with the options share one embedded Ruby. The caller must call end.
func ShareRuby(ctx context.Context, c *cli.Console, opts *deployer.Options) (end func()) {
	shared := templates.Share(ctx, templates.Config{Self: opts.Self, Cache: instance.RubyCache(opts.Home), Env: c.Env}, os.TempDir(), "/tmp")
	entry := shared.Entry()
	if entry == "" {
		return shared.Close
	}
	getenv, path := opts.Getenv, strings.TrimPrefix(entry, templates.SharedVariable+"=")
	opts.Getenv = func(name string) string {
		if name == templates.SharedVariable {
			return path
		}
		return getenv(name)
	}
	return shared.Close
}
