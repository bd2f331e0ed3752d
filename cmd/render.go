package cmd

import (
	"context"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/cmd/usage"
	"bootstrap/deployer"
)

func newRender(c *console) *cobra.Command {
	var opts deployer.Options
	var what deployer.RenderOptions
	cmd := &cobra.Command{
		Use:   "render MANIFEST",
		Short: "Render the jobs' templates without deploying",
		Long: `Render renders the templates of the instance group's jobs as a deploy would, and
changes nothing else. It prints the files, or writes them to a folder with --out, so
that you can compare two such folders with diff. Secrets are shown as <redacted>
unless --show-secrets is given. Progress goes to standard error.`,
		Example: "  bootstrap render manifest.yml --job web\n  bootstrap render manifest.yml --out rendered && diff -r before rendered",
		Args:    usage.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Manifest = args[0]
			c.report = c.renderer(c.progressStream())
			c.plain = true
			what.Each, what.Inputs = c.printFile, c.inputs(cmd, args)
			return c.deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				return deployer.Render(ctx, opts, what)
			})
		},
	}
	f := cmd.Flags()
	c.varFlags(f, &opts.Inputs)
	databaseFlagOf(f, &opts.Database)
	f.StringArrayVar(&what.Jobs, "job", nil, "only the job with this `NAME`; repeatable")
	f.StringVar(&what.Out, "out", "", "write the files to this `FOLDER`")
	f.BoolVar(&what.ShowSecrets, "show-secrets", false, "show secrets instead of <redacted>")
	stateFlag(f, &opts.StateFile)
	rubyFlag(f, &opts.Ruby)
	viaFlag(f, &opts)
	return cmd
}

// printFile prints a rendered file, from which deployer has removed the secrets.
func (c *console) printFile(path, content string) {
	if !c.json {
		c.product("file", ui.File(path, content))
		return
	}
	c.redactor.Lines(c.out).Product("file", fileLine{path, content})
}

type fileLine struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}
