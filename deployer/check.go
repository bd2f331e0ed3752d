package deployer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
)

// checkMachine finds problems of this machine that would stop the deploy after
// the running VM was changed. checkCloud does the same by asking the CPI.
func (r *run) checkMachine(ctx context.Context) error {
	if r.plan.Applies() {
		if _, err := r.t.Env.Engine(ctx); err != nil {
			return err
		}
	}
	return errors.Join(r.machineProblems(ctx)...)
}

// machineProblems returns these problems, each a sentence with what to do.
func (r *run) machineProblems(ctx context.Context) []error {
	if !r.plan.Touches() {
		return nil
	}
	problems := []error{cpi.Supported(runtime.GOOS), r.t.Host.CheckRoom(r.roomForVM())}
	if problems[0] != nil {
		return problems[:1]
	}
	if r.plan.NewVM() {
		vm := ""
		if r.look.Facts.HasVM {
			vm = r.t.State.Get().CurrentVMCID
		}
		problems = append(problems, r.t.Host.CheckPorts(ctx, vm), r.t.Host.CheckPassword(ctx))
		if r.t.CPI.EffectiveAPI() == 1 {
			problems = append(problems, r.t.CPI.CheckTunnel())
		}
	}
	return slices.DeleteFunc(problems, func(err error) bool { return err == nil })
}

// checkCloud finds what is missing in the cloud, before the running VM is
// changed.
func (r *run) checkCloud(ctx context.Context) error {
	if err := r.t.CPI.Connect(ctx); err != nil {
		return err
	}
	if r.t.CPI.Serves() && r.plan.NewVM() {
		if err := r.t.CPI.CheckTunnel(); err != nil {
			return err
		}
	}
	err := r.askCloud(ctx)
	var refused *cpi.Error
	if errors.As(err, &refused) {
		err = fmt.Errorf("%w; nothing was changed; correct cloud_provider.properties or the cause that the CPI names, then run `bootstrap deploy MANIFEST` again", err)
	}
	return err
}

func (r *run) askCloud(ctx context.Context) error {
	st := r.t.State.Get()
	if r.asksForVM() {
		if err := r.look.ForVM(ctx, st.CurrentVMCID, false); err != nil {
			return err
		}
	}
	if d := st.Disk(); d != nil && !r.look.Facts.DiskAsked {
		if err := r.look.ForDisk(ctx, d); err != nil {
			return err
		}
		if r.look.Facts.DiskGone {
			return &plan.DiskGoneError{CID: d.CID, Mounted: slices.Contains(r.look.Facts.Mounted, d.CID)}
		}
	}
	return r.stemcells.look(ctx)
}

// asksForVM reports whether the CPI is asked whether the running VM exists: a
// CPI with a wrong endpoint or wrong credentials then fails before anything is
// changed.
func (r *run) asksForVM() bool {
	return r.look.Facts.Answers && r.plan.On(plan.VM) != plan.Create
}

// roomForVM returns how many bytes the packages of a VM on this machine take at
// least: they are stored as uploaded, compiled and installed.
func (r *run) roomForVM() uint64 {
	if r.packages.delivery == nil || !r.plan.NewVM() || !r.t.EmbeddedCPI() {
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
		return 0 // reading it fails with a better error
	}
	return uint64(info.Size())
}
