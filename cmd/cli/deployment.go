package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/addresses"
	"bootstrap/cmd/ui"
	"bootstrap/cmd/values"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment/record"
	"bootstrap/internal/guard"
	"bootstrap/internal/owner"
	"bootstrap/internal/scratch"
	"bootstrap/state"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Memory is the folder for files in memory, if the machine has one.
const Memory = "/dev/shm"

// Deployment runs a command on a deployment, after completing the options from the
// environment and the terminal.
func (c *Console) Deployment(ctx context.Context, opts deployer.Options, run func(context.Context, deployer.Options) error) error {
	if strings.Contains(opts.Manifest, "://") {
		return WrongUsage(c.line.root, errors.New("a manifest is a file on this machine, and not a URL: download it, for example with curl -O, and name the file"))
	}
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("cannot find this program's own path: %w", err)
	}
	scratch.Sweep(os.TempDir(), Memory) // removes the files of killed commands
	for _, pair := range opts.Inputs.Sources.Links {
		_, address, _ := strings.Cut(pair, "=")
		c.Redactor.Add(team.Secrets(address)...)
	}
	c.line.target = &opts
	if opts.Instance != "" { // The record of the instances is in the store.
		if err := c.OpenStateStore(ctx, &opts); err != nil {
			return err
		}
	}
	if err := SelectInstance(c.line.root, &opts.Options); err != nil {
		return err
	}
	opts.Home = home
	opts.Self = self
	opts.Getenv = c.Getenv
	opts.Usual = c.line.full.Usual()
	opts.PassEnv = opts.Inputs.PassEnv
	if err := c.FindDatabase(&opts.Database); err != nil {
		return err
	}
	opts.Holder = c.Holder()
	offerEmbedded(&opts.Config, self)
	c.Redactor.Add(opts.OldMBus)
	opts.Redact = c.Redactor.String
	opts.Secret = c.Redactor.Add
	opts.Name = c.Redactor.Name
	c.publishPaths(home, opts)
	opts.OpenLog = c.openLog
	if opts.Ruby == "" {
		opts.Ruby = c.Getenv("BOOTSTRAP_RUBY")
	}
	if c.Reports.show == nil {
		c.Reports.show = c.Renderer(c.out)
	}
	opts.Report = func(e report.Event) {
		if e.Kind == report.Ended { // The method finish prints it.
			c.end.outcome, c.end.timeline = e.Outcome, e.Timeline
			return
		}
		c.Report(e)
	}
	opts.Running = &c.Signals.running
	opts.Trace = c.Trace
	stop := guard.AfterDone(ctx, func() {
		var panicked *guard.Panic
		switch {
		case errors.As(context.Cause(ctx), &panicked):
			c.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: "a defect of bootstrap ends this run: finishing the running step; Ctrl-C stops at once"})
		case errors.Is(context.Cause(ctx), ErrSaved):
			c.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: "Files have changed: finishing the running step before the next deploy"})
		case !c.Signals.ends.Load() && !c.Signals.asking.Load():
			c.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: interrupted(c.Signals.running.List(), time.Now())})
		}
	})
	defer stop()
	if err := c.OpenStateStore(ctx, &opts); err != nil {
		return err
	}
	statePath, err := file.Path(opts.Manifest, opts.StateFile)
	if err != nil {
		return err
	}
	if err := owner.Look(c.Warn, home, statePath, opts.Inputs.VarsStore); err != nil {
		return err
	}
	if err := c.LookAtStates(opts.Team, opts.RecordFolder(), opts.Manifest); err != nil {
		return err
	}
	if err := checkStates(opts, home); err != nil {
		return err
	}
	defer owner.GiveBack(home)
	opts.Common = instance.NewCommon(opts.Config)
	defer opts.Common.Close()
	began := time.Now()
	err = run(ctx, opts)
	c.KeepChanges(began, err)
	return err
}

// LookAtStates refuses the states and the record of several instances in a folder, and their
// versions, if another user has made them or may have changed them. Copies of a store, in
// ~/.bosh, are those of this user.
func (c *Console) LookAtStates(t *team.Copy, dir, manifest string) error {
	if t != nil {
		return nil
	}
	for _, folder := range []string{dir, record.VersionsIn(dir)} {
		if err := owner.LookAtStates(filepath.Join(folder, record.FileName), manifest, c.Getenv); err != nil {
			return err
		}
	}
	return nil
}

// checkStates refuses states that are not those of the instances that the options select,
// before anything is changed.
func checkStates(opts deployer.Options, home string) error {
	dir := opts.RecordFolder()
	if !record.Exists(dir) {
		return nil
	}
	all, list, err := opts.Selected()
	if err != nil {
		return nil // The command reports it.
	}
	if opts.Instance == "" {
		list = slices.Concat(list, all.Former)
	}
	return all.CheckStates(list, home)
}

