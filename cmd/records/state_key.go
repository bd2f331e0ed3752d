package records

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/internal/sealed"
	"bootstrap/state"
	"bootstrap/state/team"
)

// keyView is the state key of a store, for programs.
type keyView struct {
	Store       string `json:"store"`
	Fingerprint string `json:"fingerprint"`
	Key         string `json:"key,omitempty"` // with --secret
}

func newStateKey(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var secret bool
	cmd := &cobra.Command{
		Use:   "key {MANIFEST | --state URL}",
		Short: "Print the fingerprint of the key with which a store is signed",
		Long: `Key prints the fingerprint of the state key, with which a team signs what it writes
to its store. Compare it with a colleague, and write it into bootstrap.yml as
state_key: then no machine trusts a store that somebody else has signed. With
--secret it prints the key itself, for BOOTSTRAP_STATE_KEY on a machine that cannot
decrypt it. See docs/team.md.`,
		Example: "  bootstrap state key manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.openStore(cmd, args)
			if err != nil {
				return err
			}
			text, fingerprint, err := s.opts.Team.KeyText(cmd.Context())
			if err != nil {
				return err
			}
			if text == "" {
				return fmt.Errorf("%s has no state key that this machine knows: the first command that writes there makes one", s.name)
			}
			view := keyView{Store: s.name, Fingerprint: fingerprint}
			shown := fingerprint
			if secret {
				view.Key, shown = text, text
			}
			if c.JSON() {
				c.PrintObject("state-key", view)
				return nil
			}
			c.Print(func(out *ui.Writer) { fmt.Fprintln(out, shown) })
			if !secret {
				c.Warn("write this into bootstrap.yml: state_key: " + fingerprint)
			}
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	cmd.Flags().BoolVar(&secret, "secret", false, "print the key itself, which is secret")
	return cmd
}

func newStateTrust(c *cli.Console) *cobra.Command {
	choice := stateChoice{c: c}
	var ask cli.Asking
	cmd := &cobra.Command{
		Use:   "trust {MANIFEST | --state URL}",
		Short: "Trust the documents in a store, after checking them",
		Long: `Trust shows the documents in a store, who signed them, and which are doubtful: a
document without a signature, as earlier versions wrote it, with a wrong one, or older
than one that this machine has seen. It also shows a state key that has changed. It
asks, and then this machine trusts the key and signs the doubtful documents unchanged.
A doubtful kept.json.age, links.json.age or inputs.json.age is removed: the next deploy
makes it again.

Anybody who can write to the store can have changed it: compare the state with the
cloud, and the fingerprint with that of a colleague.`,
		Example: "  bootstrap state trust manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := choice.openStore(cmd, args)
			if err != nil {
				return err
			}
			return trust(cmd.Context(), c, s, ask)
		},
	}
	choice.flags(cmd.Flags(), true)
	ask.Flags(cmd.Flags())
	return cmd
}

// trust asks whether this machine shall trust the documents in a store, and signs the
// doubtful ones.
func trust(ctx context.Context, c *cli.Console, s stateFile, ask cli.Asking) error {
	t := s.opts.Team
	found, err := t.Examine(ctx)
	if err != nil {
		return err
	}
	if !found.Doubtful() {
		return printDone(c, false, "", fmt.Sprintf("This machine trusts the documents in %s: they are signed with the state key %s", s.name, found.Fingerprint))
	}
	lines := []string{fmt.Sprintf("this machine trusts the state key %s for %s", found.Fingerprint, s.name)}
	switch {
	case found.Made:
		lines[0] = fmt.Sprintf("a new state key is made for %s, because this machine can decrypt none of it", s.name)
	case found.Trusted != "" && found.Trusted != found.Fingerprint:
		lines[0] += ", and not " + found.Trusted + " any more"
	}
	signs := false
	for _, d := range found.Documents {
		if d.Doubt != nil || path.Base(d.Name) == "state.json" {
			lines = append(lines, doubtOf(d))
		}
		signs = signs || d.Doubt != nil
	}
	if err := cli.Agreed(ctx, c.Confirm(ask), deployer.Question{What: lines, Data: true}); err != nil {
		return err
	}
	if signs {
		for _, part := range []*team.Copy{t, t.Record()} {
			if _, err := part.Lock(ctx); err != nil {
				return err
			}
			defer func() {
				if err := part.Unlock(context.WithoutCancel(ctx)); err != nil {
					c.Warn(err.Error())
				}
			}()
		}
	}
	if err := t.Trust(ctx, found); err != nil {
		return err
	}
	for _, line := range lines[1:] {
		c.Say(report.Info, line)
	}
	return printDone(c, true, fmt.Sprintf("This machine trusts the documents in %s now: they are signed with the state key %s", s.name, found.Fingerprint), "")
}

// doubtOf describes a document of a store, and what happens to it.
func doubtOf(d team.Seen) string {
	what := d.Name
	switch {
	case path.Base(d.Name) == "state.json":
		what += whatState(d.Content)
	case strings.HasSuffix(d.Name, ".age") && !sealed.IsSealed(d.Content):
		what += " (which is not encrypted)"
	}
	if d.Writer != "" {
		what += fmt.Sprintf(", which %s wrote at %s,", d.Writer, d.Written)
	}
	switch {
	case d.Doubt == nil:
		return what + " is trusted"
	case d.Doubt.Why == team.Older:
		return what + " is trusted, although this machine has seen a later one"
	case d.Remade:
		return what + " is removed: the next deploy makes it again"
	case d.Doubt.Why == team.Unproven:
		return what + ", which nobody has signed, is signed as it is"
	}
	return what + ", whose proof is wrong, is signed as it is"
}

// whatState describes the content of a state.
func whatState(content []byte) string {
	st, _, err := state.Decode(content)
	var moved *state.MovedError
	switch {
	case errors.As(err, &moved):
		return fmt.Sprintf(" (it was moved to %s)", moved.To)
	case err != nil:
		return " (which cannot be read)"
	}
	if owns := st.Resources(); len(owns) > 0 {
		return fmt.Sprintf(" (version %d: %s)", st.Own.Serial, strings.Join(owns, ", "))
	}
	return fmt.Sprintf(" (version %d, which records nothing)", st.Own.Serial)
}
