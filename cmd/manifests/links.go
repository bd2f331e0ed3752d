package manifests

import (
	"context"
	"errors"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment"
	"bootstrap/deployment/links"
	"bootstrap/deployment/record"
	"bootstrap/manifest/document"
)

func newLinks(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	show := false
	cmd := &cobra.Command{
		Use:   "links MANIFEST",
		Short: "Show where the links of the jobs come from",
		Long: `Links shows for each link that a job consumes which job, instance group and deployment
provides it, and what is in it: instances and properties. It changes nothing. Secrets are
shown as <redacted> unless --show-secrets is given. Links that cannot be connected end it
with 65 and an error that has the candidates.`,
		Example: "  bootstrap links manifest.yml\n  bootstrap links cluster.yml --instance web --show-secrets",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			c.ReportTo(c.ProgressStream())
			c.ResultOnly()
			only := opts.Instance
			opts.Instance = ""
			opts.Inputs.Generate = document.Plan
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				view, err := linksOf(ctx, opts, only, show)
				if err != nil {
					return err
				}
				if c.JSON() {
					c.PrintProduct("links", view)
				} else {
					c.Product("links", ui.LinksText(view))
				}
				return nil
			})
		},
	}
	f := cmd.Flags()
	c.VarFlags(f, &opts.Inputs)
	cli.DatabaseFlag(f, &opts.Database)
	f.BoolVar(&show, "show-secrets", false, "show secrets instead of <redacted>")
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	return cmd
}

// linksOf returns the links of a deployment, or only those of the selected instances.
func linksOf(ctx context.Context, opts deployer.Options, only string, show bool) (view *links.View, err error) {
	dir, several := instances.Looks(ctx, &opts.Options)
	if !several {
		if only != "" {
			return nil, &instance.UnknownInstanceError{Instance: only, Dir: dir}
		}
		return deployer.Links(ctx, opts, show)
	}
	old, err := deployment.Load(dir, opts)
	if err != nil {
		return nil, err
	}
	err = deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) error {
		draft, err := deployment.Make(ctx, of, old, deployment.Recorded(old, opts.Home), nil, "")
		if err != nil {
			return err
		}
		stay := slices.DeleteFunc(slices.Clone(draft.Record.Instances), func(in *record.Instance) bool { return in.Going != "" })
		if len(stay) == 0 {
			return errors.New("the manifest describes no instances, so nobody consumes a link")
		}
		groups, err := selectedGroups(draft.Record, only, dir)
		if err != nil {
			return err
		}
		opts.Deployment = of.Deployment
		if err := opts.Select(draft.Record, stay[0]); err != nil {
			return err
		}
		if view, err = deployer.Links(ctx, opts, show); err == nil && only != "" {
			view.Links = slices.DeleteFunc(view.Links, func(l links.Seen) bool { return !groups[l.Consumer.Group] })
		}
		return err
	})
	return view, err
}

// selectedGroups returns the groups of selected instances: all instances of a group have
// the same links.
func selectedGroups(all *record.Record, only, dir string) (map[string]bool, error) {
	groups := map[string]bool{}
	list, unknown := all.Select(only)
	if unknown != "" {
		return nil, &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(all.Instances), Dir: dir}
	}
	for _, in := range list {
		groups[in.Group] = true
	}
	return groups, nil
}
