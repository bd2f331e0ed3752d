package records

import (
	"context"
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
	choice := stateChoice{c: c, all: true}
	cmd := &cobra.Command{
		Use:   "diff {MANIFEST | --state FILE} SERIAL [SERIAL]",
		Short: "Show how two versions of the state differ",
		Long: `Diff shows how the state differs from an earlier version, or two earlier versions from
each other. Bootstrap state backups lists them. With --json, there is one object per
line. With several instances, it compares the record and all states, or the state of
--instance.`,
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
			before, after, err := versionsOf(cmd.Context(), place, serials)
			if err != nil {
				return err
			}
			return printDifferences(c, before, after)
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	return cmd
}

// versionsOf returns the versions with two numbers, or with one number and the present one.
func versionsOf(ctx context.Context, place deployment.Place, serials []int) (before, after *record.Version, err error) {
	list, err := place.Versions(ctx)
	if err != nil {
		return nil, nil, err
	}
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
