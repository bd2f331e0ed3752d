package cmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/artifact"
	"bootstrap/cmd/ui"
	cpilocal "bootstrap/cpi/local"
	"bootstrap/deployer"
	"bootstrap/internal/spelling"
	"bootstrap/manifest"
	"bootstrap/manifest/document"
	"bootstrap/templates"
	"bootstrap/tunnel"
)

func newValidate(c *console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "validate MANIFEST",
		Short: "Check a manifest without deploying it",
		Long: `Validate checks a manifest with its operations and variables, also against the
releases and the stemcell that are on this machine, and renders the templates. It
makes no connections and generates nothing, and says what it could not check. With
--json, there is one object per line for each finding.`,
		Example: "  bootstrap validate bosh.yml -o docker/cpi.yml -l vars.yml --vars-store creds.yml",
		Args:    oneManifest,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.started = true
			opts.Inputs.Generate = document.Plan
			m, err := manifest.Load(args[0], opts.Inputs)
			if err != nil {
				return err
			}
			c.redactor.Add(m.Secrets...)
			c.redactor.Name(m.Names...)
			v := validation{console: c, manifest: m, ruby: cmp.Or(opts.Ruby, c.getenv("BOOTSTRAP_RUBY"))}
			if err := v.checkArtifacts(cmd.Context()); err != nil {
				return err
			}
			return v.finish(args[0])
		},
	}
	c.varFlags(cmd.Flags(), &opts.Inputs)
	rubyFlag(cmd.Flags(), &opts.Ruby)
	return cmd
}

// validation collects the findings about a manifest.
type validation struct {
	*console
	manifest  *manifest.Manifest
	ruby      string // path; empty: the embedded one
	problems  document.Problems
	unchecked []unchecked
}

// unchecked is something that could not be checked.
type unchecked struct {
	Kind string `json:"kind"` // "unchecked"
	What string `json:"what"`
	Why  string `json:"why"`
}

var errOffline = errors.New("it is not on this machine yet")

// checkArtifacts looks into the releases and the stemcell that are here. The
// error says that it was interrupted.
func (v *validation) checkArtifacts(ctx context.Context) error {
	releases := map[string]*artifact.Release{}
	for i, ref := range v.manifest.Releases {
		release, err := v.release(ctx, ref)
		switch {
		case errors.Is(err, errOffline):
			v.skip("release "+ref.Name, err)
		case err != nil:
			v.fail(ref.Pos, fmt.Sprintf("releases[%d]", i), err)
		default:
			releases[ref.Name] = release
			v.checkJobs(ref.Name, release)
			for _, u := range release.Unread {
				if u.Lacks {
					v.skip(fmt.Sprintf("package %s of release %s", u.Package, ref.Name), u.Why)
					continue
				}
				v.fail(ref.Pos, fmt.Sprintf("releases[%d]", i), fmt.Errorf("release %s: %w", ref.Name, u.Why))
			}
		}
	}
	v.checkProperties(releases)
	ref := v.manifest.ResourcePool.Stemcell
	stemcell, err := v.stemcell(ctx, ref)
	switch {
	case errors.Is(err, errOffline):
		v.skip("the stemcell", err)
	case err != nil:
		v.fail(ref.Pos, "", err)
	}
	v.problems = append(v.problems, deployer.CheckPackages(v.manifest, releases, stemcell)...)
	if len(v.manifest.Generated) > 0 {
		v.skip("what depends on variables that deploy will generate", errors.New(strings.Join(v.manifest.Generated, ", ")))
	}
	v.checkTemplates(ctx, releases)
	v.checkTunnel()
	return ctx.Err()
}

// checkTunnel reads the tunnel's key; that its passphrase is not here says nothing
// of the manifest.
func (v *validation) checkTunnel() {
	want := v.manifest.CPI.SSHTunnel
	if want == nil || want.PrivateKey == "" {
		return
	}
	err := tunnel.CheckLogin(tunnel.Config{
		Host: want.Host, Port: want.Port, User: want.User, PrivateKey: want.PrivateKey,
		Passphrase: v.getenv("BOOTSTRAP_SSH_PASSPHRASE"),
	})
	if err != nil {
		v.skip("the key of cloud_provider.ssh_tunnel", err)
	}
}

// checkTemplates renders the templates that can be rendered.
func (v *validation) checkTemplates(ctx context.Context, releases map[string]*artifact.Release) {
	self, err := os.Executable()
	if err != nil {
		v.skip("the templates", err)
		return
	}
	cfg := templates.Config{Ruby: v.ruby, Self: self, Env: []string{"PATH=" + v.getenv("PATH"), "HOME=" + v.getenv("HOME")}}
	if home := v.getenv("HOME"); home != "" {
		cfg.Cache = filepath.Join(home, ".bosh", "cache", "ruby")
	}
	engine := templates.Start(ctx, cfg)
	defer engine.Close()
	problems, doubtful, err := deployer.CheckTemplates(ctx, engine, v.manifest, releases)
	if err != nil {
		v.skip("the templates", err)
	}
	v.problems = append(v.problems, problems...)
	for _, d := range doubtful {
		v.skip("a template, which lacks what is not known yet", errors.New(d))
	}
}

