// Package fleets has the commands for fleets of deployments.
package fleets

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/fleet"
	"bootstrap/fleet/rollout"
	"bootstrap/fleet/schedule"
	"bootstrap/internal/owner"
	"bootstrap/internal/printable"
	"bootstrap/manifest/document"
	"bootstrap/manifest/source"
	"bootstrap/templates"
)

// New returns the command fleet with its subcommands.
func New(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "fleet",
		Short: "Update many deployments: canaries first, then many at the same time",
		Long: `A fleet is a list of deployments with the rules by which they are updated: how many
canaries first, how many at the same time, in which waves. The fleet file describes
both. Each member is deployed by a process of its own, as bootstrap deploy does it,
and its verdict is recorded beside the fleet file. See docs/fleet.md.`,
		Args: cli.NoArgs,
		RunE: c.Help,
	}
	cmd.AddCommand(newPlan(c), newDeploy(c), newRecreate(c), newDelete(c), newLifecycle(c, fleet.StopStrategy), newLifecycle(c, fleet.StartStrategy), newLifecycle(c, fleet.RestartStrategy), newRunErrand(c), newStatus(c), newReport(c), newWorker(c),
		newAsk(c, rollout.Pause, "Start no other member in the running run", "Pause lets the running members end. The run waits until bootstrap fleet resume."),
		newAsk(c, rollout.Resume, "Let a paused run start members again", "Resume ends a pause."),
		newAsk(c, rollout.Abort, "End the running run", "Abort starts no other member and asks the running ones to end at their next safe step.\nThe next bootstrap fleet deploy begins a new run, also after one that was killed."),
	)
	return cmd
}

// fleetAsked has the flags of a command about a fleet.
type fleetAsked struct {
	inputs   document.Options // variables of the fleet file
	database string
	members  []string // flags for every member
	only     []string
	blocked  bool
	removed  bool
	prune    bool           // removed members are deleted after the others
	action   fleet.Strategy // empty: the fleet file's
	empty    bool           // an empty list of members is accepted
	before   string
	ask      cli.Asking
	workers  bool // workers run the members
}

// flags adds the flags of the commands that plan or start members.
func (a *fleetAsked) flags(c *cli.Console, cmd *cobra.Command) {
	f := cmd.Flags()
	fleetInputs(c, f, &a.inputs)
	cli.DatabaseFlag(f, &a.database)
	f.StringArrayVar(&a.only, "only", nil, "only this `NAME`, LABEL=VALUE, outdated or failed")
	f.BoolVar(&a.blocked, "include-blocked", false, "also members that are blocked")
	f.BoolVar(&a.empty, "allow-empty", false, "accept an empty list of members although some were deployed")
	f.StringVar(&a.before, "created-before", "", "only VMs created before this `DATE` (RFC 3339)")
	a.memberFlags(c, f)
}

// fleetInputs adds the flags for the variables of a fleet file.
func fleetInputs(c *cli.Console, f *pflag.FlagSet, inputs *document.Options) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.VarFlags(own, inputs)
	for _, name := range []string{"var", "var-file", "vars-file", "vars-env"} {
		f.AddFlag(own.Lookup(name))
	}
}

// memberFlags adds flags of deploy and recreate that can be the same for all members.
func (a *fleetAsked) memberFlags(c *cli.Console, f *pflag.FlagSet) {
	var unused deployer.Options
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.DeployFlags(own, &unused)
	cli.PlanFlags(own, &unused)
	passFlags(f, own, &a.members, append(ownFlags(), "fix", "allow-shrink", "keep-old-disk", "on-failure", "skip-drain", "via", "cpi-timeout", "agent-timeout", "task-timeout", "expiry-warning"))
}

// ownFlags returns the flags for members that a coordinator does not send to workers,
// because they name programs, files or secrets of a machine.
func ownFlags() []string { return []string{"ruby", "pass-env", "var-source", "package-dir"} }

