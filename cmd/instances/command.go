package instances

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/state/file"
)

// Command is a command that changes instances.
type Command struct {
	Console *cli.Console
	Cobra   *cobra.Command
	Dir     string // folder of the record

	// Progress is where the progress is shown without --json; nil: on standard output.
	Progress io.Writer

	// confirm is set by Lock. It returns an error if another run has taken the lock.
	confirm func(context.Context) error
}

// Lock locks the deployment for a run.
func (s *Command) Lock(ctx context.Context, opts deployer.Options) (unlock func(), err error) {
	unlock, s.confirm, err = lock(ctx, s.Dir, opts)
	return unlock, err
}

// Lock locks the deployment whose record is in a folder.
func Lock(ctx context.Context, dir string, opts deployer.Options) (unlock func(), err error) {
	unlock, _, err = lock(ctx, dir, opts)
	return unlock, err
}

// lock locks a deployment, and copies the record of its instances from its store, if it is in
// one. confirm returns an error if another run has taken the lock.
func lock(ctx context.Context, dir string, opts deployer.Options) (unlock func(), confirm func(context.Context) error, err error) {
	warn := func(err error) {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: err.Error()})
	}
	lock, err := file.LockRecord(ctx, opts.Team, record.LockPath(dir), file.Options{Holder: opts.Holder, Warn: warn})
	if err != nil {
		return nil, nil, err
	}
	return func() {
		keepVersion(ctx, dir, opts)
		lock.Unlock(ctx, warn)
	}, lock.Confirm, nil
}

// keepVersion keeps the record and the states after a run as a version of the deployment,
// if the run has changed something.
func keepVersion(ctx context.Context, dir string, opts deployer.Options) {
	ctx = context.WithoutCancel(ctx) // each request has a deadline
	if err := deployment.KeepVersion(ctx, dir, file.Options{Holder: opts.Holder, Home: opts.Home, Team: opts.Team}, &opts.Holder); err != nil {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Warning, Message: err.Error()})
	}
}

// Options returns the options of a run.
func (s *Command) Options(opts deployer.Options) deployment.Options {
	c := s.Console
	shown := s.Progress
	if shown == nil {
		shown = c.Out()
	}
	report := ui.DeploymentPlain(c.Writer(shown))
	if c.JSON() {
		report = ui.DeploymentJSON(c.Redactor.Lines(c.Out()))
	}
	if events := c.Events(); events != nil {
		show, kept := report, ui.DeploymentJSON(events)
		report = func(e deployment.Event) {
			show(e)
			kept(e)
		}
	}
	shownBefore := report
	report = func(e deployment.Event) {
		shownBefore(e)
		s.changed(opts.Home, e)
	}
	advice := func(err error) string {
		_, hint := exit.Judge(err)
		if name := exit.Name(err); name != "" {
			hint = strings.TrimPrefix(fmt.Sprintf("%s; \"bootstrap explain %s\" says more", hint, name), "; ")
		}
		return hint
	}
	return deployment.Options{
		Base: opts, Advice: advice, Confirm: s.confirm, Report: report, Logs: record.LogsIn(s.Dir), Output: c.InstanceLog,
	}
}

// changed records how an instance ended, as a change of the deployment.
func (s *Command) changed(home string, e deployment.Event) {
	add := func(what string, names ...string) { s.Console.Changes.Several(home, s.Dir, what, names...) }
	switch e.Status {
	case deployment.Created:
		add("create", e.Instance)
	case deployment.Deleted:
		add("delete", e.Instance)
	case deployment.Done:
		add(cmp.Or(string(e.Command), "deploy"), e.Instance)
	case deployment.Failed, deployment.Interrupted:
		add("")
	}
}

// Await waits for commands about instances that another run has started.
func (s *Command) Await(ctx context.Context, opts deployer.Options, r *record.Record) error {
	notify := func(instance string, by error) {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("Waiting for another process that changes %s: %v", instance, by)})
	}
	return deployment.Await(ctx, opts.Team, r, notify)
}

// Lifecycle stops, starts or restarts the jobs of the selected instances that have a VM. do
// does that for one.
func (s *Selection) Lifecycle(c *cli.Console, cmd *cobra.Command, opts deployer.Options, does deployment.Lifecycle, do func(context.Context, deployer.Options) error) error {
	return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
		all := &Command{Console: c, Cobra: cmd, Dir: s.Record.Dir()}
		unlock, err := all.Lock(ctx, opts)
		if err != nil {
			return err
		}
		defer unlock()
		if err := s.Reload(opts); err != nil {
			return err
		}
		if err := all.Await(ctx, opts, s.Record); err != nil {
			return err
		}
		var list []*record.Instance
		for i, in := range s.List {
			if in.Ignored {
				opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("%s is ignored: it stays as it is", in.Name())})
				continue
			}
			if s.lacksVM(ctx, opts, i, does) {
				opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("%s has no VM: nothing to %s", in.Name(), does)})
				continue
			}
			list = append(list, in)
		}
		run := func(opts deployer.Options) error {
			o := all.Options(opts)
			if err := o.CheckInputs(ctx, s.Record, list); err != nil {
				return err
			}
			_ = os.RemoveAll(o.Logs) // from an earlier run
			return deployment.RunLifecycle(ctx, o, does, do, s.Record, s.Names, list)
		}
		if does == deployment.Start && opts.Manifest != "" && s.detached(opts, list) {
			return deployer.ReadDetached(ctx, opts, s.Record, run)
		}
		if err := RefusePipes(string(does)+" several instances", opts); err != nil {
			return err
		}
		return run(opts)
	})
}

// detached reports whether bootstrap stop --hard has deleted the VM of an instance.
func (s *Selection) detached(opts deployer.Options, list []*record.Instance) bool {
	return slices.ContainsFunc(list, func(in *record.Instance) bool {
		st, found, err := s.Record.ReadState(in, opts.Home)
		return err == nil && found && st.Detached() // An error is reported by the command about the instance.
	})
}

// lacksVM reports whether an instance has no VM that the command is about. If its state is
// damaged or lost, that is unknown: the command about the instance reports the error.
func (s *Selection) lacksVM(ctx context.Context, opts deployer.Options, i int, does deployment.Lifecycle) bool {
	one, err := s.Options(opts, i)
	if err != nil {
		return false
	}
	st, found, err := one.ReadState(one.StateFile, opts.Home)
	switch {
	case err != nil:
		return false
	case !found:
		return one.FindLost(ctx, one.StateFile) == nil
	}
	return st.CurrentVMCID == "" && (does != deployment.Start || !st.Detached())
}
