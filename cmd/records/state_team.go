package records

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployment/record"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

func newStatePush(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var force bool
	cmd := &cobra.Command{
		Use:   "push {MANIFEST | --state URL}",
		Short: "Send this machine's state to the store, if a run could not",
		Long: `Push sends this machine's copy of the state to its store, after a run that could not
send it. It refuses if the store has changed since. Every other command that writes
the state does the same first.

If the store has lost documents, push puts back what this machine has: the state or
the record and the states of all instances, the vars store, the state key, and the
versions; or the newest version that the history of the store still has. A state that
a delete has removed is put back only with --force.`,
		Example: "  bootstrap state push manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.openStore(cmd, args)
			if err != nil {
				return err
			}
			did, err := s.push(cmd.Context(), c, force)
			if err != nil {
				return err
			}
			return printDone(c, did, "The state is in "+s.name+" now", s.name+" has the state already")
		},
	}
	choice.flags(cmd.Flags(), true)
	cmd.Flags().BoolVar(&force, "force", false, "replace the state in the store, which stays in the history")
	return cmd
}

func newStatePull(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "pull {MANIFEST | --state URL}",
		Short: "Discard changes of the state that only this machine has",
		Long: `Pull replaces this machine's copy of the state by that of its store. If the copy has
changes that were not sent, it is kept as a file with the ending .unsent; VMs and disks
that only this file records stay in the cloud. Without such changes every command
does the same first.`,
		Example: "  bootstrap state pull manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.openStore(cmd, args)
			if err != nil {
				return err
			}
			var kept []string
			err = s.eachPart(cmd.Context(), func(opts file.Options) error {
				path, err := file.Pull(cmd.Context(), opts)
				if path != "" {
					kept = append(kept, path)
				}
				return err
			})
			if err != nil {
				return err
			}
			return printDone(c, len(kept) > 0, "This machine has the state of "+s.name+"; its own version is kept as "+strings.Join(kept, ", "), "This machine has the state of "+s.name)
		},
	}
	choice.flags(cmd.Flags(), true)
	return cmd
}

func newStateUnlock(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:   "unlock {MANIFEST | --state URL}",
		Short: "Take the lock of a store from a run that cannot end",
		Long: `Unlock names who holds the lock of the store, asks, and takes it away. A run that
still works stops before its next step and cannot write any more; what it did is
recorded only on its machine. The lock of a killed run ends by itself: at once on the
same machine, else after a minute.`,
		Example: "  bootstrap state unlock manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.openStore(cmd, args)
			if err != nil {
				return err
			}
			if err := file.RefreshPart(cmd.Context(), s.opts.Team.Record()); err != nil {
				return err
			}
			parts, err := s.opts.Team.Parts(cmd.Context())
			if err != nil {
				return err
			}
			return unlock(cmd.Context(), c, s, parts, ask)
		},
	}
	choice.flags(cmd.Flags(), false)
	ask.Flags(cmd.Flags())
	return cmd
}

// unlock takes the locks of parts of a store from the runs that hold them.
func unlock(ctx context.Context, c *cli.Console, s stateFile, parts []*team.Copy, ask cli.Asking) error {
	var locked []*team.Copy
	var fences []int
	var questions, done []string
	for _, part := range parts {
		held, err := part.Holder(ctx)
		if err != nil {
			return err
		}
		if held == nil {
			continue
		}
		from := held.Holder.String()
		if held.Holder.User == "" {
			from = "a run that is unknown, because the lock is damaged"
		}
		locked, fences = append(locked, part), append(fences, held.Fence)
		questions = append(questions, fmt.Sprintf("the lock of %s is taken from %s", part.Place(), from))
		done = append(done, fmt.Sprintf("The lock of %s was taken from %s", part.Place(), from))
	}
	if len(locked) == 0 {
		return printDone(c, false, "", s.name+" is not locked")
	}
	if err := cli.Agreed(ctx, c.Confirm(ask), deployer.Question{What: questions}); err != nil {
		return err
	}
	for i, part := range locked {
		if err := part.Break(ctx, fences[i]); err != nil {
			return err
		}
	}
	return printDone(c, true, strings.Join(done, "\n"), "")
}

// eachPart calls do for the parts of a store, the record first.
func (s stateFile) eachPart(ctx context.Context, do func(file.Options) error) error {
	parts, err := s.opts.Team.Parts(ctx)
	if err != nil {
		return err
	}
	if !record.Exists(s.opts.Team.RecordFolder()) {
		parts = slices.DeleteFunc(parts, (*team.Copy).IsRecord)
	} else {
		parts[0], parts[1] = parts[1], parts[0]
	}
	for _, part := range parts {
		opts := s.opts
		opts.Team = part
		if err := do(opts); err != nil {
			return err
		}
	}
	return nil
}

func newStateMove(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	cmd := &cobra.Command{
		Use:   "move {MANIFEST | --state FROM} TO",
		Short: "Move the state to another file, or to the store of a team",
		Long: `Move copies the state to a path or to a store: s3://BUCKET/PREFIX,
postgres://USER@HOST/DATABASE?environment=NAME or https://HOST/PATH. It reads the
copy back, and replaces the old state by a note that every run refuses, also one of
create-env. From store to store it also copies the vars store and what is encrypted for
other machines. Otherwise the vars store stays where it is: bootstrap secrets init copies
a file to a store. The states of several instances, and of compilation VMs that a killed
run has left, move together: if it is killed, the same command continues.`,
		Example: "  bootstrap state move manifest.yml s3://team/prod\n  bootstrap state move --state s3://team/prod prod-state.json",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, rest, err := choice.split(cmd, args, 1, 1)
			if err != nil {
				return err
			}
			target := rest[0]
			if !team.IsAddress(target) {
				if target, err = filepath.Abs(target); err != nil {
					return err
				}
			}
			c.Start()
			from, err := stateAt(cmd.Context(), c, path, choice.wait)
			if err != nil {
				return err
			}
			to, err := stateAt(cmd.Context(), c, target, choice.wait)
			if err != nil {
				return err
			}
			if from.path == to.path {
				return fmt.Errorf("the state is in %s already", to.name)
			}
			return from.move(cmd.Context(), c, to)
		},
	}
	choice.flags(cmd.Flags(), true)
	return cmd
}

// DoneView is the result of a command that does one thing, in the form of --json.
type DoneView struct {
	Done    bool   `json:"done"` // false: there was nothing to do
	Message string `json:"message"`
}

// printDone prints what a command did, or why it did nothing.
func printDone(c *cli.Console, did bool, yes, no string) error {
	text := no
	if did {
		text = yes
	}
	if c.JSON() {
		c.PrintObject("done", DoneView{did, text})
		return nil
	}
	c.Print(func(out *ui.Writer) { ui.Say(out, cmp.Or(text, "Done")) })
	return nil
}