// deleteFlags returns the flags of deploy that delete also has, and that mean the same
// there.
func deleteFlags() []string {
	return []string{"skip-drain", "ruby", "via", "pass-env", "var-source", "package-dir", "cpi-timeout", "agent-timeout", "task-timeout"}
}

// statusFlags returns the flags of deploy that status also has.
func statusFlags() []string { return []string{"via", "pass-env", "var-source", "task-timeout"} }

// flagsOf returns the flags with these names.
func flagsOf(flags, names []string) (list []string) {
	for _, flag := range flags {
		name, _, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if slices.Contains(names, name) {
			list = append(list, flag)
		}
	}
	return list
}

// passFlags adds the named flags of own to f; they are passed on to members.
func passFlags(f, own *pflag.FlagSet, members *[]string, names []string) {
	for _, name := range names {
		flag := *own.Lookup(name)
		flag.Value = &passedFlag{Value: flag.Value, name: name, to: members}
		f.AddFlag(&flag)
	}
}

// passedFlag is a flag that is passed on to the processes of members.
type passedFlag struct {
	pflag.Value
	name string
	to   *[]string
}

// Set checks the value and records the flag.
func (p *passedFlag) Set(text string) error {
	if err := p.Value.Set(text); err != nil {
		return err
	}
	*p.to = append(*p.to, "--"+p.name+"="+text)
	return nil
}

// read reads the fleet file and returns the options of a run.
func (a *fleetAsked) read(cmd *cobra.Command, c *cli.Console, path string) (rollout.Options, error) {
	c.Start()
	var opts rollout.Options
	home, err := c.BoshHome()
	if err != nil {
		return opts, err
	}
	self, err := os.Executable()
	if err != nil {
		return opts, fmt.Errorf("cannot find this program's own path: %w", err)
	}
	if err := c.FindDatabase(&a.database); err != nil {
		return opts, err
	}
	f, err := readFleet(cmd.Context(), c, path, a.inputs)
	if err != nil {
		return opts, err
	}
	env := environment.ForMembers(c.Env)
	if a.database != "" {
		env = append(env, "BOOTSTRAP_DATABASE="+a.database)
	}
	opts = rollout.Options{
		Fleet: f, Action: f.Update.Strategy, AllowEmpty: a.empty, Home: home, By: c.Holder(),
		Program: rollout.Program{Self: self, Env: env, Flags: a.members, Fleet: fleetArgs(f.Path, a.inputs)},
		Choice:  rollout.Choice{IncludeBlocked: a.blocked, Prune: a.prune},
	}
	opts.StatusFlags = flagsOf(a.members, statusFlags())
	if a.prune {
		opts.Program.DeleteFlags = append(flagsOf(a.members, deleteFlags()), "--yes")
	}
	given := func(flag string) bool { return strings.HasPrefix(flag, "--on-failure=") }
	if f.Update.OnFailure != "" && a.action == "" && !slices.ContainsFunc(a.members, given) {
		opts.Program.Flags = append(opts.Program.Flags, "--on-failure="+string(f.Update.OnFailure))
	}
	all := f.Members
	if a.action == fleet.DeleteStrategy {
		opts.Action, opts.Removed = a.action, a.removed
		if all, err = deletable(opts); err != nil {
			return opts, err
		}
	}
	for _, text := range a.only {
		s, err := fleet.ParseSelector(text)
		if err == nil {
			err = s.Check(all)
		}
		if err != nil {
			return opts, cli.WrongUsage(cmd, fmt.Errorf("--only: %w", err))
		}
		opts.Only = append(opts.Only, s)
	}
	if a.before != "" {
		if opts.CreatedBefore, err = time.Parse(time.RFC3339, a.before); err != nil {
			return opts, cli.WrongUsage(cmd, fmt.Errorf("--created-before: %q is not a time such as 2026-11-22T10:00:00Z", a.before))
		}
	}
	return opts, nil
}

