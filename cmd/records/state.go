package records

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/owner"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

func newState(c *cli.Console) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "state",
		Short: "Show, import or restore the state file",
		Long: `The state file records what a deployment owns in the cloud. It is beside the
manifest, or where --state says. The folder STATE.backups has the versions after
each of the last 20 runs.

A team keeps the state in a store that all reach, with a lock and a history:
  s3://BUCKET/PREFIX?region=REGION&endpoint=URL
  postgres://USER@HOST/DATABASE?environment=NAME
  https://HOST/PATH`,
		Args: cli.NoArgs,
		RunE: c.Help,
	}
	cmd.AddCommand(newStateShow(c), newStateBackups(c), newStateRestore(c), newStateDiff(c), newStateImport(c), newStateLeftovers(c), newStateRm(c),
		newStatePush(c), newStatePull(c), newStateUnlock(c), newStateMove(c),
		newStateKey(c), newStateTrust(c))
	return cmd
}

// stateChoice selects the state of a command.
type stateChoice struct {
	c    *cli.Console
	file string           // --state
	wait time.Duration    // --lock-wait
	one  instance.Options // --instance, for some of these commands
	// selects is true if the command has --instance.
	selects  bool
	all      bool   // the command is about all instances without --instance
	manifest string // set by split; empty: none was given
	// putsBack is true if the command puts back what a store has lost.
	putsBack bool
}

func (s *stateChoice) flags(f *pflag.FlagSet, locks bool) {
	environment.AddFlag(f, new(string)) // the rest of the file is not for these commands
	cli.StateFlag(f, &s.file)
	if locks {
		cli.LockFlag(f, &s.wait)
	}
}

// instanceFlag adds the flag of commands that work on the state of one instance.
func (s *stateChoice) instanceFlag(f *pflag.FlagSet) {
	s.selects = true
	cli.InstanceFlag(f, &s.one)
}

// refuseSeveral refuses the manifest of several instances for a command that works on the
// state of one.
func refuseSeveral(cmd *cobra.Command, manifest string) error {
	dir := record.Dir(manifest)
	if manifest == "" || cmd.Flags().Lookup("instance") == nil {
		return nil
	}
	return refuseRecorded(dir)
}

// refuseRecorded refuses the deployment of the record in a folder, unless it has no
// instances.
func refuseRecorded(dir string) error {
	if !record.Exists(dir) {
		return nil
	}
	all, err := record.Load(dir)
	if err != nil || len(all.Instances) == 0 {
		return err
	}
	return &instance.ManySelectedError{Names: record.Names(all.Instances)}
}

// split separates the manifest, which --state makes optional, from the other arguments:
// at least min and at most max.
func (s *stateChoice) split(cmd *cobra.Command, args []string, min, max int) (path string, rest []string, err error) {
	manifest, others := "", args
	if len(args) > 0 && (s.file == "" || len(args) > max) {
		manifest, others = args[0], args[1:]
	}
	switch {
	case manifest == "" && s.file == "":
		return "", nil, fmt.Errorf("%s needs a manifest, or the state file: %s", cli.ShortPath(cmd), cli.Form(cmd))
	case len(others) < min:
		return "", nil, fmt.Errorf("%s needs one more argument: %s", cli.ShortPath(cmd), cli.Form(cmd))
	case len(others) > max:
		return "", nil, cli.TooMany(cmd, args)
	}
	s.manifest = manifest
	s.c.NameTarget(&deployer.Options{Options: instance.Options{Manifest: manifest, StateFile: s.file, Instance: s.one.Instance}})
	if team.IsAddress(s.file) { // The record of instances is in it.
		s.one.Manifest = manifest
		return s.file, others, nil
	}
	if s.one.Instance != "" {
		s.one.Manifest, s.one.StateFile = manifest, s.file
		err = cli.SelectInstance(cmd, &s.one)
		return s.one.StateFile, others, err
	}
	if s.file == "" && !s.all {
		if err := refuseSeveral(cmd, manifest); err != nil {
			return "", nil, err
		}
	}
	path, err = file.Path(manifest, s.file)
	return path, others, err
}

// open finds the state of a command without other arguments.
func (s *stateChoice) open(cmd *cobra.Command, args []string) (stateFile, error) {
	path, _, err := s.split(cmd, args, 0, 0)
	if err != nil {
		return stateFile{}, err
	}
	s.c.Start()
	return s.at(cmd.Context(), path)
}

