package cli

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/values"
	"bootstrap/state/team"
)

// FullLine returns the command line, completed with omitted values and the flags of the
// environment. The command also reports the error.
func (c *Console) FullLine(root *cobra.Command) (environment.Line, error) {
	if len(c.Args) > 0 && strings.HasPrefix(c.Args[0], cobra.ShellCompRequestCmd) {
		return environment.Line{Args: append(c.Args[:1:1], environment.CompleteWords(root, c.Args[1:], c.Getenv)...)}, nil
	}
	c.line.full, c.line.wrong = environment.Complete(root, c.Args, c.Getenv)
	return c.line.full, c.line.wrong
}

// Begin adds the flags that every command accepts.
func (c *Console) Begin(root *cobra.Command) {
	c.everywhereFlags(root.PersistentFlags())
	c.line.root = root
}

// Prepare completes the commands: it adds --state-key to each with --state, and makes
// each check its command line.
func (c *Console) Prepare(root *cobra.Command) {
	c.stateKeyFlags(root)
	c.checkArgs(root)
}

// checkArgs makes every command check for conflicting flags before it checks its
// arguments, and store its command line.
func (c *Console) checkArgs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.checkArgs(sub)
	}
	if !cmd.Runnable() {
		return
	}
	positional := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if c.line.wrong != nil {
			code, _ := exit.Judge(c.line.wrong)
			c.line.understood = code != exit.Failed // the exit code does not report a wrong command line
			return c.line.wrong
		}
		if err := errors.Join(refuseBoshFlags(cmd), checkConflicts(cmd, c.line.full.Untyped)); err != nil {
			return err
		}
		c.line.shown = c.withoutValues(cmd, args)
		var err error
		if c.given.neverAsks, err = c.asksNobody(cmd); err != nil {
			return err
		}
		if !c.asTerminal {
			if c.asTerminal, err = c.switchedOn("BOSH_TTY"); err != nil {
				return err
			}
		}
		if positional != nil {
			if err := positional(cmd, args); err != nil {
				return err
			}
		}
		return c.refuseOverwriting(cmd, args)
	}
}

// withoutValues returns the command line for other users: the command, the manifest, the
// names of the flags, and numbers. Every other word may be a secret.
func (c *Console) withoutValues(cmd *cobra.Command, args []string) string {
	words := []string{ShortPath(cmd)}
	if len(args) > 0 && Exists(args[0]) {
		words = append(words, args[0])
	}
	ofRun := cmd.Flags().Changed("record") // a run about several instances has started this process
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if c.line.full.Untyped(f.Name) || ofRun && (f.Hidden || slices.Contains(ofRuns(), f.Name)) {
			return
		}
		word := "--" + f.Name
		switch f.Value.Type() {
		case "bool":
		case "int":
			word += "=" + f.Value.String()
		default:
			word += "=…"
		}
		words = append(words, word)
	})
	return strings.Join(words, " ")
}

// ofRuns returns the flags that a run on several instances adds to the command of each
// instance: no person has typed them.
func ofRuns() []string {
	return []string{"bootstrap-yml", "events", "instance", "lock-wait", "yes"}
}

// asksNobody reports whether no question may be asked: --yes, -n, or
// BOSH_NON_INTERACTIVE.
func (c *Console) asksNobody(cmd *cobra.Command) (bool, error) {
	yes, _ := cmd.Flags().GetBool("yes")
	silent, _ := cmd.Flags().GetBool("non-interactive")
	if yes || silent {
		return true, nil
	}
	return c.switchedOn("BOSH_NON_INTERACTIVE")
}

// switchedOn returns the value of a boolean variable, in the way of the bosh CLI.
func (c *Console) switchedOn(name string) (bool, error) {
	value := c.Getenv(name)
	if value == "" {
		return false, nil
	}
	on, err := strconv.ParseBool(value)
	if err != nil {
		return false, fmt.Errorf("%s is %q: expected true or false", name, value)
	}
	return on, nil
}

// stateKeyFlags adds --state-key to each command that has --state.
func (c *Console) stateKeyFlags(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.stateKeyFlags(sub)
	}
	if cmd.Flags().Lookup("state") != nil {
		cmd.Flags().Var((*values.StateKey)(&c.given.stateKey), "state-key", "fingerprint of the `KEY` of the store (or BOOTSTRAP_STATE_KEY)")
	}
}

// givenKey returns the state key from the command line, the environment, or
// bootstrap.yml.
func (c *Console) givenKey() (team.Given, error) {
	text := c.Getenv("BOOTSTRAP_STATE_KEY")
	if c.given.stateKey != "" && (text == "" || !c.line.full.Untyped("state-key")) {
		text = c.given.stateKey
	}
	given, err := team.ParseGiven(text)
	if err != nil {
		return given, WrongUsage(c.line.root, fmt.Errorf("BOOTSTRAP_STATE_KEY: %w", err))
	}
	if given.IsSecret() {
		c.Redactor.Add(strings.TrimSpace(text))
	}
	return given, nil
}

// Manifest returns the manifest among the arguments; empty: only the state is named.
func Manifest(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
