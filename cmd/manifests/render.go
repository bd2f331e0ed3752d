package manifests

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployment/record"
	"bootstrap/manifest"
)

func newRender(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var what deployer.RenderOptions
	cmd := &cobra.Command{
		Use:   "render MANIFEST",
		Short: "Render the jobs' templates without deploying",
		Long: `Render renders the templates of the jobs as a deploy would, and changes nothing else.
It prints the files, or writes them to a folder with --out. Secrets are shown as
<redacted> unless --show-secrets is given. Progress goes to standard error. With
several instances, the paths begin with GROUP/INDEX.`,
		Example: "  bootstrap render manifest.yml --job web\n  bootstrap render manifest.yml --out rendered && diff -r before rendered",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			c.ReportTo(c.ProgressStream())
			c.ResultOnly()
			what.Each, what.Inputs = func(path, content string) { printFile(c, path, content) }, c.InputFiles(cmd, args)
			names, several, err := instances.Drafted(cmd.Context(), c, &opts)
			if err != nil {
				return err
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				if several {
					return renderAll(ctx, c, opts, names, what)
				}
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

// renderAll renders the jobs of several instances, and prints the files in the order of the
// instances.
func renderAll(ctx context.Context, c *cli.Console, opts deployer.Options, names string, what deployer.RenderOptions) error {
	return instances.OnDraft(ctx, c, opts, names, func(of *instances.Selection, d *manifest.Deployment, opts deployer.Options) error {
		of.List = withJobs(of.List, d, what.Jobs)
		files := make([][]FileLine, len(of.List))
		errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) error {
			one, name := what, of.List[i].Name()
			if what.Out != "" {
				one.Out = filepath.Join(what.Out, filepath.FromSlash(name))
			}
			one.Each = func(path, content string) { files[i] = append(files[i], FileLine{name + "/" + path, content}) }
			return deployer.Render(ctx, opts, one)
		})
		for _, list := range files {
			for _, f := range list {
				printFile(c, f.Path, f.Content)
			}
		}
		return of.Failed(errs)
	})
}

// withJobs returns the instances whose group has one of the jobs; all if none has any, so
// that an error names them.
func withJobs(list []*record.Instance, d *manifest.Deployment, jobs []string) []*record.Instance {
	if len(jobs) == 0 {
		return list
	}
	var found []*record.Instance
	for _, in := range list {
		at := slices.IndexFunc(d.Groups, func(g manifest.Group) bool { return g.Name == in.Group })
		if at >= 0 && slices.ContainsFunc(d.Groups[at].Manifest.Group.Jobs, func(j manifest.JobRef) bool { return slices.Contains(jobs, j.Name) }) {
			found = append(found, in)
		}
	}
	if len(found) == 0 {
		return list
	}
	return found
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
