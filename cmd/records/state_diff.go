package records

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/manifest/document"
)

func newStateDiff(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c, all: true, putsBack: true}
	var raw bool
	cmd := &cobra.Command{
		Use:   "diff {MANIFEST | --state FILE} SERIAL [SERIAL]",
		Short: "Show how two versions of the state differ",
		Long: `Diff shows how the deployment differs from an earlier version, or two earlier versions
from each other: VMs, disks, addresses, stemcells, releases, and values of the
manifest. Of secrets, and of values that come from variables, it says only that they
changed. Bootstrap state backups lists the versions. With --raw, it prints the paths and
values of the state instead, as --json does with one object per line. With several
instances, it compares the record and all states, or the state of --instance.`,
		Example: "  bootstrap state diff manifest.yml 12\n  bootstrap state diff manifest.yml 12 15",
		RunE: func(cmd *cobra.Command, args []string) error {
			most := 2
			if len(args) > 0 {
				if _, err := strconv.Atoi(args[0]); err != nil { // the manifest
					most = min(most, len(args)-1)
				}
			}
			place, serials, err := choice.versions(cmd, args, 1, most)
			if err != nil {
				return err
			}
			list, err := place.Versions(cmd.Context())
			if err != nil {
				return err
			}
			before, after, err := versionsOf(place, list, serials)
			if err != nil {
				return err
			}
			if raw || c.JSON() {
				return printDifferences(c, before, after)
			}
			sides, err := place.Sides(cmd.Context(), list, before, after)
			if err != nil {
				return err
			}
			return printExplained(c, sides[0], sides[1])
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	cmd.Flags().BoolVar(&raw, "raw", false, "print the paths and values of the state, also digests")
	return cmd
}

// versionsOf returns the versions with two numbers, or with one number and the present one.
func versionsOf(place deployment.Place, list []*record.Version, serials []int) (before, after *record.Version, err error) {
	if before, err = place.Find(list, serials[0]); err != nil {
		return nil, nil, err
	}
	if len(serials) > 1 {
		after, err = place.Find(list, serials[1])
	} else {
		after, err = place.Present()
	}
	return before, after, err
}

// printExplained prints how two versions differ, for people.
func printExplained(c *cli.Console, before, after deployment.Side) error {
	lines, err := deployment.Explain(before, after)
	if err != nil {
		return err
	}
	if len(lines) == 0 {
		raw, err := deployment.Compare(before.Version, after.Version)
		if err != nil {
			return err
		}
		if lines = []string{"There is no difference"}; len(raw) > 0 {
			lines = []string{"There is no difference that matters to you: --raw prints what the states record"}
		}
	}
	c.Print(func(out *ui.Writer) {
		fmt.Fprintf(out, "%s -> %s\n", headOf(before.Version), headOf(after.Version))
		for _, line := range lines {
			ui.Say(out, line)
		}
	})
	return nil
}

// headOf describes a version on one line.
func headOf(v *record.Version) string {
	if v.Serial == 0 {
		return "now"
	}
	parts := []string{fmt.Sprintf("version %d", v.Serial)}
	var by []string
	for _, part := range []string{v.By, v.Command, ui.Moment(v.Written)} {
		if part != "" {
			by = append(by, part)
		}
	}
	return strings.Join(append(parts, "("+strings.Join(by, ", ")+")"), " ")
}

// DifferenceView is a value that two versions do not share, as --json prints it.
type DifferenceView struct {
	Instance string          `json:"instance,omitempty"` // GROUP/INDEX, of several
	Path     string          `json:"path"`
	Change   document.Change `json:"change"` // changed, added or removed
	Old      string          `json:"old,omitempty"`
	New      string          `json:"new,omitempty"`
}

// line returns a difference for people.
func (d DifferenceView) line() string {
	text := document.Difference{Path: d.Path, Kind: d.Change, Old: d.Old, New: d.New}.String()
	if d.Instance != "" {
		mark, rest, _ := strings.Cut(text, " ")
		text = mark + " " + d.Instance + ": " + rest
	}
	return text
}

func printDifferences(c *cli.Console, before, after *record.Version) error {
	list, err := deployment.Compare(before, after)
	if err != nil {
		return err
	}
	views := make([]DifferenceView, len(list))
	for i, d := range list {
		views[i] = DifferenceView{Instance: d.Instance, Path: d.Path, Change: d.Kind, Old: d.Old, New: d.New}
	}
	if c.JSON() {
		ui.PrintAll(c.Lines(), "difference", views)
		return nil
	}
	c.Print(func(out *ui.Writer) {
		for _, d := range views {
			fmt.Fprintln(out, d.line())
		}
		if len(views) == 0 {
			fmt.Fprintln(out, "There is no difference")
		}
	})
	return nil
}
