// Package cmd is the command line: one file per command. Each command turns
// flags into options and makes one call.
package cmd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/addresses"
	"bootstrap/cmd/about"
	"bootstrap/cmd/complete"
	"bootstrap/cmd/conflict"
	"bootstrap/cmd/dev"
	"bootstrap/cmd/embedded"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/explain"
	"bootstrap/cmd/secrets"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/usage"
	"bootstrap/cmd/values"
	"bootstrap/cpi"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployer/timeline"
	"bootstrap/internal/guard"
	"bootstrap/internal/owner"
	"bootstrap/internal/scratch"
	"bootstrap/internal/wait"
	"bootstrap/manifest/document"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Main runs one command and returns its exit code. It collects everything that
// the process gets from outside.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) int {
	return Process{Args: args, Stdin: stdin, Stdout: stdout, Stderr: stderr, Env: env}.Run()
}

// Process is what one run of the program gets from outside.
type Process struct {
	Args           []string // without the name of the program
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	Env            []string
	Trace          func(instance.Point) // called at each point of a deploy, by the tests' program; may be nil
}

// Run runs the command that the arguments name and returns its exit code.
func (p Process) Run() int {
	c := newConsole(p.Args, p.Stdin, p.Stdout, p.Stderr, withHome(p.Env, runtime.GOOS))
	c.trace = p.Trace
	restrictUmask()
	return c.execute(newRoot(c))
}

// Commands returns all commands with their flags and help texts, for pages that are made
// of them. They cannot be run: they have no streams and no environment.
func Commands() *cobra.Command {
	root := newRoot(newConsole(nil, nil, io.Discard, io.Discard, nil))
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	return root
}

// execute runs the command that the arguments name and prints how it ended, also
// after a panic before or after the command itself.
func (c *console) execute(root *cobra.Command) (code int) {
	defer closeOpened(c)
	err := guard.Call(func() error {
		code = c.finish(c.runCommand(root))
		return nil
	})
	if err != nil {
		code = c.finish(err)
	}
	return code
}

// closeOpened closes what the command, or one deploy of many, has opened.
func closeOpened(c *console) {
	for _, closeIt := range c.closers {
		closeIt()
	}
	c.closers = nil
}

// runCommand runs the command that the arguments name.
func (c *console) runCommand(root *cobra.Command) error {
	// Log messages of other packages, such as net/http, must not get into the
	// output.
	log.SetFlags(0)
	log.SetOutput(io.Discard)
	var text bytes.Buffer // help and version
	root.SetArgs(c.completed(root))
	root.SetIn(c.stdin)
	root.SetOut(&text)
	root.SetErr(writerTo(c, c.stderr))
	root.InitDefaultCompletionCmd() // keeps the output that is set
	if shells, _, err := root.Find([]string{"completion"}); err == nil && shells != root {
		// Without them, another shell is no error.
		shells.Args, shells.RunE = usage.NoArgs, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	}
	err := c.untilStopped(func(ctx context.Context) error {
		defer wait.Remind(ctx, time.Second, time.Second, c.screens.Tick)()
		cmd, err := root.ExecuteContextC(ctx)
		if err != nil && !c.started {
			err = usage.Wrong(cmd, err)
		}
		// An input that keeps its reader waiting, such as a pipe.
		if _, reported := errors.AsType[*report.InterruptedError](err); !reported && errors.Is(err, context.Canceled) && ctx.Err() != nil {
			err = &report.InterruptedError{Look: true}
		}
		return err
	})
	if text.Len() > 0 {
		c.product("text", text.String())
	}
	return err
}

// completed returns the arguments, with what people leave out: values, and the flags of
// the environment.
func (c *console) completed(root *cobra.Command) []string {
	if len(c.args) > 0 && strings.HasPrefix(c.args[0], cobra.ShellCompRequestCmd) {
		return append(c.args[:1:1], environment.CompleteWords(root, c.args[1:], c.getenv)...)
	}
	c.line, c.lineErr = environment.Complete(root, c.args, c.getenv)
	return c.line.Args
}

