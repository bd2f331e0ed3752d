package manifests

import (
	"context"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
)

func newRender(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var what deployer.RenderOptions
	cmd := &cobra.Command{
		Use:   "render MANIFEST",
		Short: "Render the jobs' templates without deploying",
		Long: `Render renders the templates of the jobs as a deploy would, and changes nothing else.
It prints the files, or writes them to a folder with --out. Secrets are shown as
<redacted> unless --show-secrets is given. Progress goes to standard error.`,
		Example: "  bootstrap render manifest.yml --job web\n  bootstrap render manifest.yml --out rendered && diff -r before rendered",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			c.ReportTo(c.ProgressStream())
			c.ResultOnly()
			what.Each, what.Inputs = func(path, content string) { printFile(c, path, content) }, c.InputFiles(cmd, args)
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				return deployer.Render(ctx, opts, what)
			})
		},
	}
	f := cmd.Flags()
	c.VarFlags(f, &opts.Inputs)
	cli.DatabaseFlag(f, &opts.Database)
	f.StringArrayVar(&what.Jobs, "job", nil, "only the job with this `NAME`; repeatable")
	f.StringVar(&what.Out, "out", "", "write the files to this `FOLDER`")
	f.BoolVar(&what.ShowSecrets, "show-secrets", false, "show secrets instead of <redacted>")
	cli.StateFlag(f, &opts.StateFile)
	cli.InstanceFlag(f, &opts.Options)
	cli.RubyFlag(f, &opts.Ruby)
	cli.ViaFlag(f, &opts)
	return cmd
}

// printFile prints a rendered file, from which deployer has removed the secrets.
func printFile(c *cli.Console, path, content string) {
	if !c.JSON() {
		c.Product("file", ui.File(path, content))
		return
	}
	c.PrintProduct("file", FileLine{path, content})
}

// FileLine is a rendered file as --json prints it.
type FileLine struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}
