package secrets

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/values"
	"bootstrap/internal/sealed"
	"bootstrap/state/team"
)

// Console is what commands use of the program.
type Console struct {
	Env            []string
	Getenv         func(name string) string
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Start          func()      // the command line was understood
	Never          func() bool // the person does not want to be asked
	Screen         func() (w io.Writer, closeIt func(), err error)
	Asking         func(bool) // a question waits for an answer
	Leave          func(bool) // Ctrl-C is for another program on the terminal
	// Flags are those of the environment, bootstrap.yml in this folder, that say which
	// vars store is meant; nil: there is no such file.
	Flags     func() (*environment.File, error)
	Stopped   error // says that a signal ended the command
	Hide      func(secrets ...string)
	Say, Warn func(message string)
	Done      func(*Result)
	Print     func(text []byte)
	PrintPart func(ctx context.Context, text []byte, path string) error
	Confirm   func(ctx context.Context, lines ...string) (bool, error)
	OneStore  cobra.PositionalArgs
	// Open opens the store of a team, which may wait for a run.
	Open func(ctx context.Context, address string, wait time.Duration, keys *sealed.Keys) (*team.Copy, error)
	// Rekey encrypts to other recipients what else the store of a team has that is secret,
	// and signs all with a new key if it removes somebody.
	Rekey func(ctx context.Context, in *team.Copy, keys *sealed.Keys, to []string, removes bool) error
}

// Commands returns the command secrets and those below it.
func Commands(c Console) *cobra.Command {
	cmd := &cobra.Command{Use: "secrets", Short: "Encrypt, edit and print a vars store"}
	cmd.AddCommand(newInit(c), newEdit(c), newRekey(c), newDecrypt(c))
	return cmd
}

func newInit(c Console) *cobra.Command {
	var asked Init
	var address string
	cmd := &cobra.Command{
		Use:   "init [--vars-store FILE] [--state URL]",
		Short: "Make an identity, and encrypt a vars store",
		Long: `Init makes your identity, ~/.config/bootstrap/identity.txt, unless you have one: a key
of SSH or of sops will do. It prints your public recipient, which others need. With
--vars-store it makes an encrypted vars store, FILE.age unless FILE ends so, for you and
for each --recipient; if FILE exists, it encrypts it, and removes the plain file after
it has read the encrypted one back. A bootstrap.yml beside it or in this folder that
names FILE then names FILE.age. With --state, the vars store is made in the store of a
team, with the values of FILE if that is given.`,
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
	RecipientFlag(f, asked.Keys)
	f.StringVar(&address, "state", "", "make the vars store of the state at this `URL`")
	f.StringVar(&asked.Store, "vars-store", "", "the vars store: this YAML `FILE`")
	f.BoolVar(&asked.Passphrase, "passphrase", false, "encrypt with a passphrase (or BOOTSTRAP_PASSPHRASE)")
	return cmd
}

func newEdit(c Console) *cobra.Command {
	asked := Edit{Env: c.Env, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr, Memory: Memory, Say: c.Say, Leave: c.Leave}
	var address string
	cmd := &cobra.Command{
		Use:   "edit [STORE | --state URL]",
		Short: "Edit an encrypted vars store with your editor",
		Long: `Edit opens the values in $VISUAL or $EDITOR, as a file that is in memory only where the
machine has such a folder, checks them, and encrypts them for the same recipients. If
another process has changed the store meanwhile, that is not overwritten, and your
text is kept beside it, encrypted; so it is when the command or the editor is ended by
a signal. Without STORE it is the vars store of bootstrap.yml in this folder.`,
		Example: "  bootstrap secrets edit creds.yml.age\n  bootstrap secrets edit --state s3://team/prod",
		Args:    c.oneStore,
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			var err error
			if asked.Store, err = c.place(cmd.Context(), args, address, 0, asked.Keys); err != nil {
				return err
			}
			asked.Editor = cmp.Or(c.Getenv("VISUAL"), c.Getenv("EDITOR"))
			if c.terminal() != nil {
				asked.Again = func(ctx context.Context, wrong error) (bool, error) {
					return c.Confirm(ctx, wrong.Error(), "the editor is opened again with your text")
				}
			}
			return c.done(asked.Run(cmd.Context()))
		},
	}
	asked.Keys = c.KeysOf(cmd.Flags())
	stateFlag(cmd.Flags(), &address)
	return cmd
}