// SelectInstance finds the instance of --instance. A store must be open.
func SelectInstance(cmd *cobra.Command, from *instance.Options) error {
	switch {
	case from.Instance == "":
		return nil
	case from.Manifest == "-" || from.Manifest == "" && from.StateFile == "":
		return WrongUsage(cmd, errors.New("--instance needs the manifest of the deployment, beside which its instances are recorded: name it"))
	}
	return from.SelectInstance()
}

// FindDatabase sets the address ledger from the environment, unless the flag names one.
// Its password is never printed.
func (c *Console) FindDatabase(address *string) error {
	if *address == "" {
		if err := (*values.Database)(address).Set(c.Getenv("BOOTSTRAP_DATABASE")); err != nil {
			return WrongUsage(c.line.root, errors.New("BOOTSTRAP_DATABASE: expected a path, or postgres://user@host/database"))
		}
	}
	c.Redactor.Add(addresses.Secrets(*address)...)
	return nil
}

// publishPaths adds the names of the deployment's files to the public names of the
// redactor: a password may equal a word in them.
func (c *Console) publishPaths(home string, opts deployer.Options) {
	paths := []string{home, opts.Manifest, opts.StateFile, opts.Inputs.VarsStore}
	if path, err := file.Path(opts.Manifest, opts.StateFile); err == nil {
		paths = append(paths, path)
	}
	for _, p := range slices.Concat(paths, []string{opts.Inputs.FlagsFile, opts.Inputs.CloudProvider}, opts.Inputs.Ops, opts.Inputs.CloudConfigs, opts.Inputs.RuntimeConfigs, opts.Inputs.VarsFiles) {
		if p == "" {
			continue
		}
		c.Redactor.Name(p)
		if abs, err := filepath.Abs(p); err == nil {
			c.Redactor.Name(abs)
		}
	}
}

// Holder describes this process for others that wait for its lock.
func (c *Console) Holder() state.Holder {
	h := state.Holder{PID: os.Getpid(), Command: c.line.shown, Since: time.Now().Truncate(time.Second)}
	h.Host, _ = os.Hostname() // The name is only used in messages.
	if u, err := user.Current(); err == nil {
		h.User = u.Username
	}
	return h
}

// OpenStateStore opens the store of a team if the options name one, and it is not open
// yet.
func (c *Console) OpenStateStore(ctx context.Context, opts *deployer.Options) error {
	if !team.IsAddress(opts.StateFile) {
		return nil
	}
	c.Start()
	_, err := c.OpenTeam(ctx, opts.Config, opts.StateFile, &opts.Options)
	return err
}

// OpenStore opens the store of a team for a command that works only on stores.
func (c *Console) OpenStore(ctx context.Context, address string, cfg instance.Config, from *instance.Options) (*team.Copy, error) {
	if !team.IsAddress(address) {
		return nil, ErrNoStore
	}
	return c.OpenTeam(ctx, cfg, address, from)
}

// OpenTeam opens the store of a team, as the state of a deployment.
func (c *Console) OpenTeam(ctx context.Context, cfg instance.Config, address string, from *instance.Options) (*team.Copy, error) {
	c.Redactor.Add(team.Secrets(address)...)
	cfg.Holder, cfg.Getenv = c.Holder(), c.Getenv
	var err error
	if cfg.Home, err = c.BoshHome(); err != nil {
		return nil, err
	}
	if cfg.StateKey, err = c.givenKey(); err != nil {
		return nil, err
	}
	if from.Inputs.Keys == nil {
		from.Inputs.Keys = c.Keys()
	}
	t, err := cfg.OpenTeam(ctx, address, from, func(e *team.HeldError) {
		c.Say(report.Info, fmt.Sprintf("Waiting up to %v: %v", cfg.LockWait, e))
	}, c.sayTrust)
	if err != nil {
		return nil, err
	}
	c.closers = append(c.closers, t.Close)
	c.Redactor.Name(t.Place(), t.StatePath(), t.VarsPath())
	return t, nil
}

// ErrNoStore is the error of commands that work only on the stores of teams.
var ErrNoStore = errors.New("the state is a file on this machine: give the store of a team with --state, such as s3://BUCKET/PREFIX")

// openLog opens a log file for appending; one larger than 10 MiB is emptied
// first.
func (c *Console) openLog(path string) (io.WriteCloser, error) {
	flags := os.O_CREATE | os.O_WRONLY | os.O_APPEND
	if info, err := os.Stat(path); err == nil && info.Size() > 10<<20 {
		flags |= os.O_TRUNC
	}
	f, err := os.OpenFile(path, flags, 0o600)
	if err != nil {
		return nil, fmt.Errorf("cannot open the log file: %w", err)
	}
	return &logFile{Writer: c.Redactor.LogWriter(f), file: f}, nil
}

// logFile is a file whose text is redacted before it is written.
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
