package secrets

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/internal/sealed"
	"bootstrap/manifest/document"
)

// commands are the subcommands of bootstrap secrets, with their console.
type commands struct{ *cli.Console }

// New returns the command secrets with its subcommands.
func New(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{Use: "secrets", Short: "Encrypt, edit and print a vars store", Args: cli.NoArgs, RunE: c.Help}
	of := commands{c}
	cmd.AddCommand(of.newInit(), of.newEdit(), of.newRekey(), of.newDecrypt())
	return cmd
}

func (c commands) newInit() *cobra.Command {
	var asked Init
	var address string
	cmd := &cobra.Command{
		Use:   "init [--vars-store FILE] [--state URL]",
		Short: "Make an identity, and encrypt a vars store",
		Long: `Init makes your identity, ~/.config/bootstrap/identity.txt, unless you have one (a
key of SSH or of sops will do), and prints your public recipient. With --vars-store
it makes an encrypted vars store, FILE.age unless FILE ends so, for you and each
--recipient; if FILE exists, it encrypts it and then removes the plain file. A
bootstrap.yml beside it or in this folder gets the new name. With --state, the vars
store is made in the store of a team, with the values of FILE if that is given. See
docs/secrets.md.`,
		Example: "  bootstrap secrets init --vars-store creds.yml\n" +
			"  bootstrap secrets init --vars-store creds.yml --recipient \"age1… anna\" --recipient bert.pub\n" +
			"  bootstrap secrets init --state s3://team/prod --vars-store creds.yml",
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked.Passphrase && len(asked.Keys.Recipients) > 0 {
				return errors.New("--passphrase and --recipient cannot be used together: a file has either a passphrase or recipients")
			}
			c.Start()
			if address != "" {
				to, err := c.find(cmd.Context(), address, 0, asked.Keys)
				if err != nil {
					return err
				}
				asked.Copy, asked.To = to.Path, to.Team
			}
			return c.done(asked.Run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	asked.Keys = c.KeysOf(f)
	cli.RecipientFlag(f, asked.Keys)
	f.StringVar(&address, "state", "", "make the vars store of the state at this `URL`")
	f.StringVar(&asked.Store, "vars-store", "", "the vars store: this YAML `FILE`")
	f.BoolVar(&asked.Passphrase, "passphrase", false, "encrypt with a passphrase (or BOOTSTRAP_PASSPHRASE)")
	return cmd
}

func (c commands) newEdit() *cobra.Command {
	asked := Edit{Env: c.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Memory: cli.Memory, Say: c.inform, Leave: c.Signals.Leave}
	var address string
	cmd := &cobra.Command{
		Use:   "edit [STORE | --state URL]",
		Short: "Edit an encrypted vars store with your editor",
		Long: `Edit opens the values in $VISUAL or $EDITOR, in memory if this machine has such a
folder, checks them, and encrypts them for the same recipients. It does not overwrite
changes that another process makes during the edit: your text is then kept beside
them, encrypted. Without STORE it is the vars store of bootstrap.yml in this folder.`,
		Example: "  bootstrap secrets edit creds.yml.age\n  bootstrap secrets edit --state s3://team/prod",
		Args:    c.oneStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			var err error
			if asked.Store, err = c.place(cmd.Context(), args, address, 0, asked.Keys); err != nil {
				return err
			}
			asked.Editor = cmp.Or(c.Getenv("VISUAL"), c.Getenv("EDITOR"))
			if c.CanAsk() {
				asked.Again = func(ctx context.Context, wrong error) (bool, error) {
					return c.confirm(ctx, wrong.Error(), "the editor is opened again with your text")
				}
			}
			return c.done(asked.Run(cmd.Context()))
		},
	}
	asked.Keys = c.KeysOf(cmd.Flags())
	stateFlag(cmd.Flags(), &address)
	return cmd
}

func (c commands) newRekey() *cobra.Command {
	var asked Rekey
	var address string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "rekey [STORE | --state URL] [--add RECIPIENT]... [--remove RECIPIENT]...",
		Short: "Change who can read an encrypted vars store",
		Long: `Rekey encrypts the vars store again, to more or fewer recipients: age or SSH public
keys, maybe with a comment, or files of them; --remove also takes the comment alone.
A removed person can still read earlier copies: give the values that matter new ones
with bootstrap variables rotate. Without flags it lists who can read the store.
Without STORE it is the vars store of bootstrap.yml in this folder.`,
		Example: "  bootstrap secrets rekey creds.yml.age --add \"age1… anna\" --remove bert@laptop",
		Args:    c.oneStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			var err error
			if asked.Store, err = c.place(cmd.Context(), args, address, wait, asked.Keys); err != nil {
				return err
			}
			return c.done(asked.Run(cmd.Context()))
		},
	}
	f := cmd.Flags()
	asked.Keys = c.KeysOf(f)
	f.Var(values.Recipients{To: &asked.Add, Flag: "--add"}, "add", "let this recipient, or those in a file, read it; repeatable")
	stateFlag(f, &address)
	f.Var((*values.Time)(&wait), "lock-wait", "how long to wait for another run (default: not at all)")
	f.StringArrayVar(&asked.Remove, "remove", nil, "do not let this `RECIPIENT` read it any more; repeatable")
	return cmd
}

