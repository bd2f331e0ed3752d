package deploy

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/compilation"
	"bootstrap/deployment"
	"bootstrap/manifest/document"
)

func newCompile(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "compile MANIFEST",
		Short: "Compile the packages of a manifest before a deploy",
		Long: `Compile compiles the packages that the manifest needs and that were not compiled yet,
on compilation VMs, which it deletes afterwards. The packages are kept in
~/.bosh/cache/packages, for every deployment of this machine with the same stemcell.
The section compilation of the cloud config says how many VMs there are, and of which
kind. Without one, it is one VM like that of the manifest, with another address; with
--compile local, it is one of this machine.

With --export, it also writes a compiled release of each release, with the jobs that
the manifest has and the packages that these need: for a Director, create-env and
deploy.`,
		Example: "  bootstrap compile manifest.yml\n  bootstrap compile manifest.yml --export compiled\n  bootstrap compile cluster.yml --cloud-config cloud.yml --vars-store creds.yml",
		Args:    cli.OneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			s, err := severalOf(c, cmd, &opts, cli.Asking{})
			if err != nil {
				return err
			}
			if s != nil {
				return s.compile()
			}
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				result, err := deployer.Compile(ctx, opts)
				if err == nil {
					if names := compiledNow(result); len(names) > 0 {
						c.Changes.One(opts, "compile", names...)
					}
					printCompiled(c, result)
				}
				return err
			})
		},
	}
	f := cmd.Flags()
	c.InputFlags(f, &opts.Inputs)
	cli.RecipientFlag(f, opts.Inputs.Keys)
	cli.DatabaseFlag(f, &opts.Database)
	cli.StateFlag(f, &opts.StateFile)
	cli.LockFlag(f, &opts.LockWait)
	cli.CPIFlags(f, &opts)
	cli.AgentFlags(f, &opts)
	cli.TimeVar(f, &opts.AgentTimeout, "agent-timeout", 10*time.Minute, "how long a new VM's agent may take")
	f.Var((*values.Group)(&opts.PackagesGroup), "packages-group", "also use what VMs of deployments of the group `NAME` compiled")
	f.StringVar(&opts.Export, "export", "", "write compiled releases into this `FOLDER`, or one to FILE.tgz")
	cli.CompileFlag(f, &opts.Compile)
	c.TimingsFlag(f)
	return cmd
}

// compile compiles the packages of all instance groups.
func (s *several) compile() error {
	s.opts.Inputs.Generate = document.Write
	return s.c.Deployment(s.cmd.Context(), s.opts, func(ctx context.Context, opts deployer.Options) error {
		unlock, err := s.command().Lock(ctx, opts)
		if err != nil {
			return err
		}
		defer unlock()
		defer instances.ShareRuby(ctx, s.c, &opts)()
		old, err := deployment.Load(s.dir, opts)
		var gone []string
		if err == nil {
			gone, err = deployer.DeleteWorkers(ctx, opts)
		}
		if err != nil {
			return err
		}
		opts.Inputs.Pipes = &document.Pipes{} // LinkNames reads all inputs once more
		opts.Inputs.LinkNames = deployment.LinkNames(opts, old, nil)
		return deployer.ReadSeveral(ctx, opts, old, func(of deployer.Several) error {
			if err := deployer.ForgetWorkers(ctx, of.Deployment, gone); err != nil {
				return err
			}
			result, err := deployer.CompileSeveral(ctx, opts, of.Deployment, old, nil, false)
			if err != nil {
				s.c.Changes.Several(opts.Home, s.dir, "")
			}
			if names := compiledNow(result); len(names) > 0 {
				s.c.Changes.Several(opts.Home, s.dir, "compile", names...)
			}
			if err == nil {
				printCompiled(s.c, result)
			}
			return err
		})
	})
}

// compiledNow returns the packages that the command has compiled itself: "release/package".
func compiledNow(result compilation.Result) (names []string) {
	for _, p := range result.Packages {
		if p.From == compilation.FromWorker {
			names = append(names, p.Release+"/"+p.Package)
		}
	}
	return names
}

// printCompiled prints the origin of each package.
func printCompiled(c *cli.Console, result compilation.Result) {
	if c.JSON() {
		c.PrintObject("compiled", result)
		return
	}
	c.Print(func(out *ui.Writer) { ui.Compiled(out, result) })
}