// checkProperties warns of properties that no job knows, where all of the
// group's jobs are here.
func (v *validation) checkProperties(releases map[string]*artifact.Release) {
	for _, ref := range v.manifest.Group.Jobs {
		if release := releases[ref.Release]; release == nil || release.Job(ref.Name) == nil {
			v.skip("the properties of the jobs", fmt.Errorf("release %s could not be looked into", ref.Release))
			return
		}
	}
	v.manifest.Warnings = append(v.manifest.Warnings, deployer.UnknownProperties(v.manifest, releases)...)
}

func (v *validation) skip(what string, why error) {
	v.unchecked = append(v.unchecked, unchecked{"unchecked", what, why.Error()})
}

func (v *validation) fail(pos document.Position, path string, err error) {
	v.problems = append(v.problems, document.Problem{Pos: pos, Path: path, Message: err.Error()})
}

// checkJobs checks that a release has the jobs that are taken from it.
func (v *validation) checkJobs(name string, release *artifact.Release) {
	for _, ref := range append(v.manifest.Group.Jobs, v.manifest.CPI.Templates...) {
		if ref.Release != name || release.Job(ref.Name) != nil {
			continue
		}
		names := make([]string, len(release.Jobs))
		for i, job := range release.Jobs {
			names[i] = job.Name
		}
		hint := ""
		if near := spelling.Nearest(ref.Name, names); near != "" {
			hint = fmt.Sprintf("; did you mean %q?", near)
		}
		v.fail(ref.Pos, ref.Path, fmt.Errorf("release %s has no job %q; it has: %s%s", name, ref.Name, strings.Join(names, ", "), hint))
	}
}

func (v *validation) release(ctx context.Context, ref manifest.Release) (*artifact.Release, error) {
	var release *artifact.Release
	needs := artifact.Needs{Only: true, Try: true}
	for _, job := range slices.Concat(v.manifest.Group.Jobs, v.manifest.CPI.Templates) {
		if job.Release == ref.Name {
			needs.Jobs = append(needs.Jobs, job.Name)
		}
	}
	err := v.offline(ctx, artifact.Source{Kind: artifact.KindRelease, Name: ref.Name, URL: ref.URL, Digest: ref.SHA1, Needs: needs},
		func(ctx context.Context, store *artifact.Store, file artifact.File) (err error) {
			release, err = store.Release(ctx, file, nil)
			return err
		})
	return release, err
}

// stemcell returns what the stemcell says about itself, nil with an error.
func (v *validation) stemcell(ctx context.Context, ref manifest.StemcellRef) (stemcell *artifact.Stemcell, err error) {
	err = v.offline(ctx, artifact.Source{Kind: artifact.KindStemcell, URL: ref.URL, Digest: ref.SHA1},
		func(ctx context.Context, store *artifact.Store, file artifact.File) (err error) {
			stemcell, err = store.Stemcell(ctx, file, nil)
			return err
		})
	if err != nil {
		return nil, err
	}
	return stemcell, nil
}

// offline reads a source that is on this machine; the error of another one is
// errOffline.
func (v *validation) offline(ctx context.Context, src artifact.Source, read func(context.Context, *artifact.Store, artifact.File) error) error {
	// The first attempt to connect ends all of them.
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	store := artifact.Open(artifact.Config{
		Dir:      filepath.Join(v.getenv("HOME"), ".bosh"),
		Embedded: map[string]fs.FS{"local-cpi": cpilocal.Release(), "local-stemcell": cpilocal.Stemcell()},
		Getenv:   v.getenv,
		Dial: func(context.Context, string, string) (net.Conn, error) {
			cancel(errOffline)
			return nil, errOffline
		},
	})
	defer store.Close()
	file, err := store.Fetch(ctx, src, nil)
	if err == nil {
		err = read(ctx, store, file)
	}
	if errors.Is(context.Cause(ctx), errOffline) {
		return errOffline
	}
	return err
}

// finish prints what was found, and returns the problems as an error.
func (v *validation) finish(path string) error {
	if len(v.problems) > 0 {
		problems := append(v.problems, v.manifest.Warnings...)
		slices.SortStableFunc(problems, func(a, b document.Problem) int {
			return cmp.Or(strings.Compare(a.Pos.File, b.Pos.File), cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
		})
		return &problems
	}
	if v.json {
		out := v.redactor.Lines(v.out)
		printEach(out, v.manifest.Warnings)
		for _, u := range v.unchecked {
			out.Print("", u)
		}
		return nil
	}
	v.print(func(out *ui.Writer) {
		for _, w := range document.Problems(v.manifest.Warnings).Shortened() {
			fmt.Fprintln(out, w)
		}
		fmt.Fprintf(out, "%s is valid.\n", path)
		for _, u := range v.unchecked {
			fmt.Fprintf(out, "Not checked: %s: %s\n", u.What, u.Why)
		}
	})
	return nil
}

// problem is a problem of the manifest as --json prints it.
type problem struct {
	Kind    string `json:"kind"` // "problem"
	File    string `json:"file"`
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	Warning bool   `json:"warning,omitempty"`
}

func problemLine(p document.Problem) problem {
	return problem{"problem", p.Pos.File, p.Pos.Line, p.Pos.Column, p.Path, p.Message, p.Warning}
}

// printProblems prints the problems of a manifest, if that is what err is, as
// objects.
func printProblems(out *ui.Lines, err error) {
	var problems *document.Problems
	if errors.As(err, &problems) {
		printEach(out, *problems)
	}
}

func printEach(out *ui.Lines, problems document.Problems) {
	for _, p := range problems.Shortened() {
		out.Print("", problemLine(p))
	}
}
