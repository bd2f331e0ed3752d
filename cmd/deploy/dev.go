package deploy

import (
	"context"
	"errors"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/manifest"
)

func newDev(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var ask cli.Asking
	var anyCPI bool
	cmd := &cobra.Command{
		Use:        "dev MANIFEST",
		SuggestFor: []string{"watch"},
		Short:      "Deploy to this machine again whenever a file changes",
		Long: `Dev deploys, and deploys again whenever the manifest, its operations files and
variables files change, or a file in a release folder that the manifest names with
file://. It is for machines of the embedded CPI; --any-cpi allows others. Jobs have 20
seconds to run unless --update-watch-time says otherwise. Ctrl-C ends it; the VM
stays.`,
		Example: "  bootstrap dev manifest.yml\n  bootstrap dev manifest.yml --update-watch-time 500-120000",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			if confirm := c.Confirm(ask); confirm != nil {
				opts.Confirm = func(ctx context.Context, q deployer.Question) (bool, error) {
					if q.Down {
						return true, nil // without a question, as after each change of a source file
					}
					return confirm(ctx, q)
				}
			}
			if opts.WatchTime == nil {
				// A person waits for the log of jobs that do not run.
				opts.WatchTime = &manifest.WatchTime{Min: 500 * time.Millisecond, Max: 20 * time.Second}
			}
			return develop(c, cmd, opts, anyCPI)
		},
	}
	f := cmd.Flags()
	c.DeployFlags(f, &opts)
	opts.LockWait = 10 * time.Minute // changes that were saved during another run must be deployed
	f.Lookup("lock-wait").Usage = "how long to wait for another run (default 10m)"
	ask.Flags(f)
	f.BoolVar(&opts.Templates, "templates", true, "show how the rendered files differ")
	f.BoolVar(&anyCPI, "any-cpi", false, "deploy every change to VMs of other CPIs, too")
	return cmd
}

// develop deploys again and again.
func develop(c *cli.Console, cmd *cobra.Command, opts deployer.Options, anyCPI bool) error {
	done := c.Many()
	show := c.Renderer(c.Out())
	c.ReportBy(show)
	err := (&loop{c: c, opts: opts, anyCPI: anyCPI, show: show}).run(cmd.Context())
	done()
	if remote := (*remoteError)(nil); errors.As(err, &remote) {
		return cli.WrongUsage(cmd, err)
	}
	return err
}