func (c commands) newDecrypt() *cobra.Command {
	var path, address string
	var keys *sealed.Keys
	cmd := &cobra.Command{
		Use:   "decrypt [STORE | --state URL]",
		Short: "Print an encrypted vars store",
		Long: `Decrypt prints the values of an encrypted vars store as YAML, or one of them. Without
STORE it is the vars store of bootstrap.yml in this folder.`,
		Example: "  bootstrap secrets decrypt creds.yml.age\n" +
			"  bootstrap secrets decrypt creds.yml.age --path /admin_password",
		Args: c.oneStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			from, err := c.place(cmd.Context(), args, address, 0, keys)
			if err != nil {
				return err
			}
			text, err := Decrypt(cmd.Context(), from, keys)
			switch {
			case err != nil:
				return err
			case cmd.Flags().Changed("path"):
				return c.printPart(cmd.Context(), text, path)
			}
			c.Product("document", string(text))
			return nil
		},
	}
	keys = c.KeysOf(cmd.Flags())
	stateFlag(cmd.Flags(), &address)
	cmd.Flags().StringVar(&path, "path", "", "print only the value at this `PATH`, as in operations files")
	return cmd
}

// stateFlag adds the flag that chooses the vars store in the store of a team.
func stateFlag(f *pflag.FlagSet, address *string) {
	f.StringVar(address, "state", "", "the vars store of the state at this `URL` (or BOOTSTRAP_STATE)")
}

// place returns the vars store of a command.
func (c commands) place(ctx context.Context, args []string, address string, wait time.Duration, keys *sealed.Keys) (Place, error) {
	args, address, err := c.fromEnvironment(args, address, keys)
	if err != nil {
		return Place{}, err
	}
	if len(args) > 0 {
		return Place{Path: args[0]}, nil
	}
	return c.find(ctx, address, wait, keys)
}

// done prints the result of a command.
func (c commands) done(r *Result, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		if kept, ok := errors.AsType[*KeptError](err); ok {
			c.Warn(kept.All())
		}
		return cli.Stopped()
	case err != nil:
		return err
	case c.JSON():
		c.PrintObject("secrets", r)
	default:
		c.Print(func(out *ui.Writer) { ui.Say(out, r.Text()) })
	}
	return nil
}

// inform shows a message that is not part of the result.
func (c commands) inform(message string) { c.Say(report.Info, message) }

// confirm asks whether to continue; false if questions are impossible.
func (c commands) confirm(ctx context.Context, lines ...string) (bool, error) {
	confirm := c.Confirm(cli.Asking{})
	if confirm == nil {
		return false, nil
	}
	return confirm(ctx, deployer.Question{What: lines})
}

// printPart prints the value at a path in the text of a vars store.
func (c commands) printPart(ctx context.Context, text []byte, path string) error {
	doc, err := document.Evaluate(ctx, "-", document.Options{Stdin: bytes.NewReader(text)})
	if err != nil {
		return err
	}
	return c.PrintDocument(doc, true, path)
}

// Text returns the result for people.
func (r *Result) Text() string { return strings.Join(r.Lines, "\n") + "\n" }
