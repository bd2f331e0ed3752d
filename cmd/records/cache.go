package records

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
)

func newCache(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cache",
		Short: "List or remove files that ~/.bosh keeps for later deploys",
		Args:  cli.NoArgs,
		RunE:  c.Help,
	}
	cmd.AddCommand(newCacheList(c), newCachePrune(c))
	return cmd
}

func newCacheList(c *cli.Console) *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List what is in the cache, with its size and last use",
		Long: `List prints what is kept for later deploys: downloads, blobs, unpacked releases,
compiled packages of CPIs and VMs, and the compiled embedded Ruby.`,
		Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			c.Start()
			home, err := c.BoshHome()
			if err != nil {
				return err
			}
			list, err := listCached(home)
			if err != nil {
				return err
			}
			if c.JSON() {
				ui.PrintAll(c.Lines(), "cached", list)
				return nil
			}
			c.Print(func(out *ui.Writer) { cacheTable(out, list) })
			return nil
		},
	}
}

func newCachePrune(c *cli.Console) *cobra.Command {
	var olderThan time.Duration
	var all, dry bool
	cmd := &cobra.Command{
		Use:   "prune {--older-than TIME | --all}",
		Short: "Remove all of the cache, or entries not used for some time",
		Long: `Prune removes all entries that list prints, or those not used for some time. It
refuses while another run uses the cache, and keeps the compiled packages of
installed CPIs, without which the deployments could not be deleted.`,
		Example: "  bootstrap cache prune --older-than 30d --dry-run",
		Args:    cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !cmd.Flags().Changed("older-than") && !all {
				return errors.New("prune needs --older-than TIME or --all")
			}
			c.Start()
			home, err := c.BoshHome()
			if err != nil {
				return err
			}
			before := time.Now().Add(-olderThan)
			if all {
				before = time.Now().AddDate(1, 0, 0) // clocks may be wrong
			}
			gone, err := pruneCached(home, before, dry)
			printPruned(c, gone, dry)
			return err
		},
	}
	f := cmd.Flags()
	cli.TimeVar(f, &olderThan, "older-than", 0, "remove entries not used for this long, such as 30d or 12h")
	f.BoolVar(&all, "all", false, "remove everything that no installed CPI needs")
	f.BoolVar(&dry, "dry-run", false, "only show what would be removed")
	return cmd
}

func printPruned(c *cli.Console, gone []Cached, dry bool) {
	if c.JSON() {
		removed := !dry
		for i := range gone {
			gone[i].Removed = &removed
		}
		ui.PrintAll(c.Lines(), "cached", gone)
		return
	}
	verb, sum := "Removed", int64(0)
	if dry {
		verb = "Would remove"
	}
	c.Print(func(out *ui.Writer) {
		for _, i := range gone {
			fmt.Fprintf(out, "%s %s %s (%s)\n", verb, i.Type, i.Name, ui.Size(i.Size))
			sum += i.Size
		}
		if len(gone) == 0 {
			fmt.Fprintln(out, "Nothing to remove: the cache is empty, or its entries are newer or needed. See: bootstrap cache list")
			return
		}
		fmt.Fprintf(out, "%s %d of these, %s\n", verb, len(gone), ui.Size(sum))
	})
}

func cacheTable(out *ui.Writer, list []Cached) {
	table := ui.NewTable(out, "KIND", "NAME", "SIZE", "LAST USE", "NEEDED BY").
		Yield("NEEDED BY", 12).Yield("NAME", 40).Yield("LAST USE", 12).Yield("NEEDED BY", 0).Yield("NAME", 24).Yield("LAST USE", 0).Yield("NAME", 12).Yield("KIND", 12)
	sum := int64(0)
	for _, i := range list {
		used, by := "-", "-"
		if i.LastUse != nil {
			used = ui.Moment(*i.LastUse)
		}
		if len(i.UsedBy) > 0 {
			by = strings.Join(i.UsedBy, ", ")
		}
		table.Row(i.Type, out.Brief(i.Name), ui.Size(i.Size), used, by)
		sum += i.Size
	}
	table.Row("all", "", ui.Size(sum), "", "")
	table.Print()
}