// console contains what all commands share: streams, environment and global
// flags.
type console struct {
	args           []string
	stdin          io.Reader
	stdout, stderr io.Writer
	out            *output // the standard output, for everything printed there
	env            []string
	trace          func(instance.Point) // may be nil
	redactor       *ui.Redactor
	json           bool
	plainLines     bool                   // --plain: a terminal gets what a pipe gets
	colour         string                 // --color
	noColour       bool                   // --no-color
	screens        ui.Screens             // what is drawn again every second
	eventsPath     string                 // --events; empty: none
	events         *ui.Lines              // the file at eventsPath, from its first line on
	report         func(report.Event)     // nil until a command reports
	outcome        *report.Outcome        // what the run left; nil: it worked on no deployment
	timings        bool                   // --timings
	timeline       *timeline.Timeline     // of the run; nil: it has not ended, or not begun
	started        bool                   // the command line was understood
	neverAsks      bool                   // --yes, --non-interactive, BOSH_NON_INTERACTIVE
	quiet          bool                   // the command has printed its result
	goesOn         bool                   // another deploy follows the one that has ended
	silent         bool                   // print nothing: plugins, and ssh after a session
	plain          bool                   // standard output is only for the result
	running        cpi.Running            // the running CPI calls
	ends           atomic.Bool            // a signal or a closed pipe is the normal end of the command
	asking         atomic.Bool            // a question waits for an answer
	left           atomic.Bool            // Ctrl-C is for another program on the terminal
	second         atomic.Pointer[func()] // what the second signal does; nil: it ends the process
	command        string                 // the command line without values, for runs that wait for the lock
	root           *cobra.Command         // all commands
	line           environment.Line       // the command line with the flags of its environment
	lineErr        error                  // what is wrong with these
	closers        []func()               // what the command has opened
	stateKey       string                 // --state-key
	target         *deployer.Options      // name the deployment in the commands of messages; nil: none is named
}

func newConsole(args []string, stdin io.Reader, stdout, stderr io.Writer, env []string) *console {
	c := &console{args: args, stdin: stdin, stdout: stdout, stderr: stderr, out: &output{to: stdout}, env: env, redactor: &ui.Redactor{}}
	c.redactor.Name(ui.Vocabulary()...)
	for _, arg := range args {
		_, rest, _ := strings.Cut(arg, "://")
		if at := strings.LastIndex(rest, "@"); at > 0 { // the password may contain a slash
			if _, password, found := strings.Cut(rest[:at], ":"); found {
				c.redactor.Add(password)
			}
		}
	}
	return c
}

func newRoot(c *console) *cobra.Command {
	root := &cobra.Command{
		Use:           "bootstrap",
		Short:         "Turn one BOSH manifest into one running VM",
		Long:          "Bootstrap turns one BOSH manifest into one running VM, and keeps it as the manifest\ndescribes.",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          usage.NoArgs,
	}
	version := root.Flags().BoolP("version", "v", false, "version for bootstrap")
	root.RunE = func(cmd *cobra.Command, _ []string) error {
		if *version {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "bootstrap %s\n", about.Version())
			return err
		}
		return cmd.Help()
	}
	root.SetGlobalNormalizationFunc(normalFlag)
	c.everywhereFlags(root.PersistentFlags())
	if isPlugin(c.args) {
		root.AddCommand(newPlugin(c))
		c.root = root
		return root
	}
	group(root, "deploy", "Deploy:", c.likeBosh(newDeploy(c), "create-env"), newPlan(c), newReport(c), newRecreate(c), c.likeBosh(newDelete(c), "delete-env"), newDev(c))
	group(root, "vm", "The VM and its jobs:", newStatus(c), newLogs(c), newSSH(c), c.likeBosh(newStop(c), "stop-env"), c.likeBosh(newStart(c), "start-env"), newRestart(c))
	group(root, "manifest", "The manifest:", newInit(c), newValidate(c), newInterpolate(c), newRender(c), newVariables(c), newSecrets(c), newSchema(c))
	group(root, "fleet", "Many deployments:", newFleet(c))
	group(root, "kept", "What is recorded and kept:", newList(c), newState(c), newDisks(c), newAddresses(c), newCache(c))
	root.AddCommand(newDoctor(c), explain.New(explainOf(c)), about.NewVersion(aboutOf(c)), about.NewNotice(aboutOf(c)), explain.NewExitCodes(), newPlugin(c))
	root.SetHelpCommand(newHelp(c))
	root.SetFlagErrorFunc(usage.FlagError)
	c.stateKeyFlags(root)
	c.root = root
	setHelp(c, root)
	c.checkArgs(root)
	if len(c.args) > 0 && strings.HasPrefix(c.args[0], cobra.ShellCompRequestCmd) {
		complete.All(root, c.boshHome)
	}
	return root
}

