package deployer

import (
	"context"
	"errors"
	"os"
	"runtime"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/instance"
	"bootstrap/manifest/document"
)

// checkMachine finds problems of this machine that would stop the deploy after it has
// changed the running VM. checkCloud does the same for the cloud.
func (r *run) checkMachine(ctx context.Context) error {
	if r.plan.Applies() {
		if _, err := r.t.Env.Engine(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.machineProblems(ctx)...)
}

// machineProblems returns these problems, each as a sentence with a remedy.
func (r *run) machineProblems(ctx context.Context) []error {
	if !r.plan.Touches() {
		return nil
	}
	problems := []error{cpi.Supported(runtime.GOOS), r.host.CheckRoom(r.roomForVM())}
	if problems[0] != nil {
		return problems[:1]
	}
	if r.plan.NewVM() {
		vm := ""
		if r.look.Facts.HasVM {
			vm = r.t.State.Get().CurrentVMCID
		}
		problems = append(problems, r.host.CheckPorts(ctx, vm), r.host.CheckPassword(ctx))
		if r.t.CPI.EffectiveAPI() == 1 {
			problems = append(problems, r.t.CPI.CheckTunnel(r.in.Manifest.CPI.SSHTunnel))
		}
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// roomForVM returns how many bytes the packages of a VM on this machine need at least:
// they are stored as uploaded, compiled and installed.
func (r *run) roomForVM() uint64 {
	if r.packages.delivery == nil || !r.plan.NewVM() || !r.in.EmbeddedCPI() {
		return 0
	}
	var sum uint64
	for _, up := range r.packages.delivery.blobs {
		sum += 3 * sizeOf(up.path)
	}
	return sum
}

func sizeOf(path string) uint64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0 // A later step reports a better error.
	}
	return uint64(info.Size())
}

// checkMonit renders the monit files before anything is stopped or created, and keeps
// none. Templates that cannot be rendered are left to the step that renders all of them.
func (r *run) checkMonit(ctx context.Context) error {
	if !r.plan.Applies() {
		return nil
	}
	defer func(address string) { r.address = address }(r.address)
	if address, dynamic := r.in.Manifest.Address(); !dynamic {
		r.address = address
	} else if r.address == "" {
		r.address = anyAddress
	}
	jobs, err := r.jobs.templateJobs()
	if err != nil {
		return nil
	}
	on := runsOn(r.in.Manifest.ResourcePool.Stemcell, r.artifacts.Stemcell)
	c := templateCheck{manifest: r.in.Manifest, on: &on}
	if err := c.renderMonit(ctx, r.t.Env, jobs); err != nil {
		return err
	}
	var problems document.Problems
	for _, p := range c.problems {
		if p.Warning {
			r.t.Out.Warning(instance.Place(p))
		} else {
			problems = append(problems, p)
		}
	}
	if len(problems) > 0 {
		return &problems
	}
	return nil
}
