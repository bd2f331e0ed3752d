package instances

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/environment"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/state/file"
	"bootstrap/state/team"
)

// Command is a command that changes instances, each in a process of its own.
type Command struct {
	Console *cli.Console
	Cobra   *cobra.Command
	Dir     string // folder of the record
}

// Refused returns an error if the state is in the store of a team.
func (s *Command) Refused(opts deployer.Options) error {
	if team.IsAddress(opts.StateFile) {
		return cli.WrongUsage(s.Cobra, errors.New(cli.SeveralInStore))
	}
	return nil
}

// Lock locks the deployment for a run.
func (s *Command) Lock(opts deployer.Options) (unlock func(), err error) {
	if err := s.Refused(opts); err != nil {
		return nil, err
	}
	return Lock(s.Cobra.Context(), s.Dir, opts)
}

// Lock locks the deployment whose record is in a folder.
func Lock(ctx context.Context, dir string, opts deployer.Options) (unlock func(), err error) {
	lock, err := file.LockDeployment(ctx, record.LockPath(dir), opts.Holder)
	if err != nil {
		return nil, err
	}
	return func() {
		lock.Remove()
		_ = os.Remove(dir) // It stays if it contains a record.
	}, nil
}

// Options returns the options of a run. flags are added to those of the given commands
// about one instance.
func (s *Command) Options(opts deployer.Options, flags map[string][]string) deployment.Options {
	c := s.Console
	report := ui.DeploymentPlain(c.Writer(c.Out()))
	if c.JSON() {
		report = ui.DeploymentJSON(c.Redactor.Lines(c.Out()))
	}
	if events := c.Events(); events != nil {
		shown, kept := report, ui.DeploymentJSON(events)
		report = func(e deployment.Event) {
			shown(e)
			kept(e)
		}
	}
	of := func(command string) []string {
		other, _, err := s.Cobra.Root().Find([]string{command})
		if err != nil {
			return nil
		}
		list := append(c.ChildFlags(s.Cobra, other), flags[command]...)
		if command == "deploy" || command == "delete" || command == "stop" {
			list = append(list, "--yes")
		}
		return list
	}
	advice := func(err error) string {
		_, hint := exit.Judge(err)
		if name := exit.Name(err); name != "" {
			hint = strings.TrimPrefix(fmt.Sprintf("%s; \"bootstrap explain %s\" says more", hint, name), "; ")
		}
		return hint
	}
	return deployment.Options{
		Base: opts, Advice: advice,
		Manifest: opts.Manifest, Self: opts.Self, Env: environment.ForMembers(c.Env), Flags: of,
		Stdin: opts.Inputs.Piped, Logs: record.LogsIn(s.Dir), Report: report,
	}
}

// Await waits for commands about instances that another run has started.
func (s *Command) Await(ctx context.Context, opts deployer.Options, r *record.Record) error {
	return deployment.Await(ctx, r, func(instance string, by error) {
		opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("Waiting for another process that changes %s: %v", instance, by)})
	})
}

// Lifecycle stops, starts or restarts the jobs of the selected instances that have a VM.
func (s *Selection) Lifecycle(c *cli.Console, cmd *cobra.Command, opts deployer.Options, does deployment.Lifecycle) error {
	return c.Deployment(cmd.Context(), opts, func(ctx context.Context, opts deployer.Options) error {
		all := &Command{Console: c, Cobra: cmd, Dir: s.Record.Dir()}
		unlock, err := all.Lock(opts)
		if err != nil {
			return err
		}
		defer unlock()
		now, err := record.Load(all.Dir) // Another run may have changed it before the lock.
		if err != nil {
			return err
		}
		if err := all.Await(ctx, opts, now); err != nil {
			return err
		}
		known := deployment.Recorded(now, opts.Home)
		selected, unknown := now.Select(s.Names)
		if len(selected) == 0 {
			return &instance.UnknownInstanceError{Instance: unknown, Known: record.Names(now.Instances), Dir: all.Dir}
		}
		var list []*record.Instance
		for _, in := range selected {
			if vm := known(in); vm.CID == "" && (does != deployment.Start || !vm.Detached) {
				opts.Report(report.Event{Time: time.Now(), Kind: report.Info, Message: fmt.Sprintf("%s has no VM: nothing to %s", in.Name(), does)})
				continue
			}
			list = append(list, in)
		}
		o := all.Options(opts, nil)
		_ = os.RemoveAll(o.Logs) // from an earlier run
		return deployment.RunLifecycle(ctx, o, does, now, s.Names, list)
	})
}
