package records

import (
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
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
			path, rest, err := choice.split(cmd, args, 1, most)
			if err != nil {
				return err
			}
			var serials []int
			for _, arg := range rest {
				serial, err := strconv.Atoi(arg)
				if err != nil {
					return errors.New("give the serial number of a version, see bootstrap state backups")
				}
				serials = append(serials, serial)
			}
			c.Start()
			s, err := choice.at(cmd.Context(), path)
			if err != nil {
				return err
			}
			place, several, err := choice.ofSeveral(cmd.Context(), s)
			switch {
			case err != nil:
				return err
			case several:
				return diffVersions(cmd.Context(), c, place, serials)
			}
			list, err := s.versions(cmd.Context())
			if err != nil {
				return err
			}
			var texts [][]byte
			for _, serial := range serials {
				st, err := versionOf(list, serial, s.name)
				if err != nil {
					return err
				}
				if texts, err = addText(texts, st); err != nil {
					return err
				}
			}
			if len(texts) == 1 {
				st, err := s.read()
				if err != nil {
					return err
				}
				if texts, err = addText(texts, st); err != nil {
					return err
				}
			}
			differences, err := document.Diff(texts[0], texts[1])
			if err != nil {
				return err
			}
			printDifferences(c, differences)
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	choice.instanceFlag(cmd.Flags())
	return cmd
}

func versionOf(list []file.Version, serial int, name string) (state.State, error) {
	i := slices.IndexFunc(list, func(v file.Version) bool { return v.Serial == serial })
	if i < 0 {
		return state.State{}, fmt.Errorf("there is no version %d of %s: bootstrap state backups lists them", serial, name)
	}
	return list[i].State, list[i].Err
}

func addText(texts [][]byte, st state.State) ([][]byte, error) {
	text, err := st.Encode()
	return append(texts, text), err
}

// DifferenceView is a value that two versions do not share, as --json prints it.
type DifferenceView struct {
	Instance string          `json:"instance,omitempty"` // GROUP/INDEX, of several
	Path     string          `json:"path"`
	Change   document.Change `json:"change"` // changed, added or removed
	Old      string          `json:"old,omitempty"`
	New      string          `json:"new,omitempty"`
}

func printDifferences(c *cli.Console, list []document.Difference) {
	views := make([]DifferenceView, len(list))
	for i, d := range list {
		views[i] = DifferenceView{Path: d.Path, Change: d.Kind, Old: d.Old, New: d.New}
	}
	showDifferences(c, views)
}

func showDifferences(c *cli.Console, views []DifferenceView) {
	if c.JSON() {
		ui.PrintAll(c.Lines(), "difference", views)
		return
	}
	c.Print(func(out *ui.Writer) {
		for _, d := range views {
			fmt.Fprintln(out, d.line())
		}
		if len(views) == 0 {
			fmt.Fprintln(out, "There is no difference")
		}
	})
}