// shareRuby makes the processes of members share one embedded Ruby. The caller must call
// end.
func shareRuby(ctx context.Context, c *cli.Console, home string, p *rollout.Program) (end func()) {
	shared := templates.Share(ctx, templates.Config{Self: p.Self, Cache: instance.RubyCache(home), Env: c.Env}, os.TempDir(), "/tmp")
	if entry := shared.Entry(); entry != "" {
		p.Env = append(p.Env, entry)
	}
	return shared.Close
}

// readFleet reads a fleet file and prints its warnings.
func readFleet(ctx context.Context, c *cli.Console, path string, inputs document.Options) (*fleet.Fleet, error) {
	f, err := fleet.Read(ctx, path, inputs, outside(c))
	if err != nil {
		return nil, err
	}
	c.Redactor.Add(f.Secrets...)
	c.Redactor.Name(append([]string{f.Path, path}, f.Names...)...)
	for _, m := range f.Members {
		c.Redactor.Name(m.Name, m.Manifest, m.State)
	}
	if len(f.Warnings) > 0 && !c.JSON() {
		out := c.Writer(c.Stderr)
		for _, w := range document.Problems(f.Warnings).Shortened() {
			ui.Warn(out, w.String())
		}
		_ = out.Flush() // there is no stream to report an error on
	}
	return f, nil
}

// outside returns how a fleet file's bootstrap.yml files and lists of members are read.
func outside(c *cli.Console) fleet.Outside {
	return fleet.Outside{Environment: findEnvironment(c), List: func(ctx context.Context, l source.List, passed []string) ([]byte, error) {
		config := source.Config{Environ: c.Env, Getenv: c.Getenv, PassEnv: passed}
		return config.ReadList(ctx, l)
	}}
}

// findEnvironment returns how the files bootstrap.yml of members are found: as bootstrap
// deploy does.
func findEnvironment(c *cli.Console) fleet.FindEnvironment {
	return func(manifest, named string) (fleet.Environment, error) {
		f, err := environment.For(manifest, named, c.Getenv)
		if err != nil || f == nil {
			return fleet.Environment{}, err
		}
		e := fleet.Environment{Path: f.Path, Files: f.Inputs()}
		for _, state := range f.Values("state") {
			e.State = state
		}
		if e.State, err = document.ExpandHome(e.State); err != nil {
			return fleet.Environment{}, fmt.Errorf("cannot find the home directory: %v", err)
		}
		for i, path := range e.Files {
			if e.Files[i], err = document.ExpandHome(path); err != nil {
				return fleet.Environment{}, fmt.Errorf("cannot find the home directory: %v", err)
			}
		}
		return e, nil
	}
}

func newPlan(c *cli.Console) *cobra.Command {
	var a fleetAsked
	var recreate bool
	cmd := &cobra.Command{
		Use:   "plan FLEET",
		Short: "Print what fleet deploy would do to each member",
		Long: `Plan plans every member, as bootstrap plan does, and prints one table of all plans
and in which order members are updated. It changes nothing. The exit code is 0 if
there is nothing to do, 2 if there is, and 1 if a member cannot be planned.`,
		Example: "  bootstrap fleet plan fleet.yml\n  bootstrap fleet plan fleet.yml --only zone=z1 --json",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			defer shareRuby(cmd.Context(), c, opts.Home, &opts.Program)()
			if recreate {
				opts.Action = fleet.RecreateStrategy
			}
			opts.Report = func(rollout.Event) {}
			if f := c.Canvas(c.Stderr); f != nil && !c.JSON() {
				show, _, stop := fleetTerminal(cmd.Context(), c, c.Stderr, f)
				defer stop()
				opts.Report = show
			}
			r, err := rollout.Preview(cmd.Context(), opts)
			if err != nil {
				return err
			}
			return printFleetPlan(c, r)
		},
	}
	a.flags(c, cmd)
	pruneFlag(cmd.Flags(), &a.prune)
	cmd.Flags().BoolVar(&recreate, "recreate", false, "plan what fleet recreate would do")
	return cmd
}

