package deployer

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"bootstrap/cpi"
	"bootstrap/deployer/plan"
)

// checkCloud finds problems in the cloud before the running VM is changed.
func (r *run) checkCloud(ctx context.Context, s plan.Step) error {
	if err := r.t.CPI.Connect(ctx); err != nil {
		return err
	}
	if r.t.CPI.Serves() && s.With.New {
		if err := r.t.CPI.CheckTunnel(r.in.Manifest.CPI.SSHTunnel); err != nil {
			return err
		}
	}
	err := r.askCloud(ctx, s.With)
	var refused *cpi.Error
	if errors.As(err, &refused) {
		err = fmt.Errorf("%w; nothing was changed; correct cloud_provider.properties or the cause that the CPI names, then run `bootstrap deploy MANIFEST` again", err)
	}
	return err
}

// askCloud asks the CPI for the VM, the disks and the stemcell: a CPI with a wrong
// endpoint or wrong credentials fails before anything is changed.
func (r *run) askCloud(ctx context.Context, with plan.With) error {
	if with.AskVM != "" {
		if err := r.look.ForVM(ctx, with.AskVM, false); err != nil {
			return err
		}
	}
	st := r.t.State.Get()
	for _, cid := range with.AskDisks {
		d := plan.DiskOf(st, cid)
		if d == nil {
			continue
		}
		if err := r.look.ForDisk(ctx, d); err != nil {
			return err
		}
		if r.look.Facts.DiskGone {
			return &plan.DiskGoneError{CID: d.CID, As: st.NameOf(d.CID), Mounted: slices.Contains(r.look.Facts.Mounted, d.CID)}
		}
	}
	if !with.New {
		return nil
	}
	if _, err := r.vms.properties(ctx); err != nil {
		return err
	}
	return r.stemcells.look(ctx)
}
