package cmd

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/ui"
	"bootstrap/cmd/usage"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/internal/sealed"
	"bootstrap/state"
	"bootstrap/state/team"
)

// stateKeyFlags adds --state-key to each command that has --state.
func (c *console) stateKeyFlags(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.stateKeyFlags(sub)
	}
	if cmd.Flags().Lookup("state") != nil {
		cmd.Flags().Var((*values.StateKey)(&c.stateKey), "state-key", "fingerprint of the `KEY` of the store (or BOOTSTRAP_STATE_KEY)")
	}
}

// givenKey returns what the person said of the state key: on the command line, in the
// environment, or in bootstrap.yml.
func (c *console) givenKey() (team.Given, error) {
	text := c.getenv("BOOTSTRAP_STATE_KEY")
	if c.stateKey != "" && (text == "" || !c.line.Untyped("state-key")) {
		text = c.stateKey
	}
	given, err := team.ParseGiven(text)
	if err != nil {
		return given, usage.Wrong(c.root, fmt.Errorf("BOOTSTRAP_STATE_KEY: %w", err))
	}
	if given.IsSecret() {
		c.redactor.Add(strings.TrimSpace(text))
	}
	return given, nil
}

// sayTrust says what this machine trusts from now on, also for commands that print only
// their result.
func (c *console) sayTrust(message string) {
	c.renderer(c.stderr)(report.Event{Time: time.Now(), Kind: report.Warning, Message: message})
}

// keyView is the state key of a store, for programs.
type keyView struct {
	Store       string `json:"store"`
	Fingerprint string `json:"fingerprint"`
	Key         string `json:"key,omitempty"` // with --secret
}

func newStateKey(c *console) *cobra.Command {
	var choice stateChoice
	var secret bool
	cmd := &cobra.Command{
		Use:   "key {MANIFEST | --state URL}",
		Short: "Print the fingerprint of the key with which a store is signed",
		Long: `Key prints the fingerprint of the state key, with which the machines of a team sign
what they write to their store. Compare it with a colleague, and write it into
bootstrap.yml as state_key: then no machine believes a store that somebody else has
signed. With --secret it prints the key itself, for BOOTSTRAP_STATE_KEY on a machine that
has no key to decrypt it with.`,
		Example: "  bootstrap state key manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := c.split(&choice, cmd, args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			s, err := stateStore(cmd.Context(), c, path, choice)
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
			if c.json {
				printLines(c, "state-key", []keyView{view})
				return nil
			}
			c.print(func(out *ui.Writer) { fmt.Fprintln(out, shown) })
			if !secret {
				c.warn("write this into bootstrap.yml: state_key: " + fingerprint)
			}
			return nil
		},
	}
	choice.flags(cmd.Flags(), false)
	cmd.Flags().BoolVar(&secret, "secret", false, "print the key itself, which is secret")
	return cmd
}

func newStateTrust(c *console) *cobra.Command {
	var choice stateChoice
	var ask asking
	cmd := &cobra.Command{
		Use:   "trust {MANIFEST | --state URL}",
		Short: "Believe what a store has, after looking at it",
		Long: `Trust shows what a store has, who signed it, and what is doubtful: documents without a
proof of their writer, as earlier versions of bootstrap wrote them, with a wrong one, or
older than this machine has seen, and another state key than before. It asks, and then
this machine trusts the key, and signs what is doubtful as it is. What the machines know
besides the state is removed if it is doubtful: the next deploy makes it again.

Whoever may write to the store may have changed it: compare the state with what is in
the cloud, and the fingerprint with that of a colleague.`,
		Example: "  bootstrap state trust manifest.yml --state s3://team/prod",
		RunE: func(cmd *cobra.Command, args []string) error {
			path, _, err := c.split(&choice, cmd, args, 0, 0)
			if err != nil {
				return err
			}
			c.started = true
			s, err := stateStore(cmd.Context(), c, path, choice)
			if err != nil {
				return err
			}
			return c.trust(cmd.Context(), s, ask)
		},
	}
	choice.flags(cmd.Flags(), true)
	ask.flags(cmd.Flags())
	return cmd
}

// trust asks whether a store is to be believed, and makes this machine believe it.
func (c *console) trust(ctx context.Context, s stateFile, ask asking) error {
	t := s.opts.Team
	found, err := t.Examine(ctx)
	if err != nil {
		return err
	}
	if !found.Doubtful() {
		return printDone(c, false, "", fmt.Sprintf("This machine believes what %s has: it is signed with the state key %s", s.name, found.Fingerprint))
	}
	lines := []string{fmt.Sprintf("this machine trusts the state key %s for %s", found.Fingerprint, s.name)}
	switch {
	case found.Made:
		lines[0] = fmt.Sprintf("a state key is made for %s, which has none that this machine can decrypt", s.name)
	case found.Trusted != "" && found.Trusted != found.Fingerprint:
		lines[0] += ", and not " + found.Trusted + " any more"
	}
	signs := false
	for _, d := range found.Documents {
		if d.Doubt != nil || d.Name == "state.json" {
			lines = append(lines, doubtOf(d))
		}
		signs = signs || d.Doubt != nil
	}
	if confirm := c.confirm(ask); confirm != nil {
		yes, err := confirm(ctx, deployer.Question{What: lines, Data: true})
		if err != nil {
			return err
		}
		if !yes {
			return &deployer.NotConfirmedError{}
		}
	}
	if signs {
		if _, err := t.Lock(ctx); err != nil {
			return err
		}
		defer func() {
			if err := t.Unlock(context.WithoutCancel(ctx)); err != nil {
				c.warn(err.Error())
			}
		}()
	}
	if err := t.Trust(ctx, found); err != nil {
		return err
	}
	for _, line := range lines[1:] {
		c.say(report.Info, line)
	}
	return printDone(c, true, fmt.Sprintf("This machine believes what %s has now: it is signed with the state key %s", s.name, found.Fingerprint), "")
}

// doubtOf says what a document of a store is, and what is done with it.
func doubtOf(d team.Seen) string {
	what := d.Name
	switch {
	case d.Name == "state.json":
		what += whatState(d.Content)
	case strings.HasSuffix(d.Name, ".age") && !sealed.IsSealed(d.Content):
		what += " (which is not encrypted)"
	}
	if d.Writer != "" {
		what += fmt.Sprintf(", which %s wrote at %s,", d.Writer, d.Written)
	}
	switch {
	case d.Doubt == nil:
		return what + " is believed"
	case d.Doubt.Why == team.Older:
		return what + " is believed, although this machine has seen a later one"
	case d.Name == "kept.json.age":
		return what + " is removed: the next deploy makes it again"
	case d.Doubt.Why == team.Unproven:
		return what + ", which nobody has signed, is signed as it is"
	}
	return what + ", whose proof is wrong, is signed as it is"
}

// whatState says what a state records.
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
