package vm

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/deployer"
	"bootstrap/deployer/access"
	"bootstrap/deployer/report"
	"bootstrap/tunnel"
)

func newSSH(c *cli.Console) *cobra.Command {
	var opts deployer.Options
	var what access.SSHOptions
	cmd := &cobra.Command{
		Use:   "ssh {MANIFEST | --state FILE} [-- COMMAND...]",
		Short: "Log in to the VM, or run a command there",
		Long: `Ssh logs in with a user and a key that are made for this session and removed at its
end. The VM must have the host key that the agent reports. It uses the system's ssh
if there is one, and a built-in client otherwise, on Windows, and through jumpboxes.

A shell on the VM gets the words of COMMAND, and the exit code is that of the
command. On a terminal, a shell gets a terminal, and so does a command whose output
is not redirected. Output from the VM is shown unchanged, INCLUDING ANY SECRETS.

On several instances, COMMAND runs at the same time: on all, or on those of --instance.
Its lines begin with the name of the instance, and the exit code is the highest one.`,
		Example: "  bootstrap ssh manifest.yml\n  bootstrap ssh manifest.yml -- sudo monit summary",
		Args: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() == 0 && !cmd.Flags().Changed("state") {
				args = nil // the rest are flags of the command on the VM
			}
			return cli.ManifestOrState(cmd, args[:min(len(args), 1)])
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			c.Start()
			if cmd.ArgsLenAtDash() != 0 && len(args) > 0 {
				opts.Manifest, args = args[0], args[1:]
			}
			what.Command = args
			what.Stdin, what.Stdout, what.Stderr = c.Stdin, c.Stdout, c.Stderr
			what.Terminal = terminal(cmd.Context(), c, len(what.Command) > 0)
			c.ReportWarnings(c.Stderr)
			c.Signals.End(true)
			several, err := selectForSSH(cmd, c, &opts, what)
			if err != nil {
				return err
			}
			// When the terminal closes, the user must still be removed from the
			// VM.
			ctx, stop := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
			defer stop()
			err = c.Deployment(ctx, opts, func(ctx context.Context, opts deployer.Options) error {
				if several != nil {
					return sshToAll(ctx, c, several, opts, what)
				}
				return deployer.SSH(ctx, opts, what)
			})
			err, silent := afterSession(err)
			if silent {
				c.Silent()
			}
			return err
		},
	}
	f := cmd.Flags()
	f.BoolVar(&what.OwnClient, "own-client", false, "do not use the system's ssh")
	reachFlags(c, f, &opts)
	return cmd
}

// afterSession returns the error with which ssh ends after its session. silent is true if
// no message is printed about it.
func afterSession(err error) (result error, silent bool) {
	var ended *access.ExitStatusError
	var interrupted *report.InterruptedError
	switch {
	case errors.As(err, &ended):
		return exit.Code(passedOn(ended.Status)), true
	case errors.As(err, &interrupted):
		return exit.Code(exit.Interrupted), true // there is nothing to continue
	}
	return err, err == nil
}

// terminal returns the terminal of standard input; nil: there is none. A command on the
// VM gets a terminal only if its output goes to one, too.
func terminal(ctx context.Context, c *cli.Console, command bool) *tunnel.Terminal {
	in, ok := c.Stdin.(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return nil
	}
	if out, ok := c.Stdout.(*os.File); command && (!ok || !term.IsTerminal(int(out.Fd()))) {
		return nil
	}
	kind := c.Getenv("TERM")
	if kind == "" {
		kind = "dumb"
	}
	return &tunnel.Terminal{
		Type: kind,
		Size: func() (columns, rows int) {
			columns, rows, err := term.GetSize(int(in.Fd()))
			if err != nil || columns == 0 || rows == 0 {
				return 80, 24
			}
			return columns, rows
		},
		Resized: resized(ctx),
		Raw: func() (restore func(), err error) {
			before, err := term.MakeRaw(int(in.Fd()))
			if err != nil {
				return nil, err
			}
			return func() { _ = term.Restore(int(in.Fd()), before) }, nil
		},
	}
}
