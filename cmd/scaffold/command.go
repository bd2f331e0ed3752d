package scaffold

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/artifact"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/internal/digest"
)

// New returns the command init.
func New(c *cli.Console) *cobra.Command {
	r := &Request{}
	cmd := &cobra.Command{
		Use:   "init [FOLDER]",
		Short: "Write the files of a new environment",
		Long: `Init writes a manifest, operations files, files with values and secrets, and
bootstrap.yml into FOLDER (default: the working folder). The providers are local,
docker, aws, gcp, azure, vsphere, openstack and incus. On a terminal, it asks for what
the flags do not say, unless --provider and --purpose are given and all values have
defaults. For the purpose release without --release, it writes a small release that
serves a page. For a Director, it fetches files of bosh-deployment and verifies each
by its digest. With --manifest, it writes what a Director's manifest needs for VMs on
this machine: a cloud config, the CPI, and bootstrap.yml with places for releases and
stemcells. It overwrites nothing without --force, and writes all files or none. See
docs/providers/README.md.`,
		Example: "  bootstrap init --provider local --purpose release demo\n" +
			"  bootstrap init --provider local --purpose release --release ~/nginx-release nginx\n" +
			"  bootstrap init --provider aws --purpose jumpbox --var subnet_id=subnet-1 --incomplete jumpbox\n" +
			"  bootstrap init --manifest zookeeper.yml",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return fmt.Errorf("init takes one folder, and was given %d arguments", len(args))
			}
			if len(args) == 1 && args[0] == "" {
				return errors.New("no folder was named (the argument is empty)")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			r.Dir = "."
			if len(args) == 1 {
				r.Dir = args[0]
			}
			var result *Result
			var err error
			if r.Manifest != "" {
				if len(args) == 1 {
					return cli.WrongUsage(cmd, errors.New("with --manifest, the files are written beside the manifest, and no folder is named"))
				}
				r.OwnNetwork = cli.OwnNetwork(cmd.Context())
				result, err = r.forManifest(cmd.Context())
			} else {
				result, err = run(cmd.Context(), c, r)
			}
			switch {
			case errors.Is(err, context.Canceled):
				return cli.Stopped()
			case err != nil:
				return judged(cmd, err)
			case c.JSON():
				c.PrintObject("initialized", result)
			default:
				c.Print(func(out *ui.Writer) { ui.Say(out, result.Text()) })
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.Var(values.Choice{To: &r.Provider, Of: providers()}, "provider", "where the VM runs, for example aws")
	f.Var(values.Choice{To: &r.Purpose, Of: purposes()}, "purpose", "what the VM is for: "+strings.Join(purposes(), ", "))
	f.StringVar(&r.Name, "name", "", "the `NAME` of the deployment (default: the release or purpose)")
	f.StringVar(&r.Release, "release", "", "deploy the release in this `FOLDER`, archive, or URL with --sha1")
	f.StringVar(&r.SHA1, "sha1", "", "the `DIGEST` of the release at a URL")
	f.StringArrayVar(&r.Jobs, "job", nil, "deploy this `JOB` of the release; repeatable")
	f.VarP(values.Pairs{List: &r.Vars, Flag: "-v", Want: "NAME=VALUE"}, "var", "v", "give a variable of the provider its value")
	f.Var(values.Pairs{List: &r.VarFiles, Flag: "--var-file", Want: "NAME=PATH"}, "var-file", "give a variable the content of a file, which stays where it is")
	f.BoolVar(&r.Incomplete, "incomplete", false, "write the files even if values are missing")
	f.StringVar(&r.Mirror, "mirror", "", "fetch the Director's files from this `URL`, not from GitHub")
	f.StringVar(&r.Manifest, "manifest", "", "write the files that this `FILE`, a Director's manifest, needs")
	f.BoolVar(&r.Force, "force", false, "overwrite existing files")
	return cmd
}

// run completes a request, with questions if there is a terminal, and carries it out.
func run(ctx context.Context, c *cli.Console, r *Request) (*Result, error) {
	r.hide = c.Redactor.Add
	dir, noHome := c.BoshHome() // HOME is needed only for files that are fetched or read
	store := artifact.Open(artifact.Config{Dir: dir, Getenv: c.Getenv})
	defer store.Close()
	ask := &questions{dialogue: c.Dialogue()}
	if ask.dialogue != nil {
		defer ask.dialogue.Close()
	}
	return ask.complete(ctx, r, Source{
		Ports: true, Home: dir,
		Release: func(ctx context.Context, url, digest string) (*artifact.Release, error) {
			if noHome != nil {
				return nil, noHome
			}
			f, err := store.Fetch(ctx, artifact.Source{Kind: artifact.KindRelease, URL: url, Digest: digest, Needs: artifact.Needs{Only: true}}, nil)
			if err != nil {
				return nil, err
			}
			return store.Release(ctx, f, nil)
		},
		Fetch: func(ctx context.Context, url, digest string) ([]byte, error) {
			if noHome != nil {
				return nil, noHome
			}
			f, err := store.Fetch(ctx, artifact.Source{Kind: artifact.KindFile, Name: path.Base(url), URL: url, Digest: digest}, nil)
			if err != nil {
				return nil, err
			}
			return verified(f.Path, digest)
		},
	})
}

// maxFetched is larger than any fetched file, in bytes.
const maxFetched = 16 << 20

// verified returns the content of a file if it has that digest. A file that was not
// downloaded, as with --mirror file://…, was not compared before.
func verified(path, want string) ([]byte, error) {
	sum, err := digest.Parse(want)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFetched))
	if err == nil {
		err = sum.Verify(bytes.NewReader(text))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return text, nil
}

// judged makes errors that another command line would avoid errors of the command line.
func judged(cmd *cobra.Command, err error) error {
	var missing *MissingError
	var exists *ExistsError
	var wrong *requestError
	if errors.As(err, &missing) || errors.As(err, &exists) || errors.As(err, &wrong) {
		return &exit.UsageError{Err: err, Command: cmd.CommandPath()}
	}
	return err
}