// isPlugin reports whether this process is one of the program's own children. A call
// of the embedded CPI takes as long as making all other commands does.
func isPlugin(args []string) bool { return len(args) > 1 && args[0] == "plugin" }

// deployment runs a command that works on a deployment, after filling in the
// options from the environment and the terminal.
func (c *console) deployment(ctx context.Context, opts deployer.Options, run func(context.Context, deployer.Options) error) error {
	if strings.Contains(opts.Manifest, "://") {
		return usage.Wrong(c.root, errors.New("a manifest is a file on this machine, and not a URL: download it, for example with curl -O, and name the file"))
	}
	home, err := c.boshHome()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program's own path: %w", err)
	}
	scratch.Sweep(os.TempDir(), secrets.Memory) // what killed commands have left
	c.target = &opts
	opts.Home = home
	opts.Self = self
	opts.Getenv = c.getenv
	opts.Usual = c.line.Usual()
	opts.PassEnv = opts.Inputs.PassEnv
	if err := c.findDatabase(&opts.Database); err != nil {
		return err
	}
	opts.Holder = c.holder()
	embedded.Offer(&opts.Config, self)
	c.redactor.Add(opts.OldMBus)
	opts.Redact = c.redactor.String
	opts.Secret = c.redactor.Add
	opts.Name = c.redactor.Name
	c.publishPaths(home, opts)
	opts.OpenLog = c.openLog
	if opts.Ruby == "" {
		opts.Ruby = c.getenv("BOOTSTRAP_RUBY")
	}
	if c.report == nil {
		c.report = c.renderer(c.out)
	}
	opts.Report = func(e report.Event) {
		if e.Kind == report.Ended { // finish prints it
			c.outcome, c.timeline = e.Outcome, e.Timeline
			return
		}
		c.report(e)
	}
	opts.Running = &c.running
	opts.Trace = c.trace
	stop := guard.AfterDone(ctx, func() {
		var panicked *guard.Panic
		switch {
		case errors.As(context.Cause(ctx), &panicked):
			c.report(report.Event{Time: time.Now(), Kind: report.Warning, Message: "a defect of bootstrap ends this run: finishing the running step; Ctrl-C stops at once"})
		case errors.Is(context.Cause(ctx), dev.ErrSaved):
			c.report(report.Event{Time: time.Now(), Kind: report.Info, Message: "Files have changed: finishing the running step"})
		case !c.ends.Load() && !c.asking.Load():
			c.report(report.Event{Time: time.Now(), Kind: report.Info, Message: interrupted(c.running.List(), time.Now())})
		}
	})
	defer stop()
	if team.IsAddress(opts.StateFile) {
		if _, err := c.openTeam(ctx, opts.Config, opts.StateFile, &opts.Options); err != nil {
			return err
		}
	}
	statePath, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return err
	}
	if err := owner.Look(c.warn, home, statePath, opts.Inputs.VarsStore); err != nil {
		return err
	}
	defer owner.GiveBack(home)
	return run(ctx, opts)
}

// findDatabase fills in the ledger of addresses from the environment unless the
// flag names one. Nothing shows its password.
func (c *console) findDatabase(address *string) error {
	if *address == "" {
		if err := (*values.Database)(address).Set(c.getenv("BOOTSTRAP_DATABASE")); err != nil {
			return usage.Wrong(c.root, errors.New("BOOTSTRAP_DATABASE: expected a path, or postgres://user@host/database"))
		}
	}
	c.redactor.Add(addresses.Secrets(*address)...)
	return nil
}

// publishPaths adds the names of the deployment's files to the public names of
// the redactor: a password may be a word in them.
func (c *console) publishPaths(home string, opts deployer.Options) {
	paths := []string{home, opts.Manifest, opts.StateFile, opts.Inputs.VarsStore}
	if path, err := file.Path(opts.Manifest, opts.StateFile); err == nil {
		paths = append(paths, path)
	}
	for _, p := range slices.Concat(paths, []string{opts.Inputs.FlagsFile}, opts.Inputs.Ops, opts.Inputs.CloudConfigs, opts.Inputs.VarsFiles) {
		if p == "" {
			continue
		}
		c.redactor.Name(p)
		if abs, err := filepath.Abs(p); err == nil {
			c.redactor.Name(abs)
		}
	}
}

