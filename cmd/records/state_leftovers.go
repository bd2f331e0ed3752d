package records

import (
	"context"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer/report"
	"bootstrap/state"
)

func newStateLeftovers(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var forget, adopt string
	cmd := &cobra.Command{
		Use:   "leftovers {MANIFEST | --state FILE} [--forget ID | --adopt ID [CID]]",
		Short: "List, adopt or forget what interrupted runs may have left in the cloud",
		Long: `Leftovers lists CPI calls with an unknown outcome: the run was interrupted, or the
result could not be recorded. Look in the cloud for what they may have created. If it
exists, record it with --adopt: a VM becomes the current one, a disk is kept without
being used. If not, remove the entry with --forget. Nothing in the cloud is changed.
The beginning of an ID is enough.

A deploy or delete that calls the CPI removes entries that it finds deleted or
recorded, and repeats deletes that did not finish.`,
		Example: "  bootstrap state leftovers manifest.yml\n" +
			"  bootstrap state leftovers manifest.yml --adopt 3f0c vol-4e5f6a7b\n" +
			"  bootstrap state leftovers manifest.yml --forget 3f0c",
		RunE: func(cmd *cobra.Command, args []string) error {
			cids := 0
			if adopt != "" {
				cids = 1
			}
			path, rest, err := choice.split(cmd, args, 0, cids)
			if err != nil {
				return err
			}
			if err := checkCID("--adopt", strings.Join(rest, "")); err != nil {
				return err
			}
			c.Start()
			switch {
			case forget != "":
				return choice.change(cmd.Context(), path, false, func(st *state.State) error {
					l, err := st.ForgetLeftover(forget)
					if err == nil {
						c.Say(report.Info, "Forgotten: "+l.Method+" "+l.ID)
					}
					return err
				})
			case adopt != "":
				cid := strings.Join(rest, "")
				return choice.change(cmd.Context(), path, false, func(st *state.State) error {
					l, err := st.AdoptLeftover(adopt, cid, time.Now())
					if err == nil {
						c.Say(report.Info, "Adopted: "+l.CID)
					}
					return err
				})
			}
			return listLeftovers(cmd.Context(), &choice, path)
		},
	}
	f := cmd.Flags()
	choice.flags(f, true)
	choice.instanceFlag(f)
	f.StringVar(&forget, "forget", "", "remove the leftover with this `ID` from the list")
	f.StringVar(&adopt, "adopt", "", "record what the call with this `ID` created, under its CID")
	return cmd
}

func listLeftovers(ctx context.Context, choice *stateChoice, path string) error {
	c := choice.c
	s, err := choice.at(ctx, path)
	if err != nil {
		return err
	}
	st, err := s.read(ctx)
	if err != nil {
		return err
	}
	list := ui.LeftoversOf(st)
	if c.JSON() {
		ui.PrintAll(c.Lines(), "leftover", list)
		return nil
	}
	c.Print(func(out *ui.Writer) { ui.Leftovers(out, list) })
	return nil
}
