package manifests

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"bootstrap/catalog"
	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
)

func newUpdateLock(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	cmd := &cobra.Command{
		Use:   "update-lock MANIFEST [NAME...]",
		Short: "Look for newer releases and stemcells",
		Long: `Update-lock looks for the newest versions of the releases and stemcells that the
manifest names without a URL, and writes them with their digests into the lock file,
NAME.lock.yml beside the manifest. With names of releases and operating systems, only
for these. The next deploy uses them.`,
		Example: "  bootstrap update-lock cluster.yml\n  bootstrap update-lock cluster.yml zookeeper ubuntu-jammy",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			opts.Manifest = args[0]
			c.ReportBy(func(report.Event) {}) // print only the result
			return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
				list, err := deployer.UpdateLock(ctx, opts, args[1:])
				if err == nil {
					printLock(c, list)
				}
				return err
			})
		},
	}
	c.VarFlags(cmd.Flags(), &opts.Inputs)
	cli.ViaFlag(cmd.Flags(), &opts)
	return cmd
}

// LockLine is a release or stemcell of the lock file, as --json prints it.
type LockLine struct {
	What    string `json:"what"` // "release" or "stemcell"
	Name    string `json:"name"`
	Version string `json:"version"`
	Was     string `json:"was,omitempty"` // the version before, if it was another one
	URL     string `json:"url"`
	Digest  string `json:"digest"`
}

func printLock(c *cli.Console, list []deployer.Relocked) {
	if c.JSON() {
		for _, r := range list {
			line := LockLine{What: r.Kind.String(), Name: r.Name, Version: r.Version, URL: r.URL, Digest: r.SHA1}
			if r.Was != r.Version {
				line.Was = r.Was
			}
			c.PrintObject("locked", line)
		}
		return
	}
	c.Print(func(out *ui.Writer) {
		if len(list) == 0 {
			fmt.Fprintln(out, "Nothing to lock: the manifest has URLs for its releases and stemcells, or their sources are folders.")
			return
		}
		table := ui.NewTable(out, "RELEASE OR STEMCELL", "VERSION", "BEFORE")
		for _, r := range list {
			before := r.Was
			switch r.Was {
			case r.Version:
				before = "the same"
			case "":
				before = "-"
			}
			name := r.Name
			if r.Kind == catalog.Stemcell {
				name = "stemcell " + name
			}
			table.Row(name, r.Version, before)
		}
		table.Print()
	})
}