func printFleetPlan(c *cli.Console, r *rollout.Record) error {
	if c.JSON() {
		c.PrintObject("fleet_run", r)
	} else {
		c.Print(func(out *ui.Writer) { ui.FleetPlan(out, r) })
	}
	switch n := r.Count()[schedule.Failed]; {
	case n > 0:
		return fmt.Errorf("%d of %d members cannot be planned", n, len(r.Members))
	case r.Numbers.ToDo+r.Numbers.ToDelete > 0:
		return &exit.ChangesError{}
	}
	return nil
}

func newDeploy(c *cli.Console) *cobra.Command {
	var a fleetAsked
	cmd := &cobra.Command{
		Use:   "deploy FLEET",
		Short: "Update the members of a fleet",
		Long: `Deploy plans every member, and updates those with changes: canaries first, all of
which must end well, then the others. Blocked members are left out; members that
another run has locked are tried again at the end. After any other failure no further
member is started, and the command fails. To continue a run that was killed, run the
same command again. With --prune, members that are no longer in the fleet file are
deleted at the end, WITH THEIR DATA, if all others have ended well.

With --workers, members are updated on the machines where bootstrap fleet worker runs
with the same database; --database alone names the address ledger.

The first Ctrl-C starts no other member and waits for the running ones. A second
one asks these to end at their next safe step. After a third, they continue alone.`,
		Example: "  bootstrap fleet deploy fleet.yml\n  bootstrap fleet deploy fleet.yml --only failed",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			return runFleet(cmd, c, opts, a)
		},
	}
	a.flags(c, cmd)
	a.ask.Flags(cmd.Flags())
	pruneFlag(cmd.Flags(), &a.prune)
	workersFlag(cmd.Flags(), &a.workers)
	return cmd
}

// pruneFlag adds the flag of commands that can delete members at the end.
func pruneFlag(f *pflag.FlagSet, prune *bool) {
	f.BoolVar(prune, "prune", false, "at the end, delete members that are no longer in the fleet file")
}

func newRecreate(c *cli.Console) *cobra.Command {
	var a fleetAsked
	cmd := &cobra.Command{
		Use:   "recreate FLEET",
		Short: "Replace the VMs of all members of a fleet",
		Long: `Recreate replaces the VM of every member, also of one whose agent is silent, in the
order of fleet deploy. A run that was killed or failed continues with the same
command: it does not replace a VM twice. To begin a new one, end it with bootstrap
fleet abort first.`,
		Example: "  bootstrap fleet recreate fleet.yml\n  bootstrap fleet recreate fleet.yml --created-before 2026-11-22T10:00:00Z",
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := a.read(cmd, c, args[0])
			if err != nil {
				return err
			}
			opts.Action = fleet.RecreateStrategy
			return runFleet(cmd, c, opts, a)
		},
	}
	a.flags(c, cmd)
	a.ask.Flags(cmd.Flags())
	workersFlag(cmd.Flags(), &a.workers)
	return cmd
}

// runFleet carries out a run of a fleet and shows its progress.
func runFleet(cmd *cobra.Command, c *cli.Console, opts rollout.Options, a fleetAsked) error {
	ctx := cmd.Context()
	defer owner.GiveBack(opts.Home)
	defer shareRuby(ctx, c, opts.Home, &opts.Program)()
	if c.NeverAsks() {
		opts.Program.Flags = append(opts.Program.Flags, "--yes")
	}
	if a.workers {
		end, err := coordinate(cmd, c, &opts, a.database)
		if err != nil {
			return err
		}
		defer end()
	}
	show, hide, stop := fleetRenderer(ctx, c)
	defer stop()
	opts.Report = show
	if ask := c.Confirm(a.ask); ask != nil {
		opts.Confirm = func(ctx context.Context, r *rollout.Record) error {
			hide()
			showFleetPlan(c, r)
			if ui.FleetCreates(r) { // deploy does not ask before it creates a deployment either
				return nil
			}
			return cli.Agreed(ctx, ask, deployer.Question{Data: r.Numbers.ToDelete > 0, What: ui.FleetQuestion(r)})
		}
	}
	opts.Urgent = c.Signals.Second()
	_, err := rollout.Deploy(ctx, opts)
	return err
}

