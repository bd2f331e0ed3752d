package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/instances"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
)

func newIgnore(c *cli.Console) *cobra.Command {
	return setsIgnored(c, true, &cobra.Command{
		Use:   "ignore MANIFEST INSTANCE...",
		Short: "Exclude instances from changes",
		Long: `Ignore excludes instances of a deployment with several from changes: deploy, stop, start,
restart and recreate of several leave them as they are. Their links and addresses stay,
and a command that would delete one is refused. bootstrap unignore ends that. INSTANCE
is GROUP, GROUP/INDEX or GROUP/ID.`,
		Example: "  bootstrap ignore cluster.yml web/1",
	})
}

func newUnignore(c *cli.Console) *cobra.Command {
	return setsIgnored(c, false, &cobra.Command{
		Use:     "unignore MANIFEST INSTANCE...",
		Short:   "Change ignored instances again",
		Long:    `Unignore ends what bootstrap ignore began: the next deploy changes the instances again.`,
		Example: "  bootstrap unignore cluster.yml web/1",
	})
}

// setsIgnored completes a command that excludes instances from changes, or ends that.
func setsIgnored(c *cli.Console, ignored bool, cmd *cobra.Command) *cobra.Command {
	var opts deployer.Options
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return fmt.Errorf("%s needs a manifest and an instance: %s", cli.ShortPath(cmd), cli.Form(cmd))
		}
		if slices.Contains(args[1:], "") {
			return cli.WrongUsage(cmd, fmt.Errorf("the name of an instance is empty: %s", cli.Form(cmd)))
		}
		c.Start()
		opts.Manifest = args[0]
		names := strings.Join(args[1:], ",")
		return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
			return setIgnored(ctx, c, opts, names, ignored)
		})
	}
	environment.AddFlag(cmd.Flags(), &opts.Inputs.FlagsFile)
	cli.StateFlag(cmd.Flags(), &opts.StateFile)
	return cmd
}

// setIgnored writes to the record of a deployment whether instances are ignored.
func setIgnored(ctx context.Context, c *cli.Console, opts deployer.Options, names string, ignored bool) error {
	dir := opts.RecordFolder()
	if !record.Exists(dir) {
		return &instance.NoInstancesError{Manifest: opts.Manifest, Dir: dir}
	}
	unlock, err := instances.Lock(ctx, dir, opts)
	if err != nil {
		return err
	}
	defer unlock()
	all, err := opts.LoadRecord(dir)
	if err != nil {
		return err
	}
	list, unknown := all.Select(names)
	if len(list) == 0 {
		return &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(all.Instances), Dir: dir}
	}
	var lines, changed []string
	for _, in := range list {
		if in.Ignored != ignored {
			changed = append(changed, in.Name())
		}
		text := "%s is ignored from now on: `bootstrap unignore MANIFEST %s` ends that"
		switch {
		case in.Ignored == ignored && ignored:
			text = "%s is ignored already; `bootstrap unignore MANIFEST %s` ends that"
		case in.Ignored == ignored:
			text = "%s is not ignored; `bootstrap ignore MANIFEST %s` excludes it from changes"
		case !ignored:
			text = "%s is not ignored any more; `bootstrap ignore MANIFEST %s` excludes it from changes"
		}
		in.Ignored = ignored
		lines = append(lines, fmt.Sprintf(text, in.Name(), in.Name()))
	}
	if err := all.Save(); err != nil {
		return err
	}
	if len(changed) > 0 {
		what := "ignore"
		if !ignored {
			what = "unignore"
		}
		c.Changes.Several(opts.Home, dir, what, changed...)
	}
	for _, line := range lines {
		c.Say(report.Info, line)
	}
	return nil
}
