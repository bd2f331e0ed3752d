package records

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/state/file"
)

func newStateRm(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c, all: true, putsBack: true}
	var force bool
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:   "rm {MANIFEST | --state FILE}",
		Short: "Remove the state file, without deleting anything in the cloud",
		Long: `Rm removes a state file that records nothing. With --force it also removes one that
records something or is damaged: then VM, disks and stemcells stay in the cloud
without a record. On a terminal it asks first. The backups stay, and bootstrap state
restore brings the file back. To delete what a state file records, use bootstrap
delete. Of several instances it removes the record and all states, with those of
compilation VMs that a killed run has left, or with --instance one state.`,
		Example: "  bootstrap state rm manifest.yml",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.open(cmd, args)
			if err != nil {
				return err
			}
			if s.lost != nil && (!force || s.lost.OnlyVars) {
				return s.lost
			}
			many := false
			if choice.one.Instance == "" {
				if many, err = s.hasParts(cmd.Context()); err != nil {
					return err
				}
			}
			switch confirm := c.Confirm(ask); {
			case s.lost != nil && s.lost.Record() && choice.one.Instance == "":
				err = forgetLost(cmd.Context(), s, confirm)
			case many:
				err = discardAll(cmd.Context(), s, force, confirm)
			default:
				err = discardOne(cmd.Context(), s, force, confirm)
				if force {
					err = choice.forgetMissing(cmd.Context(), s, err)
				}
			}
			if err != nil {
				return err
			}
			if c.JSON() {
				c.PrintObject("removed", RemovedView{s.name})
				return nil
			}
			c.Print(func(out *ui.Writer) { fmt.Fprintln(out, "Removed "+s.name) })
			return nil
		},
	}
	choice.flags(cmd.Flags(), true)
	choice.instanceFlag(cmd.Flags())
	ask.Flags(cmd.Flags())
	cmd.Flags().BoolVar(&force, "force", false, "also remove a file that records something or is damaged")
	return cmd
}

// RemovedView is a removed state file, in the form of --json.
type RemovedView struct {
	Path string `json:"path"`
}

// forgetLost records that a deployment is deleted whose record the store has lost.
func forgetLost(ctx context.Context, s stateFile, confirm func(context.Context, deployer.Question) (bool, error)) error {
	if confirm != nil {
		what := "the record of the instances in " + s.name + " is not put back; VMs and disks that exist stay in the cloud"
		if err := cli.Agreed(ctx, confirm, deployer.Question{What: []string{what}}); err != nil {
			return err
		}
	}
	return deployment.ForgetLost(ctx, s.place())
}

// hasParts reports whether the place has more than one state: those of several instances, or
// of compilation VMs.
func (s stateFile) hasParts(ctx context.Context) (bool, error) {
	if s.hasRecord() {
		return true, nil
	}
	count, err := instance.Options{Team: s.opts.Team, StateFile: s.path}.WorkersLeft(ctx)
	return count > 0, err
}

// discardAll removes the record and the states of a deployment.
func discardAll(ctx context.Context, s stateFile, force bool, confirm func(context.Context, deployer.Question) (bool, error)) error {
	var agree func([]string) error
	if force {
		agree = func(owned []string) error {
			if confirm == nil || len(owned) == 0 {
				return nil
			}
			what := "all states in " + s.name + " are removed; these stay in the cloud without a record: " + strings.Join(owned, ", ")
			return cli.Agreed(ctx, confirm, deployer.Question{What: []string{what}})
		}
	}
	return deployment.Discard(ctx, s.place(), agree)
}

// discardOne removes one state.
func discardOne(ctx context.Context, s stateFile, force bool, confirm func(context.Context, deployer.Question) (bool, error)) error {
	if force {
		if err := confirmForgotten(ctx, s, confirm); err != nil {
			return err
		}
	}
	return file.Discard(ctx, s.path, force, s.opts)
}

// forgetMissing makes the record of several instances forget a state that was lost together
// with its versions. err is what the removal of the state returned.
func (s *stateChoice) forgetMissing(ctx context.Context, at stateFile, err error) error {
	of := s.one.Of
	if _, missing := errors.AsType[*file.MissingError](err); !missing || of == nil || of.Instance.StateSerial == 0 {
		return err
	}
	return record.ForgetState(ctx, of.Record.Dir(), of.Instance.ID, at.opts.Holder)
}

// confirmForgotten asks before the only record of a VM or disk is removed.
func confirmForgotten(ctx context.Context, s stateFile, confirm func(context.Context, deployer.Question) (bool, error)) error {
	if confirm == nil {
		return nil // the state need not be readable
	}
	what := "the state file " + s.name + " is removed; it cannot be read, and what it records stays in the cloud"
	if st, err := s.read(ctx); err == nil {
		owned := st.Owned()
		if len(owned) == 0 {
			return nil
		}
		what = "the state file " + s.name + " is removed; these stay in the cloud without a record: " + strings.Join(owned, ", ")
	}
	return cli.Agreed(ctx, confirm, deployer.Question{What: []string{what}})
}