func newRekey(c Console) *cobra.Command {
	var asked Rekey
	var address string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "rekey [STORE | --state URL] [--add RECIPIENT]... [--remove RECIPIENT]...",
		Short: "Change who can read an encrypted vars store",
		Long: `Rekey encrypts the vars store again, to more or fewer recipients. Who is removed has seen
the values, and can read earlier copies: give the values that matter new ones with
bootstrap variables rotate. A recipient is an age or SSH public key, maybe with a
comment, or a file of them; --remove also takes the comment alone. Without flags it
lists who can read the store. Without STORE it is the vars store of bootstrap.yml in this
folder.`,
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

func newDecrypt(c Console) *cobra.Command {
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
				return c.PrintPart(cmd.Context(), text, path)
			}
			c.Print(text)
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

// place returns the vars store that a command is about.
func (c Console) place(ctx context.Context, args []string, address string, wait time.Duration, keys *sealed.Keys) (Place, error) {
	args, address, err := c.usual(args, address, keys)
	if err != nil {
		return Place{}, err
	}
	if len(args) > 0 {
		return Place{Path: args[0]}, nil
	}
	return c.find(ctx, address, wait, keys)
}

// done prints what a command has done.
func (c Console) done(r *Result, err error) error {
	switch {
	case errors.Is(err, context.Canceled):
		if kept, ok := errors.AsType[*KeptError](err); ok {
			c.Warn(kept.All())
		}
		return c.Stopped
	case err == nil:
		c.Done(r)
	}
	return err
}

// KeysOf adds the flag of commands that decrypt files, and returns the keys that it and
// the environment name.
func (c Console) KeysOf(f *pflag.FlagSet) *sealed.Keys {
	keys := c.Keys()
	f.Var((*values.Paths)(&keys.Identities), "identity", "decrypt with the key in `FILE`; repeatable (or BOOTSTRAP_IDENTITY)")
	return keys
}

// Keys returns the keys that the environment names.
func (c Console) Keys() *sealed.Keys {
	if one := c.Getenv("BOOTSTRAP_IDENTITY"); sealed.Name(one) != one {
		c.Hide(one)
	}
	return &sealed.Keys{Identities: Named(c.Getenv), Usual: sealed.Usual(c.Getenv), Passphrase: c.passphrase, Warn: c.Warn}
}

// Named returns the identity files that BOOTSTRAP_IDENTITY lists, or the key that it
// contains.
func Named(getenv func(string) string) []string {
	return slices.DeleteFunc(filepath.SplitList(getenv("BOOTSTRAP_IDENTITY")), func(path string) bool { return path == "" })
}

// RecipientFlag adds the flag of commands that may make a vars store.
func RecipientFlag(f *pflag.FlagSet, keys *sealed.Keys) {
	f.Var(values.Recipients{To: &keys.Recipients, Flag: "--recipient"}, "recipient", "who can read a new encrypted vars store; repeatable")
}

// terminal returns the terminal of the person; nil: there is none.
func (c Console) terminal() *os.File {
	in, ok := c.Stdin.(*os.File)
	if !ok || c.Never() || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	return in
}

// passphrase returns a passphrase from the environment, or asks on the terminal.
func (c Console) passphrase(ctx context.Context, what string, confirm bool) (string, error) {
	if phrase := c.Getenv("BOOTSTRAP_PASSPHRASE"); phrase != "" {
		c.Hide(phrase)
		return phrase, nil
	}
	in := c.terminal()
	if in == nil {
		return "", errUnasked()
	}
	screen, closeScreen, err := c.Screen()
	if err != nil {
		return "", errUnasked()
	}
	defer closeScreen()
	c.Asking(true) // Ctrl-C is an answer
	phrase, err := Ask(ctx, in, screen, what, confirm)
	if ctx.Err() != nil {
		return "", c.Stopped
	}
	c.Asking(false)
	c.Hide(phrase)
	return phrase, err
}

func errUnasked() error {
	return errors.New("a passphrase is needed, and there is no terminal to ask on; set $BOOTSTRAP_PASSPHRASE")
}

// Text returns the result for people.
func (r *Result) Text() string { return strings.Join(r.Lines, "\n") + "\n" }