// showFleetPlan prints the table of fleet plan before a question, on the stream of the
// question.
func showFleetPlan(c *cli.Console, r *rollout.Record) {
	if d := c.Dialogue(); d != nil {
		defer d.Close()
		d.Show(func(out *ui.Writer) { ui.FleetPlan(out, r) })
	}
}

// fleetRenderer returns a function that shows the events of a run. hide clears the
// redrawn lines for a question, and stop ends the function.
func fleetRenderer(ctx context.Context, c *cli.Console) (show func(rollout.Event), hide, stop func()) {
	c.ReportTo(c.Out()) // where finish prints the end of the command
	show, hide, stop = ui.FleetPlain(c.Writer(c.Out())), func() {}, func() {}
	if f := c.Canvas(c.Out()); f != nil {
		show, hide, stop = fleetTerminal(ctx, c, c.Out(), f)
	}
	if c.JSON() {
		show = ui.FleetJSON(c.Redactor.Lines(c.Out()))
	}
	if c.Events() == nil {
		return show, hide, stop
	}
	shown, record := show, ui.FleetJSON(c.Events())
	return func(e rollout.Event) {
		shown(e)
		record(e)
	}, hide, stop
}

func fleetTerminal(ctx context.Context, c *cli.Console, stream io.Writer, f *os.File) (show func(rollout.Event), hide, stop func()) {
	size := func() (width, height int) {
		width, height, err := term.GetSize(int(f.Fd()))
		if err != nil {
			return 80, 24
		}
		return width, height
	}
	return ui.FleetTerminal(ctx, c.Writer(stream),
		func() int { w, _ := size(); return w },
		func() int { _, h := size(); return h })
}

// fleetPath returns the absolute path of a fleet file, which may be missing if its record
// exists.
func fleetPath(c *cli.Console, path string) (string, error) {
	c.Start()
	absolute, err := filepath.Abs(path)
	if err != nil {
		return "", err
	}
	c.Redactor.Name(path, absolute)
	_, err = os.Stat(absolute)
	if err != nil && !cli.Exists(rollout.Path(absolute)) {
		return "", &document.FileError{Err: fmt.Errorf("cannot read the fleet file %s: %w", path, document.Cause(err))}
	}
	return absolute, nil
}

// newAsk returns a command that sends a request to a running run.
func newAsk(c *cli.Console, wish rollout.Wish, short, long string) *cobra.Command {
	return &cobra.Command{
		Use:     string(wish) + " FLEET",
		Short:   short,
		Long:    long,
		Example: fmt.Sprintf("  bootstrap fleet %s fleet.yml", wish),
		Args:    oneFleet,
		RunE: func(cmd *cobra.Command, args []string) error {
			absolute, err := fleetPath(c, args[0])
			if err != nil {
				return err
			}
			return rollout.Ask(absolute, wish, c.Holder())
		},
	}
}

// oneFleet checks the arguments of commands about a fleet file.
func oneFleet(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0:
		return errors.New(strings.TrimPrefix(cmd.CommandPath(), "bootstrap ") + " needs a fleet file: " + cli.Form(cmd))
	case len(args) > 1:
		return cli.TooMany(cmd, args[1:])
	}
	return nil
}

// fleetArgs returns the arguments with which another command reads the same fleet file.
// Values of -v may be secrets and are left out: the command reports missing ones.
func fleetArgs(path string, inputs document.Options) string {
	args := []string{printable.ShellWord(path)}
	for _, of := range []struct {
		flag   string
		values []string
	}{{"-l", inputs.VarsFiles}, {"--var-file", inputs.VarFiles}, {"--vars-env", inputs.VarsEnv}} {
		for _, value := range of.values {
			if value != "-" {
				args = append(args, of.flag+" "+printable.ShellWord(value))
			}
		}
	}
	return strings.Join(args, " ")
}
