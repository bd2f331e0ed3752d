// Package cli is the console of the commands: their streams, environment and common
// flags, questions, messages, and the begin and end of a run on a deployment.
package cli

import (
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
)

// Console is shared by all commands.
type Console struct {
	Output
	Reports
	Signals Signals
	given   given
	line    line
	end     end
	Changes Changes
	closers []func() // functions that the end of the command calls
}

// given has flags and variables that many commands use.
type given struct {
	timings   bool   // --timings
	neverAsks bool   // --yes, --non-interactive, BOSH_NON_INTERACTIVE
	stateKey  string // --state-key
}

// line is the command line.
type line struct {
	root       *cobra.Command    // all commands
	full       environment.Line  // the complete line, with the flags of its environment
	wrong      error             // the error of completing it
	understood bool              // its flags and arguments are valid
	shown      string            // without values, for runs that wait for the lock
	target     *deployer.Options // the deployment that commands in messages must name; nil: none
	completing sync.Mutex        // for finding commands, by which cobra changes them
}

// end is printed at the end of the command.
type end struct {
	outcome  *report.Outcome    // result of the run; nil: there was no run on a deployment
	timeline *timeline.Timeline // timeline of the run; nil: it has not ended, or not begun
	silent   bool               // print no end: for plugins, and for ssh after a session
	again    bool               // another deploy follows this one
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

// Start records that the command line is valid: an error after it is one of the command
// itself.
func (c *Console) Start() { c.line.understood = true }

// Silent makes a successful command print nothing at its end.
func (c *Console) Silent() { c.end.silent = true }

// NameTarget makes commands in messages name that deployment.
func (c *Console) NameTarget(opts *deployer.Options) { c.line.target = opts }

// Help prints the help of a command that only has subcommands.
func (c *Console) Help(cmd *cobra.Command, _ []string) error {
	c.Quiet()
	return cmd.Help()
}
