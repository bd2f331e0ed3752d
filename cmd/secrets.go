package cmd

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/secrets"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/usage"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/document"
	"bootstrap/state/team"
)

func newSecrets(c *console) *cobra.Command {
	cmd := secrets.Commands(secretsOf(c))
	cmd.Args = usage.NoArgs
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { c.quiet = true; return cmd.Help() }
	for _, sub := range cmd.Commands() {
		if sub.Args == nil {
			sub.Args = usage.NoArgs
		}
	}
	return cmd
}

// secretsOf returns what commands that encrypt and decrypt use of the console.
func secretsOf(c *console) secrets.Console {
	return secrets.Console{
		Env: c.env, Getenv: c.getenv, Stdin: c.stdin, Stdout: c.stdout, Stderr: c.stderr,
		Start:    func() { c.started = true },
		Never:    func() bool { return c.neverAsks },
		Screen:   func() (io.Writer, func(), error) { return c.screen() },
		Asking:   c.asking.Store,
		Leave:    c.left.Store,
		Flags:    func() (*environment.File, error) { return environment.Here(c.getenv) },
		Stopped:  &deployer.NotConfirmedError{Interrupted: true},
		Hide:     c.redactor.Add,
		Say:      func(message string) { c.say(report.Info, message) },
		Warn:     c.warn,
		OneStore: oneStore,
		Open:     openVars(c),
		Rekey:    instance.RekeyShared,
		Done: func(r *secrets.Result) {
			if c.json {
				printLines(c, "secrets", []*secrets.Result{r})
				return
			}
			c.print(func(out *ui.Writer) { ui.Say(out, r.Text()) })
		},
		Print: func(text []byte) { c.product("document", string(text)) },
		PrintPart: func(ctx context.Context, text []byte, path string) error {
			doc, err := document.Evaluate(ctx, "-", document.Options{Stdin: bytes.NewReader(text)})
			if err != nil {
				return err
			}
			return c.printDocument(doc, true, path)
		},
		Confirm: func(ctx context.Context, lines ...string) (bool, error) {
			confirm := c.confirm(asking{})
			if confirm == nil { // nobody is asked whether to go on
				return false, nil
			}
			return confirm(ctx, deployer.Question{What: lines})
		},
	}
}

// openVars opens the store of a team for its vars store.
func openVars(c *console) func(context.Context, string, time.Duration, *sealed.Keys) (*team.Copy, error) {
	return func(ctx context.Context, address string, wait time.Duration, keys *sealed.Keys) (*team.Copy, error) {
		if !team.IsAddress(address) {
			return nil, errNoStore
		}
		home, err := c.boshHome()
		if err != nil {
			return nil, err
		}
		return c.openTeam(ctx, instance.Config{Home: home, LockWait: wait}, address, &instance.Options{Inputs: document.Options{Keys: keys}})
	}
}

// oneStore requires one argument, the vars store.
func oneStore(cmd *cobra.Command, args []string) error {
	switch len(args) {
	case 0:
		return fmt.Errorf("%s needs a vars store: %s", usage.ShortPath(cmd), usage.Form(cmd))
	case 1:
		return nil
	}
	return usage.TooMany(cmd, args)
}
