package records

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"

	"bootstrap/cmd/cli"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/report"
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

// hasRecord reports whether the place has the record of several instances.
func (s stateFile) hasRecord() bool { return record.Exists(s.place().Dir()) }

// deployed returns the options of a deployment with the state.
func (s stateFile) deployed(c *cli.Console) deployer.Options {
	from := instance.Options{StateFile: s.path, Team: s.opts.Team}
	from.Inputs.Keys = c.Keys()
	return deployer.Options{Config: instance.Config{Home: s.opts.Home}, Options: from}
}

// move moves the state to another place, or the states of several instances.
func (s stateFile) move(ctx context.Context, c *cli.Console, to stateFile) error {
	several, source, target := s.hasRecord(), s.path, to.path
	to.opts.Unpack = instance.Config{Home: to.opts.Home}.TakeKept
	inputs, unread := deployer.ReadInputs(ctx, s.deployed(c))
	if err := deployment.Move(ctx, s.place(), to.place()); err != nil {
		return err
	}
	if err := cmp.Or(unread, deployer.TakeInputs(ctx, to.deployed(c), inputs)); err != nil {
		c.Say(report.Warning, fmt.Sprintf("%v; deploy --version cannot deploy the earlier versions again", err))
	}
	what, left := "The state is in ", filepath.Base(s.path)+" has only a note now"
	if several {
		source, target = s.place().Dir(), to.place().Dir()
		what, left = "The states of all instances are in ", "The folder "+filepath.Base(source)+" has only notes now"
	}
	if err := moveLinks(c, source, target); err != nil {
		return err
	}
	text := what + to.name + " now: use it with --state " + printable.ShellWord(to.argument) + ", BOOTSTRAP_STATE or bootstrap.yml"
	if s.opts.Team == nil {
		text += ". " + left + ", so that no run uses it any more: if it is in git, commit it for the other machines"
	}
	if to.opts.Team == nil {
		if vars, err := s.opts.Team.Vars(); err == nil && vars != nil {
			text += ". Its vars store stays in " + s.name + ": bootstrap secrets decrypt --state " + printable.ShellWord(s.argument) + " prints it"
		}
	}
	return printDone(c, true, text, "")
}