// recordFolder returns the folder of the record of several instances, which need not exist,
// for the state at a path.
func (s *stateChoice) recordFolder(path string) string {
	if s.one.Of != nil {
		return s.one.Of.Record.Dir()
	}
	return record.DirOf("", path)
}

// at finds the state at a path or in a store, or that of the selected instance there.
func (s *stateChoice) at(ctx context.Context, path string) (stateFile, error) {
	at, err := stateIn(ctx, s.c, path, instance.Config{LockWait: s.wait}, s.putsBack)
	if err == nil {
		err = s.c.LookAtStates(at.opts.Team, s.recordFolder(path), s.manifest)
	}
	if err != nil || at.opts.Team == nil || !s.selects {
		s.one.OwnState(&at.opts)
		return at, err
	}
	from := s.one
	from.Team, from.StateFile = at.opts.Team, at.path
	if from.Instance == "" && s.all {
		return at, nil
	}
	if from.Instance == "" && at.lost != nil {
		return at, nil
	}
	if from.Instance == "" {
		return at, refuseRecorded(from.RecordFolder())
	}
	if err := from.SelectInstance(); err != nil {
		return at, err
	}
	at.path, at.name, at.opts.Team = from.StateFile, from.Team.Place(), from.Team
	from.OwnState(&at.opts)
	return at, nil
}

// openStore finds a state in the store of a team, for commands that settle the failure of
// a run: they begin with this machine's copy as that run has left it.
func (s *stateChoice) openStore(cmd *cobra.Command, args []string) (stateFile, error) {
	path, _, err := s.split(cmd, args, 0, 0)
	if err != nil {
		return stateFile{}, err
	}
	s.c.Start()
	if !team.IsAddress(path) {
		return stateFile{}, cli.ErrNoStore
	}
	return stateIn(cmd.Context(), s.c, path, instance.Config{LockWait: s.wait, KeepCopy: true}, true)
}

// stateFile is the state of a command.
type stateFile struct {
	path           string // path of the file, or of this machine's copy of a store
	name, argument string // path or store, for people and for --state
	opts           file.Options
	lost           *team.DocumentsLostError // what the store has lost; nil: nothing
}

// stateAt finds the state at a path or in a store, for a command that prints its
// result to standard output: messages go to standard error.
func stateAt(ctx context.Context, c *cli.Console, path string, wait time.Duration) (stateFile, error) {
	return stateIn(ctx, c, path, instance.Config{LockWait: wait}, false)
}

func stateIn(ctx context.Context, c *cli.Console, path string, cfg instance.Config, putsBack bool) (_ stateFile, err error) {
	if cfg.Home, err = c.BoshHome(); err != nil {
		return stateFile{}, err
	}
	c.ResultOnly()
	s := stateFile{path: path, name: path, argument: path}
	if putsBack {
		cfg.Lost = func(lost *team.DocumentsLostError) { s.lost = lost }
	}
	if team.IsAddress(path) {
		t, err := c.OpenTeam(ctx, cfg, path, &instance.Options{})
		if err != nil {
			return s, err
		}
		s.path, s.name, s.argument, s.opts.Team = t.StatePath(), t.Place(), t.Argument(), t
	}
	path = s.path
	if err := owner.Look(c.Warn, cfg.Home, path); err != nil {
		return s, err
	}
	s.opts = file.Options{
		Holder:   c.Holder(),
		Wait:     cfg.LockWait,
		Home:     cfg.Home,
		Team:     s.opts.Team,
		PutsBack: putsBack,
		Waiting:  func(l *file.LockedError) { c.Say(report.Info, fmt.Sprintf("Waiting up to %v: %v", cfg.LockWait, l)) },
		Warn:     func(err error) { c.Say(report.Warning, err.Error()) },
	}
	return s, nil
}

// change opens a state, which must exist unless create is true, changes it,
// and prints it.
func (s *stateChoice) change(ctx context.Context, path string, create bool, change func(*state.State) error) error {
	at, err := s.at(ctx, path)
	if err != nil {
		return err
	}
	if !create {
		if _, err := at.read(ctx); err != nil {
			return err
		}
	}
	f, err := file.Open(ctx, at.path, at.opts)
	if err != nil {
		return err
	}
	defer f.Close()
	for _, note := range f.Notes() {
		s.c.Say(report.Info, note)
	}
	if err := errors.Join(f.Update(change), f.Unsent()); err != nil {
		return err
	}
	return printState(s.c, at.name, f.Get())
}
