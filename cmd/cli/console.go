// Package cli is the console of the commands: streams, environment and flags that all
// share, questions, messages, and how a run on a deployment begins and ends.
package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
)

// Console is what all commands share.
type Console struct {
	Output
	Reports
	Signals Signals
	given   given
	line    line
	end     end
	closers []func() // what the command has opened
}

// given is what flags and variables say to many commands.
type given struct {
	timings   bool   // --timings
	neverAsks bool   // --yes, --non-interactive, BOSH_NON_INTERACTIVE
	stateKey  string // --state-key
}

// line is the command line.
type line struct {
	root       *cobra.Command    // all commands
	full       environment.Line  // with the flags of its environment
	wrong      error             // what is wrong with these
	understood bool              // the flags and arguments are right
	shown      string            // without values, for runs that wait for the lock
	target     *deployer.Options // names the deployment in the commands of messages; nil: no deployment
}

// end is what is printed at the end of the command.
type end struct {
	outcome  *report.Outcome    // what the run left; nil: it worked on no deployment
	timeline *timeline.Timeline // of the run; nil: it has not ended, or not begun
	silent   bool               // print nothing: plugins, and ssh after a session
	again    bool               // another deploy follows the one that has ended
}

// New returns the console of a process.
func New(p Process) *Console {
	c := &Console{Output: Output{Process: p, out: &tracked{to: p.Stdout}, Redactor: &ui.Redactor{}}}
	c.Reports.to, c.Reports.complete = &c.Output, c.WithTarget
	c.Redactor.Name(ui.Vocabulary()...)
	for _, arg := range p.Args {
		_, rest, _ := strings.Cut(arg, "://")
		if at := strings.LastIndex(rest, "@"); at > 0 { // the password may contain a slash
			if _, password, found := strings.Cut(rest[:at], ":"); found {
				c.Redactor.Add(password)
			}
		}
	}
	return c
}

// Start notes that the command line was understood: an error after it is one of the
// command itself.
func (c *Console) Start() { c.line.understood = true }

// Silent prints nothing about the end of a command that succeeds.
func (c *Console) Silent() { c.end.silent = true }

// NameTarget makes the commands in messages name that deployment.
func (c *Console) NameTarget(opts *deployer.Options) { c.line.target = opts }

// Help prints the help of a command that only has subcommands.
func (c *Console) Help(cmd *cobra.Command, _ []string) error {
	c.Quiet()
	return cmd.Help()
}