// boshHome returns the folder ~/.bosh, for caches and installed CPIs.
func (c *console) boshHome() (string, error) {
	home := c.getenv("HOME")
	if home == "" {
		return "", fmt.Errorf("cannot find the home folder: HOME is not set, and caches and installations are kept in ~/.bosh")
	}
	return filepath.Join(home, ".bosh"), nil
}

// renderer returns a function that shows events on a stream: as JSON, as text,
// or with progress bars. It is safe for concurrent use.
func (c *console) renderer(stream io.Writer) func(report.Event) {
	var mu sync.Mutex
	show := c.unguarded(stream)
	if err := c.openEvents(); err != nil {
		show(report.Event{Time: time.Now(), Kind: report.Warning, Message: err.Error()})
	}
	if c.events != nil {
		shown, record := show, ui.JSON(c.events)
		show = func(e report.Event) {
			shown(e)
			record(e)
		}
	}
	return c.completedEvents(func(e report.Event) {
		mu.Lock()
		defer mu.Unlock()
		show(e)
	})
}

// openEvents opens the file to which events are appended, if one is named. A shell
// that asks what may follow on a command line must leave no file.
func (c *console) openEvents() error {
	asks := len(c.args) > 0 && (c.args[0] == cobra.ShellCompRequestCmd || c.args[0] == cobra.ShellCompNoDescRequestCmd)
	if c.eventsPath == "" || c.events != nil || asks {
		return nil
	}
	f, err := os.OpenFile(c.eventsPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return fmt.Errorf("--events: cannot write the events to %s: %w", c.eventsPath, document.Cause(err))
	}
	c.events = c.redactor.Lines(f) // closed when the process ends
	return nil
}

func (c *console) unguarded(stream io.Writer) func(report.Event) {
	if c.json {
		return ui.JSON(c.redactor.Lines(stream))
	}
	out := writerTo(c, stream)
	f := screenOf(c, stream)
	if f == nil {
		return ui.Plain(out)
	}
	show, tick := ui.Terminal(out, widthOf(f))
	c.screens.Add(tick)
	return show
}

func (c *console) getenv(name string) string {
	value := ""
	for _, kv := range c.env { // the last one counts, as for a child process
		if k, v, ok := strings.Cut(kv, "="); ok && k == name {
			value = v
		}
	}
	return value
}

func (c *console) holder() state.Holder {
	h := state.Holder{PID: os.Getpid(), Command: c.command, Since: time.Now().Truncate(time.Second)}
	h.Host, _ = os.Hostname() // only for the message
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	return h
}

// checkArgs makes every command check which flags are given together before it
// checks its arguments, and remember its command line.
func (c *console) checkArgs(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		c.checkArgs(sub)
	}
	if !cmd.Runnable() {
		return
	}
	positional := cmd.Args
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if c.lineErr != nil {
			code, _ := exit.Judge(c.lineErr)
			c.started = code != exit.Failed // no mistake of the command line
			return c.lineErr
		}
		if err := errors.Join(refuseBoshFlags(cmd), conflict.Check(cmd)); err != nil {
			return err
		}
		c.command = c.withoutValues(cmd, args)
		var err error
		if c.neverAsks, err = c.asksNobody(cmd); err != nil {
			return err
		}
		if positional != nil {
			if err := positional(cmd, args); err != nil {
				return err
			}
		}
		return c.refuseOverwriting(cmd, args)
	}
}

// withoutValues returns the command line for other users to see: the command,
// the manifest, and the names of the flags. Every other word may be a secret.
func (c *console) withoutValues(cmd *cobra.Command, args []string) string {
	words := []string{usage.ShortPath(cmd)}
	if len(args) > 0 && usage.Exists(args[0]) {
		words = append(words, args[0])
	}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if c.line.Untyped(f.Name) {
			return
		}
		word := "--" + f.Name
		if f.Value.Type() != "bool" {
			word += "=…"
		}
		words = append(words, word)
	})
	return strings.Join(words, " ")
}

// openLog opens a log file for appending; one larger than 10 MiB is emptied
// first.
func (c *console) openLog(path string) (io.WriteCloser, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > 10<<20 {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log file: %w", err)
	}
	return &logFile{Writer: c.redactor.LogWriter(f), file: f}, nil
}

// logFile is a file to which everything is written through the redactor.
type logFile struct {
	*ui.Writer
	file *os.File
}

func (l *logFile) Close() error {
	err := l.Flush()
	if e := l.file.Close(); err == nil {
		err = e
	}
	return err
}
