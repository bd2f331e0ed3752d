package records

import (
	"context"
	"errors"
	"path/filepath"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployment"
	"bootstrap/deployment/record"
	"bootstrap/internal/printable"
)

// place returns where the record and the states of several instances are.
func (s stateFile) place() deployment.Place {
	return deployment.Place{Name: s.name, Path: s.path, Opts: s.opts}
}

// moveLinks records the new place as the source of the links that the deployment shares
// on this machine.
func moveLinks(c *cli.Console, from, to string) error {
	home, err := c.BoshHome()
	if err != nil {
		return err
	}
	return deployer.MoveLinks(instance.Config{Home: home, Getenv: c.Getenv}, from, to)
}

// refuseWorkers returns an error if a killed run may have left compilation VMs: their states
// are not moved, so no command would delete them.
func (s stateFile) refuseWorkers(ctx context.Context) error {
	count, err := instance.Options{Team: s.opts.Team, StateFile: s.path}.WorkersLeft(ctx)
	if err != nil || count == 0 {
		return err
	}
	return errors.New("cannot move the state, because a run that was killed may have left compilation VMs: the next `bootstrap deploy MANIFEST` or `bootstrap compile MANIFEST` deletes them")
}

// hasRecord reports whether the place has the record of several instances.
func (s stateFile) hasRecord() bool { return record.Exists(s.place().Dir()) }

// moveSeveral moves a deployment with several instances to another place.
func moveSeveral(ctx context.Context, c *cli.Console, from, to stateFile) error {
	if err := deployment.Move(ctx, from.place(), to.place()); err != nil {
		return err
	}
	if err := moveLinks(c, from.place().Dir(), to.place().Dir()); err != nil {
		return err
	}
	text := "The states of all instances are in " + to.name + " now: use it with --state " + printable.ShellWord(to.argument) + ", BOOTSTRAP_STATE or bootstrap.yml"
	if from.opts.Team == nil {
		text += ". The folder " + filepath.Base(from.place().Dir()) + " has only notes now, so that no run uses it any more: if it is in git, commit it for the other machines"
	}
	return printDone(c, true, text, "")
}
