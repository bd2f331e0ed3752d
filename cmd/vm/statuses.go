package vm

import (
	"context"
	"slices"

	"bootstrap/cmd/cli"
	"bootstrap/cmd/exit"
	"bootstrap/cmd/instances"
	"bootstrap/cmd/ui"
	"bootstrap/deployer"
	"bootstrap/deployer/instance"
	"bootstrap/deployer/observe"
)

// isDoubt reports whether a document of a store is not believed.
func isDoubt(err error) bool {
	code, _ := exit.Judge(err)
	return err != nil && code == exit.NotBelieved
}

// statusOfAll prints the states of several instances.
func statusOfAll(ctx context.Context, c *cli.Console, of *instances.Selection, opts deployer.Options, ps, vitals bool) error {
	all := &observe.InstanceStates{Deployment: of.Record.Name, Well: true, Instances: make([]observe.InstanceState, len(of.List))}
	seen := make([]*observe.Condition, len(of.List))
	errs := of.Each(ctx, opts, func(ctx context.Context, i int, opts deployer.Options) (err error) {
		seen[i], err = observe.Status(ctx, opts.Config, opts.Options)
		return err
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	silent := false
	running := observe.InProgress(ctx, instance.Options{Of: &instance.Member{Record: of.Record}, Team: opts.Team}, "")
	for i, in := range of.List {
		s := observe.StateOf(in, seen[i], errs[i], running)
		one, err := of.Options(opts, i)
		if err != nil {
			return err
		}
		for j, text := range s.Problems {
			s.Problems[j] = c.WithTargetOf(&one, text)
		}
		all.Instances[i], all.Well, silent = s, all.Well && s.Well, silent || s.State == observe.Unreachable
	}
	if c.JSON() {
		c.PrintObject("instance_states", all)
	} else {
		c.Print(func(out *ui.Writer) { ui.InstanceStates(out, all, ps, vitals) })
	}
	switch {
	case all.Well:
		return exit.Code(exit.Done)
	case slices.ContainsFunc(errs, isDoubt):
		return exit.Code(exit.NotBelieved)
	case silent:
		return exit.Code(exit.Agent)
	}
	return exit.Code(exit.Failed)
}
