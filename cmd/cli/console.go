// Package cli is the console of the commands: streams, environment and flags that all
// share, questions, messages, and how a run on a deployment begins and ends.
package cli

import (
	"io"
	"strings"
	"sync/atomic"

	"github.com/spf13/cobra"

	"bootstrap/cmd/environment"
	"bootstrap/cmd/ui"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
)

// Process is what one run of the program gets from outside.
type Process struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string
	Trace          func(instance.Point) // called at each point of a deploy, by the tests' program; may be nil
}

// Console is what all commands share.
type Console struct {
	Process
	Redactor *ui.Redactor
	out      *output // the standard output, for everything printed there
	given    given
	line     line
	events   events
	end      end
	signals  signals
	closers  []func() // what the command has opened
}

// given is what flags and variables say to all commands, or to many.
type given struct {
	json       bool   // --json
	plainLines bool   // --plain: a terminal gets what a pipe gets
	colour     string // --color
	noColour   bool   // --no-color
	eventsPath string // --events; empty: none
	timings    bool   // --timings
	neverAsks  bool   // --yes, --non-interactive, BOSH_NON_INTERACTIVE
	stateKey   string // --state-key
}

// line is the command line.
type line struct {
	root       *cobra.Command    // all commands
	full       environment.Line  // with the flags of its environment
	wrong      error             // what is wrong with these
	understood bool              // the flags and arguments are right
	shown      string            // without values, for runs that wait for the lock
	target     *deployer.Options // name the deployment in the commands of messages; nil: none is named
}

// events is where the events of a run go.
type events struct {
	show    func(report.Event) // nil until a command reports
	file    *ui.Lines          // of --events, from its first line on
	screens ui.Screens         // what is drawn again every second
}

// end is what is printed at the end of the command.
type end struct {
	outcome    *report.Outcome    // what the run left; nil: it worked on no deployment
	timeline   *timeline.Timeline // of the run; nil: it has not ended, or not begun
	quiet      bool               // the command has printed its result
	silent     bool               // print nothing: plugins, and ssh after a session
	resultOnly bool               // standard output is only for the result
	goesOn     bool               // another deploy follows the one that has ended
}

// signals is what signals do to the command.
type signals struct {
	running cpi.Running            // the running CPI calls
	ends    atomic.Bool            // a signal or a closed pipe is the normal end of the command
	asking  atomic.Bool            // a question waits for an answer
	left    atomic.Bool            // Ctrl-C is for another program on the terminal
	second  atomic.Pointer[func()] // what the second signal does; nil: it ends the process
}

// New returns the console of a process.
func New(p Process) *Console {
	c := &Console{Process: p, out: &output{to: p.Stdout}, Redactor: &ui.Redactor{}}
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

// JSON reports whether programs read the output.
func (c *Console) JSON() bool { return c.given.json }

// Out returns the standard output, for everything printed there.
func (c *Console) Out() io.Writer { return c.out }

// Quiet notes that the command has printed its result.
func (c *Console) Quiet() { c.end.quiet = true }

// Silent prints nothing about the end of a command that succeeds.
func (c *Console) Silent() { c.end.silent = true }

// ResultOnly keeps the standard output for the result.
func (c *Console) ResultOnly() { c.end.resultOnly = true }

// NameTarget makes the commands in messages name that deployment.
func (c *Console) NameTarget(opts *deployer.Options) { c.line.target = opts }

// Help prints the help of a command that only has subcommands.
func (c *Console) Help(cmd *cobra.Command, _ []string) error {
	c.Quiet()
	return cmd.Help()
}

// SignalEnds says whether a signal or a closed pipe is the normal end of the command.
func (c *Console) SignalEnds(normal bool) { c.signals.ends.Store(normal) }

// LeaveSignals leaves Ctrl-C to another program on the terminal, until it is called with
// false.
func (c *Console) LeaveSignals(leave bool) { c.signals.left.Store(leave) }

// SecondSignal returns a channel that is closed by the second signal, which does not end
// the process.
func (c *Console) SecondSignal() <-chan struct{} {
	second := make(chan struct{})
	again := func() { close(second) }
	c.signals.second.Store(&again)
	return second
}

// Asking reports whether a question waits for an answer.
func (c *Console) Asking() bool { return c.signals.asking.Load() }
